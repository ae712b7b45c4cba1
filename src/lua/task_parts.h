/* What the files that tasks are made of share: task.c makes and ends them, body.c sees what they come to, run.c runs them. */
#ifndef ORR_LUA_TASK_PARTS_H
#define ORR_LUA_TASK_PARTS_H

#include "lua/budget.h"
#include "lua/task.h"

/* The poll function of the core's task. */
enum orr_poll ltask_poll(struct orr_task *task, void *data);

/* The bottom of a coroutine, [message handler] [function] [arguments...], and its message handler. */
int ltask_base(lua_State *L);
int ltask_handle_message(lua_State *L);

/* The coroutine has returned, with so many values on it, or failed. */
enum orr_poll ltask_body_over(struct ltask *self, bool failed, int results);

/* Its time is up, wherever it stands. */
enum orr_poll ltask_timed_out(struct ltask *self, struct level *level, int status);

/* A C function that is not ours has yielded in the body. */
enum orr_poll ltask_stray_yield(struct ltask *self);

/* What it was completed with from outside becomes what it has come to. */
void ltask_keep_given(struct ltask *self);

/* Between slices: what is urgent comes next of the isolate's tasks, or those that were parked meanwhile. */
void ltask_settle_hold(struct orr_isolate *iso, bool late);

#endif
