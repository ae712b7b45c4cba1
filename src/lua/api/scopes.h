/* async.scope, supervise, shield, with_timeout and move_on_after. */
#ifndef ORR_LUA_API_SCOPES_H
#define ORR_LUA_API_SCOPES_H

#include "lua/isolate/compat.h"
#include "orrery.h"

#include <stdbool.h>

struct ltask;
struct orr_isolate;

/* Every scope of the core that a Lua task enters is the first member of one of these. */
struct scope_block {
    struct orr_scope scope;
    int error;    /* what the code inside has ended with: 0 or a negative errno */
    lua_State *L; /* the coroutine that is inside */
};

/* Adds the functions to the table of the module `async`, at the top of L.  May raise. */
void scopes_open(struct orr_isolate *iso, lua_State *L);

/* Whether coroutine L of a task is inside one of these functions: it must not yield out of it. */
bool scopes_contain(const struct ltask *task, const lua_State *L);

#endif
