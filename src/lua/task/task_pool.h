/*
 * Pooled tasks: Lua tasks whose handle no script has.
 *
 * Callbacks of timers, of schedule() and of events are tasks like any other: they may wait, have children, fail
 * or be preempted.  But hardly any does, and no script asks for its handle: most run once, from beginning to end.
 * So the handle, its anchor and its coroutine go back to a pool when such a task has ended well.
 *
 * A pooled task becomes an ordinary one when its handle is pushed for a script (ltask_push()).
 *
 * The coroutine has at its bottom the handle, and what the body is called by (body.h).  In the pool it holds
 * nothing else.  `stack_base` counts the values below the body's own.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_TASK_POOL_H
#define ORR_LUA_TASK_TASK_POOL_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct ltask;
struct orr_isolate;

/* Part of the isolate. */
struct task_pool {
    struct ltask *first;
    int count;
};

/* The index of the handle on a pooled task's coroutine. */
enum { POOL_HANDLE = 1 };

/* Room on a pooled task's coroutine, besides its arguments. */
enum { POOL_ROOM = 16 };

/* A handle, from the pool if that has one.  It is anchored.  May raise if the pool is empty. */
struct ltask *task_pool_take(struct orr_isolate *iso, lua_State *L);

/* A handle, from the pool if that has one, outside Lua.  NULL for lack of memory.  Never raises. */
struct ltask *task_pool_try_take(struct orr_isolate *iso);

/*
 * Gives back a handle that has not become a task, or is none any more.  False if the pool does not take it.
 * Never allocates.
 */
bool task_pool_give_back(struct ltask *self);

/* The core has dropped a pooled task.  Gives it back if it can be used again; false if not.  Never allocates. */
bool task_pool_keep(struct ltask *self);

/* Pushes what the body is called by on the coroutine; a function and its arguments follow.  Never allocates. */
void task_pool_push_base(struct ltask *self);

/* A task goes on, or is kept, beyond its coroutine, which has its name: gives it a copy.  Never raises. */
void task_pool_copy_name(struct ltask *self);

#endif
