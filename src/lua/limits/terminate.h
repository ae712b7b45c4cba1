/*
 * Termination: ending Lua from outside.
 *
 * A call or task that is past its limit ends where it is, between two instructions.  If every
 * coroutine out to the task can yield, the hook yields, and the task is never resumed: neither
 * pcall nor a message handler runs.  If a C function in between prevents the yield, the hook raises
 * an error at every instruction until yielding is possible.  Message handlers would then run inside
 * the hook, where hooks are off.  So Orrery replaces xpcall with a version that skips them.
 *
 * Afterwards the to-be-closed variables are closed, with a short time limit.  A coroutine that died
 * of an error raised in the hook is never closed: Lua leaves its hooks off, so nothing could
 * interrupt its `__close` metamethods.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_TERMINATE_H
#define ORR_LUA_LIMITS_TERMINATE_H

#include "lua/isolate.h"

/*
 * In a hook on L: ends the innermost level, because `expired` must end.  Yields if `may_yield` is
 * true and every coroutine can yield; else raises.
 */
void terminate_in_hook(struct orr_isolate *iso, lua_State *L, const struct level *expired, bool may_yield);

/* In a C function: ends the innermost level, because `expired` must end.  Raises. */
void terminate_in_function(struct orr_isolate *iso, lua_State *L, const struct level *expired);

/* Returns why a coroutine must not be closed; NULL if it may be closed. */
const char *terminate_refusal(struct orr_isolate *iso, lua_State *co);

/* Closes a coroutine that may be closed.  May run Lua on it.  Returns as lua_closethread() does. */
int terminate_close(struct orr_isolate *iso, lua_State *L, lua_State *co);

/*
 * Closes the coroutines of a task or call that will not be resumed, from `innermost` out to
 * `outermost`, with a short time limit.  Does nothing if the grace period of the script or the
 * isolate is over.
 */
void terminate_close_chain(struct orr_isolate *iso, lua_State *innermost, lua_State *outermost, uint32_t script);

/*
 * Must be called after a resume that failed, once the error is popped.  Marks a coroutine that died
 * of an error raised in the hook (`in_hook`), or while its level ends: it will never be closed.
 */
void terminate_mark(struct orr_isolate *iso, lua_State *co, bool in_hook);

/* Replaces xpcall.  May raise. */
void terminate_open(struct orr_isolate *iso, lua_State *L);

#endif
