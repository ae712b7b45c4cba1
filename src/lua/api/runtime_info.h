/* The Lua module `runtime`: limits and statistics that a script may read. */
#ifndef ORR_LUA_API_RUNTIME_INFO_H
#define ORR_LUA_API_RUNTIME_INFO_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the module to the table at the top of L, as its field `runtime`.  May raise. */
void runtime_info_open(struct orr_isolate *iso, lua_State *L);

#endif
