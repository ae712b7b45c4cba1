/*
 * The Lua module `testing`, for test runners: who has made what, what is left of it, and the
 * virtual clock. Only isolates made for testing have it.
 */
#ifndef ORR_LUA_API_TESTING_H
#define ORR_LUA_API_TESTING_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the module to the table at the top of L, as its field `testing`.  May raise. */
void testing_open(struct orr_isolate *iso, lua_State *L);

#endif
