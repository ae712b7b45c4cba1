/* string.find, string.match and string.gmatch, which can be paused. */
#ifndef ORR_LUA_PATTERN_FIND_H
#define ORR_LUA_PATTERN_FIND_H

#include "lua/isolate.h"

/* Registers them in the table at the top.  May raise. */
void find_open(struct orr_isolate *iso, lua_State *L);

#endif
