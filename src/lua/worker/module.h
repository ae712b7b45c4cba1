/* The Lua module `worker`: scripts that run on pool threads. */
#ifndef ORR_LUA_WORKER_MODULE_H
#define ORR_LUA_WORKER_MODULE_H

#include "lua/isolate.h"

/*
 * Opens the part of the module at the top of L that is there from the start: channels, which other
 * isolates send, too.  May raise.
 */
void worker_module_open(struct orr_isolate *iso, lua_State *L);

/* Runs the late file: [origin] -> [origin with `worker`].  May raise. */
void worker_module_run(struct orr_isolate *iso, lua_State *L);

/*
 * Runs lua/net_threads.lua, for which `worker` must have run: [origin] -> [origin with
 * `net_threads`].  May raise.
 */
void net_threads_module_run(struct orr_isolate *iso, lua_State *L);

#endif
