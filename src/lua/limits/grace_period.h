/*
 * Grace periods: whose Lua may still run, and for how long.
 *
 * When an isolate, a script in it or the whole runtime ends, a grace period begins.  Meanwhile what
 * was running may clean up, and nothing else of theirs begins.  Past the period none of their Lua
 * runs.  The process of ending them is in task/shutdown.h, which owns the structs.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_GRACE_PERIOD_H
#define ORR_LUA_LIMITS_GRACE_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

#define EVERY_SCRIPT UINT32_MAX

struct grace_period {
    struct grace_period *next; /* of the same isolate */
    uint32_t script;           /* or EVERY_SCRIPT */
    uint64_t end;              /* by the machine's clock */
};

struct grace_periods {
    struct grace_period *first; /* those that have begun */
};

/* From now on a script, or every script, may only clean up, for so many nanoseconds. */
void grace_period_begin(struct orr_isolate *iso, struct grace_period *self, uint32_t script, uint64_t ns);

/* Takes back grace_period_begin(). */
void grace_period_end(struct orr_isolate *iso, struct grace_period *self);

/* Whether a script may begin nothing any more that is not part of its cleanup. */
bool grace_period_refuses(const struct orr_isolate *iso, uint32_t script);

/*
 * How much longer the Lua of a script may run, in nanoseconds; ORR_NEVER where nothing is being
 * ended.
 */
uint64_t grace_period_left(const struct orr_isolate *iso, uint32_t script);

/* Whether the Lua of a script may not run any more. */
bool grace_period_is_over(const struct orr_isolate *iso, uint32_t script);

/* The one that began last; NULL for none. */
static inline struct grace_period *grace_period_first(const struct grace_periods *all)
{
    return all->first;
}

/* Whether any has begun. */
static inline bool grace_period_any(const struct grace_periods *all)
{
    return all->first;
}

#endif
