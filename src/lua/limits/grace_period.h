/*
 * Grace periods: which scripts may still run Lua, and for how long.
 *
 * When an isolate, a script in it or the whole runtime shuts down, a grace period begins.  During
 * the period, running tasks and calls may clean up, and nothing new starts.  After the period none
 * of their Lua runs.  task/shutdown.h does the shutdown, and owns the structs.
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
    struct grace_period *first; /* the periods that have begun, newest first */
    void (*look)(void *data);   /* see grace_period_set_look(); NULL for none */
    void *data;
};

/*
 * Sets a function of a layer above.  It is called now and then while Lua cannot be suspended, so
 * that no task of the isolate can run: it begins a grace period if the Lua must end.
 */
static inline void grace_period_set_look(struct grace_periods *all, void (*look)(void *data), void *data)
{
    all->look = look;
    all->data = data;
}

static inline void grace_period_look(const struct grace_periods *all)
{
    if (all->look)
        all->look(all->data);
}

/* From now on a script, or EVERY_SCRIPT, may only clean up, for `ns` nanoseconds. */
void grace_period_begin(struct orr_isolate *iso, struct grace_period *self, uint32_t script, uint64_t ns);

/* Removes a grace period that has begun. */
void grace_period_end(struct orr_isolate *iso, struct grace_period *self);

/* Whether a script may only clean up, and start nothing else. */
bool grace_period_refuses(const struct orr_isolate *iso, uint32_t script);

/* How much longer a script's Lua may run, in nanoseconds; ORR_NEVER if no grace period applies. */
uint64_t grace_period_left(const struct orr_isolate *iso, uint32_t script);

/* Whether the grace period of a script is over: its Lua must not run any more. */
bool grace_period_is_over(const struct orr_isolate *iso, uint32_t script);

/* The grace period that began last; NULL for none. */
static inline struct grace_period *grace_period_first(const struct grace_periods *all)
{
    return all->first;
}

/* Whether any grace period has begun. */
static inline bool grace_period_any(const struct grace_periods *all)
{
    return all->first;
}

#endif
