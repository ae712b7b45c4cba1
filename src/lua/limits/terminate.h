/*
 * Ending Lua from outside.
 *
 * A call or task whose time is up is ended where it is, between two instructions.  The hook yields,
 * if every coroutine out to the task can, and the task is not resumed any more: neither pcall nor a
 * handler gets a turn.  Where one cannot, because a C function is in between, the hook raises an
 * error at every instruction until they can.  Message handlers would run inside the hook, where
 * hooks are off: so xpcall is ours, and skips them then.
 *
 * What is left open is closed afterwards, for a short time.  A coroutine that died of an error of
 * our hook is never closed: Lua has left its hooks off, and nothing could interrupt what it still
 * had to close.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_TERMINATE_H
#define ORR_LUA_LIMITS_TERMINATE_H

#include "lua/isolate.h"

/*
 * In a hook on L: ends the innermost level, because the time of `expired` is up.  Yields, if
 * `may_yield` and every coroutine can; else raises.
 */
void terminate_in_hook(struct orr_isolate *iso, lua_State *L, const struct level *expired, bool may_yield);

/*
 * In a C function of ours: ends the innermost level, because the time of `expired` is up.  Raises.
 */
void terminate_in_function(struct orr_isolate *iso, lua_State *L, const struct level *expired);

/* Why a coroutine must not be closed; NULL if it may. */
const char *terminate_refusal(struct orr_isolate *iso, lua_State *co);

/* Closes a coroutine that may be closed.  May run Lua on it.  Answers as lua_closethread(). */
int terminate_close(struct orr_isolate *iso, lua_State *L, lua_State *co);

/*
 * Closes the coroutines of a task or a call of a script that is not resumed any more, from the
 * innermost out, in a short time.  Does nothing if the script, or the isolate, is being ended and
 * its grace period is over.
 */
void terminate_close_chain(struct orr_isolate *iso, lua_State *innermost, lua_State *outermost, uint32_t script);

/*
 * A coroutine was resumed, and an error came back, which was popped.  If the coroutine has died of
 * it, and our hook has raised it (`in_hook`) or the level is being ended, the coroutine is never
 * closed.
 */
void terminate_mark(struct orr_isolate *iso, lua_State *co, bool in_hook);

/* Puts our xpcall in the place of Lua's own.  May raise. */
void terminate_open(struct orr_isolate *iso, lua_State *L);

#endif
