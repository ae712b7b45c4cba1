/*
 * Levels: the limits of Lua that runs inside other Lua, such as a poll of a task inside a call from
 * the host inside another poll (struct level in isolate/execution.h).
 *
 * Each level has its own limit, in nanoseconds, or in instructions in the mode ORR_LUA_COUNT.
 * Limits nest: a level ends when its own limit, or the limit of any outer level, is used up.
 *
 * Reading the clock costs time, so a level records its start only if its limit is short, if it has
 * used a part of the limit before, or when the slice is over.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_LEVEL_H
#define ORR_LUA_LIMITS_LEVEL_H

#include "lua/isolate.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/memory_limit.h"

/* Begins to measure a level that level_is_short() has found, or to count its instructions. */
void level_limit(struct orr_isolate *iso, struct level *level);

/*
 * Whether a level must be measured from its start.  The end of the slice measures all others: that
 * comes early enough for a limit of two slices or more.
 */
static inline bool level_is_short(const struct limits *limits, const struct level *level)
{
    if (limits->mode != ORR_LUA_SIGNAL)
        return limits->mode == ORR_LUA_COUNT;
    return level->used || (level->limit && level->limit < 2 * limits->slice_ns);
}

/*
 * Between level_enter() and level_leave(), Lua runs on `level->co`, for `task`, or for a call from
 * the host if `task` is NULL.  The caller owns the struct, and fills in the fields from `co` to
 * `used` first.
 */
static inline void level_enter(struct orr_isolate *iso, struct level *level, struct ltask *task)
{
    level->since = 0;
    level->raised = level->exposed = level->renewed = false;
    level->end = LEVEL_GOES_ON;
    level->report = NULL;
    execution_enter_level(&iso->execution, level, task);
    if (level_is_short(&iso->limits, level))
        level_limit(iso, level);
    if (memory_limit_is_pending(&iso->memory_alarm, &iso->oversized) || ban_is_imposed(&iso->ban))
        interrupt_request(iso);
    interrupt_switched(&iso->interrupt, iso);
}

static inline void level_leave(struct orr_isolate *iso, struct level *level)
{
    if (level->report)
        charge_free_text(iso, &level->report);
    execution_leave_level(&iso->execution, level);
    interrupt_switched(&iso->interrupt, iso);
}

/*
 * The level that runs goes on with another call, of a script and with a limit of its own.  Nothing
 * of the limit is used.  Not in the mode ORR_LUA_COUNT, where the count belongs to the coroutine.
 */
void level_renew(struct orr_isolate *iso, struct level *level, uint32_t script, uint64_t limit);

/* How much of its limit a level has used so far, in the unit of the limit. */
uint64_t level_used(const struct orr_isolate *iso, const struct level *level);

/* The innermost level past its limit.  The outermost level, if the script is banned.  Or NULL. */
struct level *level_find_expired(struct orr_isolate *iso);

/* The innermost level whose script or isolate is past its grace period; NULL for none. */
struct level *level_find_past_grace(struct orr_isolate *iso);

/* Whether the running Lua must end, so that any error may end it.  Async-signal-safe. */
bool level_is_overdue(const struct orr_isolate *iso);

/* In the mode ORR_LUA_COUNT: the number of instructions until the next count event. */
int level_next_count(const struct orr_isolate *iso);

/*
 * Must be called before Lua runs on a coroutine that a script has created.  Starts to count its
 * instructions in the mode ORR_LUA_COUNT, and moves a requested hook to it.
 */
void level_enter_coroutine(struct orr_isolate *iso, lua_State *co);

/*
 * Must be called when a coroutine is created.  In the mode ORR_LUA_COUNT it charges one check
 * interval in advance: a script could otherwise run many coroutines that each end before their
 * first count event.
 */
void level_charge_coroutine(struct orr_isolate *iso);

#endif
