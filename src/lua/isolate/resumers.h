/*
 * The coroutines of scripts that wait inside tasks, and who resumed each of them.
 *
 * A coroutine that waits yields to us, and we, inside the coroutine that resumed it, yield too,
 * until the task is reached.  Going on, or closing, comes back the same way: so it must be known.
 * Weak: a coroutine that nobody holds any more is forgotten.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_RESUMERS_H
#define ORR_LUA_ISOLATE_RESUMERS_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

/* May raise. */
void resumers_open(lua_State *L);

/* `co`, which L has resumed, waits inside a task from now on.  May raise. */
void resumers_add(lua_State *L, lua_State *co);

/* `co` waits no more.  Never allocates. */
void resumers_remove(lua_State *L, lua_State *co);

/* Whether `co` waits inside a task. */
bool resumers_has(lua_State *L, lua_State *co);

/* Who resumed `co`, which waits; NULL if it does not, or L has no room on its stack. */
lua_State *resumers_find(lua_State *L, lua_State *co);

#endif
