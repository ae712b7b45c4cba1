/* Making handles of tasks.  The isolate's worker's thread. */
#ifndef ORR_LUA_TASK_HANDLE_H
#define ORR_LUA_TASK_HANDLE_H

#include "lua/task/task.h"

/*
 * Pushes a new handle with room for user values.  It has no coroutine yet, is not anchored, and is
 * no task. May raise.
 */
struct ltask *handle_new(struct orr_isolate *iso, lua_State *L, int user_values);

/* Gives the handle at the top of L a coroutine, as its first user value.  May raise. */
void handle_take_coroutine(lua_State *L, struct ltask *self);

/*
 * Makes the handle at the top of L provisional, if the pool has a coroutine.  Its creator runs on L.
 * False if the pool has none.  May raise.
 */
bool handle_take_seat(lua_State *L, struct ltask *self);

#endif
