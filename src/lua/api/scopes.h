/* async.scope, supervise, shield, with_timeout and move_on_after. */
#ifndef ORR_LUA_API_SCOPES_H
#define ORR_LUA_API_SCOPES_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct ltask;
struct orr_isolate;

/* Adds the functions to the table of the module `async`, at the top of L.  May raise. */
void scopes_open(struct orr_isolate *iso, lua_State *L);

/* Whether coroutine L of a task is inside one of these functions: it must not yield out of it. */
bool scopes_contain(const struct ltask *task, const lua_State *L);

#endif
