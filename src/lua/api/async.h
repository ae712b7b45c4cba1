/* The Lua module `async`: tasks, sleeping, and waiting for file descriptors. */
#ifndef ORR_LUA_API_ASYNC_H
#define ORR_LUA_API_ASYNC_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the functions to the table of the module `async`, at the top of L.  May raise. */
void async_open(struct orr_isolate *iso, lua_State *L);

/* async.current(): the running task, or nil.  A function of Lua with the isolate as its upvalue. */
int async_current(lua_State *L);

#endif
