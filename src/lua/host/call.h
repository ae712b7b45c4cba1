/* Calls from the host that wait for Lua to return: what is inside orr_lua_call(). */
#ifndef ORR_LUA_HOST_CALL_H
#define ORR_LUA_HOST_CALL_H

#include "lua/isolate.h"

/* As orr_lua_call(); what the function makes meanwhile is that script's: see script.h.  L is of an isolate. */
int call_for(uint32_t script, lua_State *L, int arguments, int results, uint64_t deadline_ns);

#endif
