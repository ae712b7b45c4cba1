/*
 * Notices: what the host is told beside the results of its calls.
 *
 * A notice goes to the host's function as soon as no Lua runs.  If the host has no function for
 * that, it goes to the log, after the failures of tasks that came before it have been reported.
 * That a handler is disabled comes after those failures for the host's function, too.
 *
 * Who else hears of it: when a task times out, the error sink, or the task that awaits it; when
 * instructions are counted, the log, from the watch.  Such notices do not go to the log.
 *
 * Without memory for a notice, it is dropped.  The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_NOTICES_H
#define ORR_LUA_LIMITS_NOTICES_H

#include "orrery.h"

#include <stdbool.h>

struct orr_isolate;
struct notice;

struct notices {
    struct notice *first;
    /* While the host is told that a handler was disabled: its number */
    int64_t disabled;
    /* Failures of tasks that nobody saw so far, and those that have been reported */
    uint64_t failures, reported;
};

void notices_add(struct orr_isolate *iso, enum orr_lua_notice kind, const char *text);

/* A handler of an event, or a timer's callback (0), is not called any more. */
void notices_add_disabled(struct orr_isolate *iso, const char *text, int64_t handler);

/*
 * A call of the host has timed out.  `told`: it ended with one around it, which is reported.  Else
 * nobody hears more of it.
 */
void notices_add_call(struct orr_isolate *iso, const char *text, bool told);

/* Delivers what is due.  No Lua may run. */
void notices_deliver(struct orr_isolate *iso);

/* A task has failed, and nobody has seen that: notices from now on come after its report. */
static inline void notices_count_failure(struct notices *self)
{
    self->failures++;
}

/* The oldest such failure has been reported, or was seen.  Then notices_deliver_soon() is due. */
static inline void notices_count_report(struct notices *self)
{
    self->reported++;
}

/* Delivers what is due, unless Lua runs: then that comes at the end of the slice. */
void notices_deliver_soon(struct orr_isolate *iso);

/* While the host is told that a handler was disabled: the handler's number; else 0. */
static inline int64_t notices_disabled_handler(const struct notices *self)
{
    return self->disabled;
}

static inline bool notices_any(const struct notices *self)
{
    return self->first;
}

#endif
