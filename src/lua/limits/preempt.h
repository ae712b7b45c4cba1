/*
 * Preemption: the work of the hook, once it has been requested (isolate/interrupt.h).
 *
 * Memory.  The hook first collects garbage, if memory is over a limit: see memory_limit.h.
 *
 * Ending.  A call or task that is past its limit is ended: see terminate.h.
 *
 * Suspending.  When the slice is over, the hook yields, if every coroutine from the running one out
 * to the task can yield.  All outer tasks must be able to yield as well, up to the task that the
 * worker polled: code that started a task must not continue before that task has reached its first
 * wait.  All these tasks go onto the isolate's stack of urgent tasks.  Until that stack is empty,
 * in later turns, the isolate is *held*: its other tasks are parked when they are polled.  So the
 * code between two waits stays atomic.  A `fair` task is not atomic: it goes to the end of the run
 * queue, and the isolate is not held.
 *
 * The reason for a yield is in `execution.yield`.  The task layer takes it when the coroutine has
 * returned.
 *
 * The isolate's worker's thread.  Functions without an `iso` argument are for C functions whose
 * first upvalue is the isolate.
 */
#ifndef ORR_LUA_LIMITS_PREEMPT_H
#define ORR_LUA_LIMITS_PREEMPT_H

#include "lua/isolate.h"

/* Must be called before any Lua of the isolate runs. */
void preempt_open(struct orr_isolate *iso);

/*
 * For long C functions of Orrery, which call this every few thousand steps.  If true, the function
 * should suspend itself: it returns preempt_yield(), with all that it needs in its Lua frame.
 * Always false if L cannot yield.  Raises if the call must end.
 */
bool preempt_is_due(lua_State *L);
int preempt_yield(lua_State *L, lua_KFunction k, lua_KContext context);

/*
 * Like preempt_is_due() and preempt_yield(), for C functions that traverse tables which other Lua
 * of the isolate could change.  The isolate is held until the function continues, even if the task
 * is fair.
 */
bool preempt_hold_is_due(lua_State *L);
int preempt_hold(lua_State *L, lua_KFunction k, lua_KContext context);

/*
 * For C functions that cannot suspend themselves.  They need not have the isolate as an upvalue.
 * Raises if the call must end.
 */
void preempt_check(struct orr_isolate *iso, lua_State *L);

/*
 * Runs all owed work of the garbage collector.  Returns true if the slice ended before that was
 * done: the function should then suspend itself with preempt_yield() or preempt_hold().  If L
 * cannot yield, this does all the work before it returns.  Raises if the call must end.
 */
bool preempt_to_collect(lua_State *L);

/*
 * Does the work of the hook inside a script's hook, at an event where Lua may be suspended and
 * while the interrupt is requested.  False if Lua cannot be suspended here for some time.  May
 * raise or yield.
 */
bool preempt_in_script_hook(struct orr_isolate *iso, lua_State *L);

#endif
