/* Calls from the host that wait for Lua to return.  The isolate's worker's thread. */
#ifndef ORR_LUA_HOST_CALL_H
#define ORR_LUA_HOST_CALL_H

#include "lua/isolate.h"

/*
 * As orr_lua_call(), for a script: what the function makes meanwhile belongs to it (task/script.h).
 * L belongs to an isolate.
 */
int call_for(uint32_t script, lua_State *L, int arguments, int results, uint64_t deadline_ns);

#endif
