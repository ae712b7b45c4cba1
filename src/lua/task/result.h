/*
 * Results of tasks: values that a body returned, the error that it raised, values given by
 * task:complete().
 *
 * One value, or the error, is the handle's user value.  Several values stay on the coroutine.  A
 * task that failed because a child did has no error value of its own: its error is that of the task
 * where it arose.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_RESULT_H
#define ORR_LUA_TASK_RESULT_H

#include "lua/task/task.h"

/*
 * Pushes the result of a done task, whose handle is at an index of L: true and its values, or false
 * and its error. Answers how many were pushed.  Counts as having seen a failure.  May raise.
 */
int ltask_push_outcome(lua_State *L, struct ltask *self, int handle);

/*
 * Pushes the result of a done task: its error alone, or nil and its values.  Answers how many.  May
 * raise.
 */
int ltask_push_results(lua_State *L, struct ltask *self, int handle);

/* Pushes the error of a result.  May raise. */
void push_error_of(lua_State *L, struct orr_isolate *iso, const struct orr_result *result);

/* Whether the value at the top of a coroutine is the error of a result.  Never allocates. */
bool result_is_error(lua_State *co, const struct orr_result *result);

/* Completes a task with the values on the coroutine at index 2.  Raises if it is too late. */
int ltask_complete(lua_State *L, struct ltask *self);

/* Makes the value at the top of L, which is taken off, the handle's.  Never allocates. */
void result_set_value(lua_State *L, struct ltask *self);

/* The values at the bottom of a coroutine become the task's results.  Never allocates. */
void result_keep(struct ltask *self, lua_State *co, int results);

/*
 * A provisional task has ended well with one result or none, at the top of its coroutine: it is kept,
 * and the coroutine goes back to the pool.  Never allocates.
 */
void result_keep_provisional(struct ltask *self, int results);

/* The values of task:complete() become the task's results.  Never allocates. */
void result_keep_completed(struct ltask *self);

#endif
