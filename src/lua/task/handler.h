/*
 * A handler is a function that is called again and again: a handler of events, or a timer's
 * callback. Each call is a task of its own.
 *
 * This file holds the whole policy of strikes.  A call that times out is a strike; a call that ends
 * in any other way clears the strikes.  A handler whose strikes reach the limit of its isolate
 * (`strikes` in struct orr_lua_options) is disabled: the host is told (ORR_LUA_DISABLED), and those
 * who start calls start none.  A disabled handler is enabled again by orr_events_enable(), a timer
 * by timer:start().
 *
 *   api/event_calls.c    asks handler_is_disabled() before a call
 *   api/events.c         enables
 *   api/script_timers.c  asks handler_is_disabled() before a call; enables
 *   task/runner.c        handler_clear() after a call that left its runner clean
 *   task/drop.c          handler_judge() when any other call is over; tells the host
 *
 * The isolate's worker's thread.  Nothing here allocates.
 */
#ifndef ORR_LUA_TASK_HANDLER_H
#define ORR_LUA_TASK_HANDLER_H

#include <stdbool.h>
#include <stdint.h>

/* The first member of the userdata that it is part of. */
struct handler {
    int64_t id;       /* the number of an event's handler; 0 for a timer */
    uint32_t script;  /* the script that it belongs to: see script.h */
    unsigned strikes; /* time-outs in a row */
    bool disabled;
    bool once; /* an event's handler that is called once */
    bool gone; /* an event's handler that was removed */
};

enum { HANDLER_TEXT = 600 }; /* bytes that handler_judge() writes at most */

static inline bool handler_is_disabled(const struct handler *self)
{
    return self->disabled;
}

/* A call has ended without a time-out. */
static inline void handler_clear(struct handler *self)
{
    self->strikes = 0;
}

static inline void handler_enable(struct handler *self)
{
    self->strikes = 0;
    self->disabled = false;
}

/*
 * A call of the handler is over, with 0 or a negative errno; -ETIME is a time-out.  True if that
 * disables the handler: then `text` says so.  `limit` is the isolate's, 0 for none.  `event` names
 * the event, `script` the script, if that is known.
 */
bool handler_judge(struct handler *self, int error, unsigned limit, const char *event, const char *script,
                   char text[HANDLER_TEXT]);

#endif
