/*
 * Running tasks: a slice at a time, or at once, before the code that started or closed them goes
 * on.
 *
 * A task that is cancelled while it waits is resumed, and the wait raises `closed` inside it.  Only
 * a *bare* task is not: its body is a function of ours that waits, as in async.run(async.sleep,
 * ms), and would do nothing but raise.  No code of a script is on its stack that could catch the
 * error, and nothing is to be closed.  So the task ends where it waits.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_RUN_H
#define ORR_LUA_TASK_RUN_H

#include "lua/isolate.h"
#include "lua/task/task.h"

enum {
    NEST_MAX = 16,       /* nested polls while the caller could also suspend itself */
    NEST_HARD_MAX = 120, /* nested polls when it could not */
};

/* The poll function of a core task that is a Lua task; `data` is its handle. */
enum orr_poll ltask_poll(struct orr_task *task, void *data);

/*
 * Polls a task in the middle of a slice, when it is known that nothing comes before it and that it
 * waits for nothing.
 */
enum orr_poll ltask_step(struct orr_task *task, void *data);

/* Whether so few polls are nested that the next two functions need not be asked. */
static inline bool ltask_is_shallow(const struct orr_isolate *iso)
{
    return execution_depth(&iso->execution) < NEST_MAX;
}

/* Raises where one more task cannot be started at once. */
void ltask_check_depth(lua_State *L);

/* Whether a task that is started at once can run inside a nested poll. */
bool ltask_can_nest(lua_State *L);

/*
 * Runs what is on the stack of the hold above `mark`.  True if the caller may go on; false if the
 * slice was over, and the caller must suspend() itself: then it goes on after those that are left.
 */
bool ltask_run_above(lua_State *L, struct ltask *mark);

/*
 * Runs a task, or several that `first` leads by `next`, before the caller goes on.  None of them is
 * on the stack of the hold.  A C function returns what this answers.  `k` goes on; it is called
 * here, or later.
 */
int ltask_run_first(lua_State *L, struct ltask *first, lua_KFunction k, lua_KContext context);

/*
 * Cancels a task, and runs the tasks that this wakes before the caller goes on.  A C function
 * returns its answer.
 */
int ltask_close(lua_State *L, struct ltask *self, const char *reason, lua_KFunction k, lua_KContext context);

#endif
