/*
 * What an untrusted script can reach: Lua's libraries cut down to an allow-list, with functions that never take long in the place of
 * those that could, and the API without what reaches beyond the isolate.  Only states of our own making are cut down.
 */
#ifndef ORR_LUA_SANDBOX_SANDBOX_H
#define ORR_LUA_SANDBOX_SANDBOX_H

#include "lua/isolate.h"

static inline bool sandbox_applies(const struct orr_isolate *iso)
{
    return isolate_is_sandboxed(iso);
}

/* All three may raise. */

/* Opens those libraries that something is allowed of. */
void sandbox_libraries(lua_State *L);

/* Cuts them down.  Before the API is made, which keeps what it uses. */
void sandbox_open(struct orr_isolate *iso, lua_State *L);

/* Cuts down the API, and makes `load` and `require`: [module] [what makes a require] -> [module]. */
void sandbox_finish(struct orr_isolate *iso, lua_State *L);

/* Pushes globals of a script's own. */
void sandbox_push_globals(lua_State *L);

/* Pushes the table of what the host has registered, by name. */
void sandbox_push_registered(lua_State *L);

#endif
