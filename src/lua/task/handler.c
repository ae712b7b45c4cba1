#include "lua/task/handler.h"

#include <errno.h>
#include <stdio.h>

bool handler_judge(struct handler *self, int error, unsigned limit, const char *event, char text[HANDLER_TEXT])
{
    self->strikes = error == -ETIME ? self->strikes + 1 : 0;
    if (!limit || self->strikes < limit || self->disabled)
        return false;
    self->disabled = true;
    if (self->id)
        snprintf(text, HANDLER_TEXT,
                 "handler %lld of the event '%.60s' has timed out %u times in a row, and is not called any more; "
                 "fix it, then enable it with orr_events_enable()",
                 (long long)self->id, event, self->strikes);
    else
        snprintf(text, HANDLER_TEXT,
                 "a timer's callback has timed out %u times in a row, and is not called any more; "
                 "fix it, then start the timer again",
                 self->strikes);
    return true;
}
