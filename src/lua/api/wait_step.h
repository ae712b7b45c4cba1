/* One step of a wait of a Lua task: the same lines in every C function that waits. */
#ifndef ORR_LUA_API_WAIT_STEP_H
#define ORR_LUA_API_WAIT_STEP_H

#include "lua/task/suspend.h"

#include <errno.h>

/*
 * Deals with what a wait function of the core has answered.  0: the wait is over; returns no
 * results. -EAGAIN: suspends the task, and `k` goes on.  Another error is raised.  A C function
 * returns what this returns.
 */
static inline int wait_step(lua_State *L, int error, lua_KFunction k, lua_KContext context)
{
    if (error == -EAGAIN)
        return suspend(L, k, context);
    return error ? wait_raise(L, error) : 0;
}

/* Does what wait_step() does, for a `k` that only raises when its wait is cancelled. */
static inline int wait_step_simply(lua_State *L, int error, lua_KFunction k, lua_KContext context)
{
    if (error == -EAGAIN)
        return suspend_simply(L, k, context);
    return error ? wait_raise(L, error) : 0;
}

#endif
