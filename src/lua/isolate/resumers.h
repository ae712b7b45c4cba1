/*
 * The scripts' coroutines that wait inside tasks, and which coroutine resumed each of them.
 *
 * A coroutine that waits yields to the library.  The library, inside the coroutine that resumed it,
 * yields too, and so on out to the task.  Resuming or closing the coroutine goes the same way back,
 * so the resumer must be known.  The table is weak: a coroutine that nothing refers to any more is
 * forgotten.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_RESUMERS_H
#define ORR_LUA_ISOLATE_RESUMERS_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

/* May raise. */
void resumers_open(lua_State *L);

/* L has resumed `co`, which waits inside a task from now on.  May raise. */
void resumers_add(lua_State *L, lua_State *co);

/* `co` no longer waits.  Never allocates. */
void resumers_remove(lua_State *L, lua_State *co);

/* Whether `co` waits inside a task. */
bool resumers_has(lua_State *L, lua_State *co);

/* The coroutine that resumed the waiting `co`; NULL if `co` does not wait, or L's stack is full. */
lua_State *resumers_find(lua_State *L, lua_State *co);

#endif
