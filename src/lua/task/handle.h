/* Making handles of tasks.  The isolate's worker's thread. */
#ifndef ORR_LUA_TASK_HANDLE_H
#define ORR_LUA_TASK_HANDLE_H

#include "lua/task/task.h"

/*
 * Pushes a new handle with a coroutine, and with room for user values.  It is not anchored, and no task yet.
 * May raise.
 */
struct ltask *handle_new(struct orr_isolate *iso, lua_State *L, int user_values);

#endif
