/*
 * Preemption: what happens at the next instruction when the hook was requested
 * (isolate/interrupt.h).
 *
 * Suspending.  When the slice is over, the hook yields, if every coroutine from the running one out
 * to the task can, and every task outside that, up to the task that the worker polled: for what
 * started a task inside itself must not go on before that has come to its first wait.  All of them
 * go onto the isolate's stack of urgent tasks.  Until that stack is empty, in later turns, the
 * isolate is *held*: its other tasks, when polled, are parked.  So the code between two waits stays
 * atomic.  A `fair` task gives that up: it is simply ready again, behind the others.
 *
 * Ending.  When the time of a call or task is up, it is ended: see terminate.h.
 *
 * Memory.  Before either, the hook sees to memory: see memory_limit.h.
 *
 * The answer of all this is in `execution.yield`: the task layer takes it when the coroutine has
 * returned.
 *
 * The isolate's worker's thread.  The functions of C functions take the isolate from their upvalue.
 */
#ifndef ORR_LUA_LIMITS_PREEMPT_H
#define ORR_LUA_LIMITS_PREEMPT_H

#include "lua/isolate.h"

/* To be called before the isolate's Lua runs. */
void preempt_open(struct orr_isolate *iso);

/*
 * For C functions of ours that may take long, to be asked every few thousand steps.  True: the
 * function should suspend itself, by returning preempt_yield(), with all that it needs in its
 * frame; never where L cannot yield.  Raises if the call is being ended.
 */
bool preempt_is_due(lua_State *L);
int preempt_yield(lua_State *L, lua_KFunction k, lua_KContext context);

/*
 * For C functions that must not be overtaken by other Lua of the isolate, because they walk over
 * tables that it could change.  Until the function has gone on, the isolate is held, even if the
 * task is fair.
 */
bool preempt_hold_is_due(lua_State *L);
int preempt_hold(lua_State *L, lua_KFunction k, lua_KContext context);

/*
 * For C functions that cannot suspend themselves, and need not be ours.  Raises if the call is
 * being ended.
 */
void preempt_check(struct orr_isolate *iso, lua_State *L);

/*
 * Has the collector do all that is owed.  True if there is no time for that, and the function
 * should suspend itself with preempt_yield() or preempt_hold().  Where L cannot yield, all is done
 * in one go.  Raises if the call is being ended.
 */
bool preempt_to_collect(lua_State *L);

/*
 * In the hook of a script, where Lua may be suspended and the interrupt is requested: does what is
 * to be done.  False if Lua cannot be suspended here for some time.  Raises.
 */
bool preempt_in_script_hook(struct orr_isolate *iso, lua_State *L);

#endif
