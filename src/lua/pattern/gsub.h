/* string.gsub, which can be paused, and whose replacement function can yield. */
#ifndef ORR_LUA_PATTERN_GSUB_H
#define ORR_LUA_PATTERN_GSUB_H

#include "lua/isolate.h"

/* Registers it in the table at the top.  May raise. */
void gsub_open(struct orr_isolate *iso, lua_State *L);

#endif
