/* orrery.grants(): what a script may reach.  The isolate's worker's thread. */
#ifndef ORR_LUA_API_GRANTS_LIST_H
#define ORR_LUA_API_GRANTS_LIST_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the function to the module at the top of L.  May raise. */
void grants_list_open(struct orr_isolate *iso, lua_State *L);

#endif
