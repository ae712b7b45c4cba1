/* The Lua module `orrery`: opens every module of the API in a new state. */
#ifndef ORR_LUA_HOST_MODULES_H
#define ORR_LUA_HOST_MODULES_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Creates the module `orrery`, and its global if the isolate's settings name one.  May raise. */
void modules_open(struct orr_isolate *iso, lua_State *L);

#endif
