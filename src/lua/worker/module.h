/* The Lua module `worker`: scripts that run on pool threads. */
#ifndef ORR_LUA_WORKER_MODULE_H
#define ORR_LUA_WORKER_MODULE_H

#include "lua/isolate.h"

/* Adds `worker` and its classes to the module at the top of L.  May raise. */
void worker_module_open(struct orr_isolate *iso, lua_State *L);

#endif
