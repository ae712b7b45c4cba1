/*
 * The report of a call or task that timed out: its name, how long it ran, where it was, and which C
 * function took the time.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_TIMEOUT_REPORT_H
#define ORR_LUA_LIMITS_TIMEOUT_REPORT_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct orr_isolate;
struct level;
struct ltask;

#define TIMEOUT_TEXT "Script execution timeout"
#define YIELDED_TEXT "a C function yielded to the host"

/* What the task layer knows about a task, or about a call from the host. */
struct timeout_subject {
    const char *name;          /* NULL for none */
    const char *script;        /* the script or the isolate that it belongs to; NULL for none */
    unsigned ignored;          /* how often it caught its cancellation and continued */
    bool ignored_more;         /* it did so more than `ignored` times */
    const char *ignored_where; /* " at file:line", or an empty text */
};

/* `task` is NULL for a call from the host. */
typedef void timeout_describe_fn(const struct orr_isolate *iso, const struct ltask *task, struct timeout_subject *out);

struct timeout_report {
    timeout_describe_fn *describe; /* set by the task layer */
    /* Text: the C function that ran when the slice was over, and for how long */
    char slow[80];
};

static inline void timeout_report_open(struct timeout_report *self, timeout_describe_fn *describe)
{
    self->describe = describe;
}

/*
 * Writes the report that `expired` must end, and stores it in the innermost level.  Called in a
 * hook on L, or in a C function.  Never raises; if memory runs out there is no report.
 */
void timeout_report_keep(struct orr_isolate *iso, lua_State *L, const struct level *expired);

/* In a return hook: records the C function that ran when the slice was over.  Never raises. */
void timeout_report_note_slow(struct orr_isolate *iso, lua_State *L, lua_Debug *event);

/* Forgets the slow C function, at the end of the slice. */
static inline void timeout_report_forget_slow(struct timeout_report *self)
{
    *self->slow = '\0';
}

#endif
