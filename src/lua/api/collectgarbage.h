/* Lua's `collectgarbage`, where Orrery steps the collector. */
#ifndef ORR_LUA_API_COLLECTGARBAGE_H
#define ORR_LUA_API_COLLECTGARBAGE_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Replaces the global function, if Orrery manages the collector of this state.  May raise. */
void collectgarbage_open(struct orr_isolate *iso, lua_State *L);

#endif
