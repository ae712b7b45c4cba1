/* Calls from the host that wait for Lua to return.  The isolate's worker's thread. */
#ifndef ORR_LUA_HOST_CALL_H
#define ORR_LUA_HOST_CALL_H

#include "lua/isolate.h"

/*
 * Does the work of orr_lua_call() on behalf of a script: tasks, timers and handlers that the
 * function creates belong to that script (task/script.h).  L must belong to an isolate.
 */
int call_for(uint32_t script, lua_State *L, int arguments, int results, uint64_t deadline_ns);

#endif
