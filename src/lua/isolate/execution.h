/*
 * What runs in an isolate at this moment.
 *
 * `running` is the coroutine whose Lua runs; a signal handler reads it, so it is volatile.  `current` is
 * the Lua task that it runs for, NULL in plain calls of the host.  `chain` leads from the running
 * coroutine out through the coroutines of the script's own to the task.  `level` leads out through Lua
 * inside Lua: a poll inside a call inside a poll.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_EXECUTION_H
#define ORR_LUA_ISOLATE_EXECUTION_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct level;
struct ltask;

/* One resume of a coroutine of the script's own, inside a task or a call. */
struct chain {
    struct chain *outer;
    lua_State *L;  /* the coroutine that resumed it */
    lua_State *co; /* the coroutine that was resumed */
    bool in_hook;  /* our hook runs on it, or has raised an error there: Lua then leaves hooks off */
};

struct execution {
    struct ltask *current;
    lua_State *volatile running;
    struct chain *chain;
    struct level *level; /* the innermost */
    unsigned depth;      /* polls inside polls */
    unsigned visits;     /* nested isolate_visit() calls that entered the worker; 0 in ordinary turns */
    unsigned calls;      /* calls from and to the host under way */
    unsigned closes;     /* nested closes of coroutines */
    bool host_waits;     /* plain code of the host waits for the Lua that runs */
    bool suspending;     /* a task's coroutines are yielding outwards, because the task waits */
    lua_State *ended_in; /* the coroutine in which a call was ended */
};

#endif
