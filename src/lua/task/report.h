/* Error reports for people: the message, and the stack trace of every task that it went through. */
#ifndef ORR_LUA_TASK_REPORT_H
#define ORR_LUA_TASK_REPORT_H

#include "lua/task/task.h"

/* The most bytes of an error's text.  A longer text is cut, with a note of its length. */
enum { REPORT_TEXT = 4096 };

/*
 * In a message handler, with the error at the top: stores its trace in the task.  The stack of L is
 * that on which it was raised.  If a failed task that a script has awaited raised the same error,
 * the trace begins with that task's.  May raise.
 */
void report_keep(struct ltask *self, lua_State *L);

/*
 * [error] -> [error] [text]: the text of the error, the stacks of the tasks that it came through,
 * and that of L, from a level on.  May raise.
 */
void report_push_caught(struct orr_isolate *iso, lua_State *L, int level);

/*
 * The error at the top is raised anew, and did not come from another task.  Forgets that a script
 * was told of an equal one.
 */
void report_forget(struct orr_isolate *iso, lua_State *L);

/*
 * Pushes `message`, unless it is NULL, and the stack traces of the tasks that a task waits for, of
 * the task itself, and of its ancestors, in this order.  May raise.
 */
void report_push_traceback(lua_State *L, struct ltask *self, const char *message);

/*
 * Pushes the full report of a failed task: the error, the task that raised it, the tasks that
 * failed because of it, and other errors below the task.  May raise.
 */
void report_push_failure(lua_State *L, struct orr_task *task);

/* Describes a task for the report of a time-out.  A timeout_describe_fn. */
void report_describe(const struct orr_isolate *iso, const struct ltask *task, struct timeout_subject *out);

#endif
