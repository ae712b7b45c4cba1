/*
 * Waiting.
 *
 * A wait of Lua code is a C function that calls a wait function of the core.  If that answers
 * -EAGAIN, the C function suspends the task with itself as the continuation: so beginning and going
 * on are the same code.  The coroutine is resumed only when the wait is over.
 *
 * Errors of the core become Lua errors: -ECANCELED is the string "closed", -ETIMEDOUT the string
 * "timeout", -ECHILD the error value of the child itself.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_SUSPEND_H
#define ORR_LUA_TASK_SUSPEND_H

#include "lua/task/task.h"

/* Whether a task runs here that can be suspended. */
bool can_suspend(lua_State *L);

/*
 * The running task, before it begins a wait that it must not leave half done; raises where Lua
 * cannot yield.
 */
struct ltask *ltask_waiting(lua_State *L, const char *what);

/*
 * Suspends the running task; `k` goes on when the core has polled it.  A C function returns what
 * this answers. Raises where Lua cannot yield, and says why.
 */
int suspend(lua_State *L, lua_KFunction k, lua_KContext context);

/*
 * Suspends the running task as suspend() does.  If the task is cancelled and its wait withdrawn,
 * `k` does nothing but raise that: so a task whose body is this function may end without it.
 */
int suspend_simply(lua_State *L, lua_KFunction k, lua_KContext context);

/* Pushes the error value of a wait that failed with an error of the core. */
void wait_push_error(lua_State *L, int error);

/* Raises that value. */
int wait_raise(lua_State *L, int error);

#endif
