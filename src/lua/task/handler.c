#include "lua/task/handler.h"

#include "lua/isolate.h"

#include <errno.h>
#include <stdio.h>

void handler_judge(const struct orr_isolate *iso, struct handler *self, int error, const char *name,
                   char verdict[HANDLER_VERDICT])
{
    self->strikes = error == -ETIME ? self->strikes + 1 : 0;
    if (!iso->limits.strikes || self->strikes < iso->limits.strikes || self->disabled)
        return;
    self->disabled = true;
    char who[96] = "a timer's callback";
    if (self->id)
        snprintf(who, sizeof who, "handler %lld of the event '%.60s'", (long long)self->id, name);
    snprintf(verdict, HANDLER_VERDICT, "%s has timed out %u times in a row, and is not called any more", who,
             self->strikes);
}
