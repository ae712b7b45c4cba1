/* The module `net` of scripts, and the standard streams.  The isolate's worker's thread. */
#ifndef ORR_LUA_NET_MODULE_H
#define ORR_LUA_NET_MODULE_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Makes the classes and runs lua/net.lua: see struct late_module.  May raise. */
void net_module_run(struct orr_isolate *iso, lua_State *L);

#endif
