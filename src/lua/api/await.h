/* async.await, in all its forms. */
#ifndef ORR_LUA_API_AWAIT_H
#define ORR_LUA_API_AWAIT_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds `await` to the table of the module `async`, at the top of L.  May raise. */
void await_open(struct orr_isolate *iso, lua_State *L);

#endif
