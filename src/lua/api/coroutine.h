/* Lua's library `coroutine`, for scripts that run in tasks. */
#ifndef ORR_LUA_API_COROUTINE_H
#define ORR_LUA_API_COROUTINE_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Replaces the functions of the global table `coroutine`.  May raise. */
void coroutine_open(struct orr_isolate *iso, lua_State *L);

#endif
