#include "lua/task/handler.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>

static void write_verdict(const struct handler *self, const char *event, const char *script, char text[HANDLER_TEXT])
{
    char event_name[TEXT_NAME_ROOM], script_name[TEXT_NAME_ROOM], who[TEXT_NAME_ROOM + 64];
    text_name(event_name, event ? event : "");
    text_name(script_name, script ? script : "");
    if (self->id)
        snprintf(who, sizeof who, "handler %lld of the event '%s'", (long long)self->id, event_name);
    else
        snprintf(who, sizeof who, "a timer's callback");
    snprintf(text, HANDLER_TEXT,
             "%s%s%s%s has timed out %u times in a row, and is not called any more; fix it, then %s", who,
             script ? " in '" : "", script_name, script ? "'" : "", self->strikes,
             self->id ? "enable it with orr_events_enable()" : "start the timer again");
}

bool handler_judge(struct handler *self, int error, unsigned limit, const char *event, const char *script,
                   char text[HANDLER_TEXT])
{
    self->strikes = error == -ETIME ? self->strikes + 1 : 0;
    if (!limit || self->strikes < limit || self->disabled)
        return false;
    self->disabled = true;
    write_verdict(self, event, script, text);
    return true;
}
