/* Puts the bounded functions (bounded.h) in the place of Lua's own. */
#ifndef ORR_LUA_SANDBOX_BOUNDED_LIBRARIES_H
#define ORR_LUA_SANDBOX_BOUNDED_LIBRARIES_H

#include "lua/isolate.h"

/* Replaces Lua's own functions, which must be there.  May raise. */
void bounded_libraries_open(struct orr_isolate *iso, lua_State *L);

#endif
