/* The Lua module `json`. */
#ifndef ORR_LUA_API_JSON_H
#define ORR_LUA_API_JSON_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the module to the table at the top of L, as its field `json`.  May raise. */
void json_open(struct orr_isolate *iso, lua_State *L);

#endif
