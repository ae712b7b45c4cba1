/*
 * Notices: events that the host hears of through its notice callback.
 *
 * A notice is delivered to the host's callback as soon as no Lua runs.  If the host has set no
 * callback, the notice goes to the log, after the reports of all tasks that failed before it.  The
 * notice that a handler is disabled always waits for those reports.
 *
 * Every event is delivered once.  The timeout of a task is a notice if the host has a callback for
 * notices, and then its failure does not go to the sink (task/unhandled.c); else the awaiting task
 * or the sink hears of it.  The watch logs that slices are counted, so that notice is not logged.
 *
 * A notice is dropped if there is no memory for it.  The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_NOTICES_H
#define ORR_LUA_LIMITS_NOTICES_H

#include "orrery.h"

#include <stdbool.h>

struct orr_isolate;
struct notice;

struct notices {
    struct notice *first; /* oldest first */
    /* The number of the disabled handler whose notice is being delivered; else 0 */
    int64_t disabled;
    /* Task failures that nobody observed, and how many of them have been reported */
    uint64_t failures, reported;
};

void notices_add(struct orr_isolate *iso, enum orr_lua_notice kind, const char *text);

/*
 * Adds a notice that a task has timed out, if the host wants to hear of it in this way.  False if
 * not, or for lack of memory: then its failure must go to the sink.
 */
bool notices_add_timeout(struct orr_isolate *iso, const char *text);

/* Adds a notice that an event handler, or a timer's callback (0), has been disabled. */
void notices_add_disabled(struct orr_isolate *iso, const char *text, int64_t handler);

/* Adds a notice that a call from the host has timed out. */
void notices_add_call(struct orr_isolate *iso, const char *text);

/* Delivers all notices that are due.  No Lua may run meanwhile. */
void notices_deliver(struct orr_isolate *iso);

/* Counts a task failure that nobody observed.  Notices added later come after its report. */
static inline void notices_count_failure(struct notices *self)
{
    self->failures++;
}

/* Counts a failure as reported or observed.  Call notices_deliver_soon() afterwards. */
static inline void notices_count_report(struct notices *self)
{
    self->reported++;
}

/* Delivers all notices that are due.  If Lua runs, they wait for the end of the slice. */
void notices_deliver_soon(struct orr_isolate *iso);

/* The number of the disabled handler whose notice is being delivered; else 0. */
static inline int64_t notices_disabled_handler(const struct notices *self)
{
    return self->disabled;
}

static inline bool notices_any(const struct notices *self)
{
    return self->first;
}

#endif
