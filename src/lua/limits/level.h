/*
 * Levels are Lua inside Lua: a poll inside a call inside a poll (struct level in
 * isolate/execution.h).
 *
 * Each level has a limit of its own, in nanoseconds, or in instructions where those are counted.
 * Limits stack: a level ends when its own time, or that of any level outside it, is up.
 *
 * Time is not measured while there is plenty: a level notes when it began only if its limit is
 * short, if it has used some of it before, or when the slice is over.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_LEVEL_H
#define ORR_LUA_LIMITS_LEVEL_H

#include "lua/isolate.h"

/*
 * Between the two, Lua runs on `level->co`, for a task or, with NULL, for a call of the host.  The
 * caller has filled in the fields from `co` to `used`, and owns the struct.
 */
void level_enter(struct orr_isolate *iso, struct level *level, struct ltask *task);
void level_leave(struct orr_isolate *iso, struct level *level);

/* What a level has used of its limit, up to now. */
uint64_t level_used(const struct orr_isolate *iso, const struct level *level);

/*
 * The innermost level whose time is up, or the outermost of a script that is banned; NULL for none.
 */
struct level *level_find_expired(struct orr_isolate *iso);

/* The innermost level whose script, or isolate, has used up its grace period; NULL for none. */
struct level *level_find_past_grace(struct orr_isolate *iso);

/*
 * Whether what runs is to be ended, so that it does not matter which error does it.
 * Async-signal-safe.
 */
bool level_is_overdue(const struct orr_isolate *iso);

/* Where instructions are counted: how many may run before the next look. */
int level_next_count(const struct orr_isolate *iso);

/*
 * To be called before Lua runs on a coroutine of the script's own: if instructions are counted,
 * then there too.
 */
void level_enter_coroutine(struct orr_isolate *iso, lua_State *co);

/*
 * A coroutine is made, where instructions may be counted.  It may end before its first count is
 * full, and be followed by many more: so that count is charged in advance.
 */
void level_charge_coroutine(struct orr_isolate *iso);

#endif
