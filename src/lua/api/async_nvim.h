/* The Lua module `orrery.async_nvim`: that of async.nvim, for plugins that were written for it. */
#ifndef ORR_LUA_API_ASYNC_NVIM_H
#define ORR_LUA_API_ASYNC_NVIM_H

#include "lua/isolate/compat.h"

struct orr_isolate;

#define ASYNC_NVIM_NAME "orrery.async_nvim"

/*
 * Lets `require` load the module.  A function that returns the module `orrery` is at the top of L.
 * May raise.
 */
void async_nvim_open(struct orr_isolate *iso, lua_State *L);

#endif
