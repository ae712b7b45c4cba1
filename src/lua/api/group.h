/* Waiting for many tasks at once: what lua/async.lua builds await_any, await_all and iter on. */
#ifndef ORR_LUA_API_GROUP_H
#define ORR_LUA_API_GROUP_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the private function `_group` to the module `async`, at the top of L.  May raise. */
void group_open(struct orr_isolate *iso, lua_State *L);

#endif
