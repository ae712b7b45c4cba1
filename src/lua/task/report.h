/*
 * Errors as people read them: the message, and the stack of every task in the chain, newest first.
 */
#ifndef ORR_LUA_TASK_REPORT_H
#define ORR_LUA_TASK_REPORT_H

#include "lua/task/task.h"

/* Bytes that are kept of an error's text: beyond, it is cut, and says so. */
enum { REPORT_TEXT = 4096 };

/*
 * Keeps the text of the error at `index`, with the stack that it is raised on, in the task.  May
 * raise.
 */
void report_keep(struct ltask *self, lua_State *L, int index);

/*
 * Pushes the stacks of the tasks that a task waits for, of itself, and of those above it, after
 * `message` if that is not NULL.
 */
void report_push_traceback(lua_State *L, struct ltask *self, const char *message);

/*
 * Pushes the full report of a failed task: the error, where it arose, and the way that it took up.
 */
void report_push_failure(lua_State *L, struct orr_task *task);

/* Says who a task is, in the report of a time-out: a timeout_describe_fn. */
void report_describe(const struct ltask *task, struct timeout_subject *out);

#endif
