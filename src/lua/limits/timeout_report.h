/*
 * The report of a call or task whose time is up: who it was, for how long it ran, where it was, and
 * which C function took the time.
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

/* What the layer above says about a task. */
struct timeout_subject {
    const char *name;          /* NULL for none */
    unsigned ignored;          /* how often it caught its cancellation and went on; 0 for never */
    bool ignored_more;         /* even more often */
    const char *ignored_where; /* " at file:line", or an empty text */
};

typedef void timeout_describe_fn(const struct ltask *task, struct timeout_subject *out);

struct timeout_report {
    timeout_describe_fn *describe; /* given by the layer above */
    /* The C function that ran when the slice was over, and for how long */
    char slow[80];
};

static inline void timeout_report_open(struct timeout_report *self, timeout_describe_fn *describe)
{
    self->describe = describe;
}

/*
 * Keeps, with the innermost level, a report of its end, because the time of `expired` is up.  In a
 * hook of L, or in a C function.  Never raises; without memory there is no report.
 */
void timeout_report_keep(struct orr_isolate *iso, lua_State *L, const struct level *expired);

/* In a return hook: the C function that returns has run while the slice ended.  Never raises. */
void timeout_report_note_slow(struct orr_isolate *iso, lua_State *L, lua_Debug *event);

/* The slice has ended: its slow C function is of no interest any more. */
static inline void timeout_report_forget_slow(struct timeout_report *self)
{
    *self->slow = '\0';
}

#endif
