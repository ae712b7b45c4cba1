/* Errors as people read them: the message, and the stack of every task in the chain, newest first. */
#ifndef ORR_LUA_REPORT_H
#define ORR_LUA_REPORT_H

#include "lua/task.h"

/* Keeps the text of the error at `index`, with the stack that it is raised on, in the task.  May raise. */
void report_keep(struct ltask *self, lua_State *L, int index);

/* Pushes the stacks of a task and of those above it, after `message` if that is not NULL. */
void report_push_traceback(lua_State *L, struct ltask *self, const char *message);

/* Pushes the full report of a failed task: the error, where it arose, and the way that it took up. */
void report_push_failure(lua_State *L, struct orr_task *task);

#endif
