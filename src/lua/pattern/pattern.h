/* Lua's functions with patterns, such that they can be paused (match.h). */
#ifndef ORR_LUA_PATTERN_PATTERN_H
#define ORR_LUA_PATTERN_PATTERN_H

#include "lua/isolate.h"

/* Registers find, match, gmatch and gsub in the table at the top.  May raise. */
void pattern_open(struct orr_isolate *iso, lua_State *L);

#endif
