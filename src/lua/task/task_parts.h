/* What the files that tasks are made of share: task.c makes and ends them, body.c sees what they come to, run.c runs them. */
#ifndef ORR_LUA_TASK_TASK_PARTS_H
#define ORR_LUA_TASK_TASK_PARTS_H

#include "lua/limits/level.h"
#include "lua/limits/slice.h"
#include "lua/task/task.h"

/* The poll function of the core's task. */
enum orr_poll ltask_poll(struct orr_task *task, void *data);

/* The task of the core that is about to be a Lua task's has been charged for; ltask_freed() ends that. */
void ltask_charged(struct orr_isolate *iso);

/* The worker's `task_freed`. */
void ltask_freed(struct orr_task *task);

/* A task of the core that is done refers to no handle any more: the state is about to be closed. */
void ltask_forget_handle(struct orr_task *core, struct orr_isolate *iso);

/* Gives up a reference to a task of the core whose handle is gone, or asks no more. */
void ltask_leave_core(struct orr_task *core, struct orr_isolate *iso);

/* Its destructor. */
void ltask_drop(void *data);

/* Of a deadline, in the unit of the isolate's mode; `ns` is 0 for what is usual for such an entry. */
uint64_t ltask_limit(const struct orr_isolate *iso, enum orr_lua_entry entry, uint64_t ns);

/* Of the task whose handle is at the top of L.  May raise. */
void ltask_remember_creation(lua_State *L, struct ltask *self);

/* Raises if there can be no more tasks; or none without a parent, because what runs is being ended. */
void ltask_check_room(struct orr_isolate *iso, lua_State *L, bool detached);

/* Lets go of a handle that has not become a task. */
void ltask_give_up(struct ltask *self);

/* One task of the isolate is gone. */
void ltask_counted_out(struct orr_isolate *iso);

/*
 * The bottom of a coroutine, [message handler] [function] [arguments...]; the same for a body in steps, whose function answers the
 * next step; and the message handler.
 */
int ltask_base(lua_State *L);
int ltask_base_of_steps(lua_State *L);
int ltask_handle_message(lua_State *L);

/* The coroutine has returned, with so many values on it, or failed. */
enum orr_poll ltask_body_over(struct ltask *self, bool failed, int results);

/* Its time is up, wherever it stands. */
enum orr_poll ltask_timed_out(struct ltask *self, struct level *level, int status);

/* A C function that is not ours has yielded in the body. */
enum orr_poll ltask_foreign_yield(struct ltask *self);

/* What it was completed with from outside becomes what it has come to. */
void ltask_keep_given(struct ltask *self);

/* Between slices: what is urgent comes next of the isolate's tasks, or those that were parked meanwhile. */
void ltask_settle_hold(struct orr_isolate *iso, bool late);

#endif
