/* The Lua module `loop`: the clock, and timers with callbacks. */
#ifndef ORR_LUA_API_LOOP_H
#define ORR_LUA_API_LOOP_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the module to the table at the top of L, as its field `loop`.  May raise. */
void loop_open(struct orr_isolate *iso, lua_State *L);

#endif
