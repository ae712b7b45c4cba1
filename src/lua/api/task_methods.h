/* The methods of task handles. */
#ifndef ORR_LUA_API_TASK_METHODS_H
#define ORR_LUA_API_TASK_METHODS_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the methods to the class of tasks, LTASK_CLASS.  May raise. */
void task_methods_open(struct orr_isolate *iso, lua_State *L);

#endif
