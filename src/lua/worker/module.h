/* The module `worker`. */
#ifndef ORR_LUA_WORKER_MODULE_H
#define ORR_LUA_WORKER_MODULE_H

#include "lua/isolate.h"

/* Adds it to the module at the top of L.  May raise. */
void worker_module_open(struct orr_isolate *iso, lua_State *L);

#endif
