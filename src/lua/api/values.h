/* The Lua module `values`: messages of workers as strings that can be kept. */
#ifndef ORR_LUA_API_VALUES_H
#define ORR_LUA_API_VALUES_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the module to the table at the top of L, as its field `values`.  May raise. */
void values_open(struct orr_isolate *iso, lua_State *L);

#endif
