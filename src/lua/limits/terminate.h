/* Ending Lua from outside, and what must not get in the way of that: closing coroutines, xpcall. */
#ifndef ORR_LUA_LIMITS_TERMINATE_H
#define ORR_LUA_LIMITS_TERMINATE_H

#include "lua/isolate.h"

/*
 * Why a coroutine must not be closed; NULL if it may.  Too many are being closed inside one another; or it died of an error that our
 * hook raised: Lua has left its hooks off then, and what it still had to close could not be interrupted.
 */
const char *close_refusal(struct orr_isolate *iso, lua_State *co);

/* Closes one that may be, which may run Lua on it; answers as lua_closethread(). */
int close_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co);

/*
 * Closes those of a task or a call of a script that is not resumed any more, from the innermost out, in a short time; and not at all if the
 * script, or the isolate, is being ended and its grace period is over.
 */
void close_chain(struct orr_isolate *iso, lua_State *innermost, lua_State *outermost, uint32_t script);

/*
 * Resuming a coroutine has come to an error, which was taken off.  If the coroutine has died of it, and our hook has raised it or what runs is
 * being ended, it is never closed.
 */
void mark_ended(struct orr_isolate *iso, lua_State *co, bool in_hook);

/* Puts our xpcall in the place of Lua's own. */
void terminate_open(struct orr_isolate *iso, lua_State *L);

#endif
