/* Lua's library `coroutine`, for scripts that run in tasks. */
#ifndef ORR_LUA_API_COROUTINE_H
#define ORR_LUA_API_COROUTINE_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Replaces the functions of the global table `coroutine`.  May raise. */
void coroutine_open(struct orr_isolate *iso, lua_State *L);

/*
 * The coroutine that resumed `co`, if `co` waits inside a task or was suspended in the middle of a
 * slice; NULL for other coroutines, and if the stack of L cannot grow.
 */
lua_State *coroutine_resumer(lua_State *L, lua_State *co);

#endif
