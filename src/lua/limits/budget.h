/*
 * Time.  Lua runs in *slices*, from when a worker polls a task of the isolate until that returns.  A slice that outlasts its share
 * is suspended where it is, between two instructions; a call that outlasts its deadline is ended there.  Neither costs
 * anything until it happens.
 *
 * How.  The worker's watch (exec/watch.h) interrupts the thread, and its handler, budget_over(), asks for the end of the slice:
 * it sets `requested` and the debug hook of the coroutine that runs now.  The hook, at the next instruction, finds out what is to be
 * done.  `requested` is looked at again whenever another coroutine begins or goes on to run (budget_switched()), so the hook is always on
 * the one that runs, and on no other; one that is found elsewhere takes itself off.  A hook of the script's own does the same work itself
 * (hooks.h); one of a C library is kept, still told what it wants to know, and put back.
 *
 * Suspending.  The hook yields, if every coroutine from the running one out to the task can, and every task outside that, up to
 * the one that the worker polled: for what started a task inside itself must not go on before that has come to its first wait.  All of
 * them go onto the isolate's stack of urgent tasks, and until that is worked off, in later turns, the isolate is *held*: its other
 * tasks, when polled, are parked.  So what lies between two waits stays atomic.  A `fair` task gives that up: it is simply ready again,
 * behind the others.
 *
 * Ending.  The hook yields, if every coroutine out to the task can, and the task is not resumed any more: neither pcall nor a
 * handler gets a turn.  Where one cannot, because a C function is in between, the hook raises an error at every instruction until they can.
 * Message handlers would run inside the hook, where hooks are off: so xpcall is ours, and skips them then.
 *
 * Without a timer.  A slice that the watch cannot interrupt is `counted`: the hook is there from its beginning, moves with what runs,
 * and looks at the clock every `check_interval` instructions, and whenever another coroutine begins or goes on to run.
 *
 * Limits stack: `levels` are Lua inside Lua, innermost first, and a call ends when its own time or that of any outside it is up.
 */
#ifndef ORR_LUA_LIMITS_BUDGET_H
#define ORR_LUA_LIMITS_BUDGET_H

#include "lua/isolate.h"

#define TIMEOUT_TEXT "Script execution timeout"
#define YIELDED_TEXT "a C function yielded to the host"

/* A stretch of Lua inside another: a poll of a task, or a call from the host. */
struct level {
    struct level *outer;
    lua_State *co;      /* what it runs on */
    bool plain;         /* whoever entered it waits for it, and cannot be suspended */
    uint8_t entry;      /* enum orr_lua_entry */
    uint64_t limit;     /* nanoseconds, or instructions; 0 for none */
    uint64_t used;      /* before this stretch */
    uint64_t since;     /* when it began, once that matters; 0 before */
    bool exposed;       /* a script has the coroutine */
    bool raised;        /* the body has ended with an error */
    bool ending;        /* its time is up, */
    bool with_outer;    /* or rather that of one outside it, which ends, and is reported, too */
    char *report;       /* of that; NULL for none */
    struct ltask *self; /* whose poll it is; NULL for a call */
    struct ltask *task; /* what the isolate had outside it */
    lua_State *running;
    struct chain *chain;
};

/* Between the two, Lua runs on `level->co`; the caller has filled in `co` and what follows, up to `used`. */
void level_enter(struct orr_isolate *iso, struct level *level, struct ltask *task);
void level_leave(struct orr_isolate *iso, struct level *level);

/* Begins a slice, unless this is inside one.  True if so: then budget_end_slice() is due. */
bool budget_begin_slice(struct orr_isolate *iso);
void budget_end_slice(struct orr_isolate *iso);

/* Moves the hook to where Lua runs now. */
void budget_follow(struct orr_isolate *iso);

/* To be called whenever `iso->execution.running` has changed. */
static inline void budget_switched(struct orr_isolate *iso)
{
    if (iso->preemption.requested)
        budget_follow(iso);
}

/* The same, before Lua runs on a coroutine of the script's own: if instructions are counted, then there too. */
void budget_enter_coroutine(struct orr_isolate *iso, lua_State *co);

/* A new coroutine has been made by L: it is not to inherit the hook. */
void budget_made_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co);

/* It may end before its first count of instructions is full, and be followed by many more: so that count is charged in advance. */
void budget_charge_coroutine(struct orr_isolate *iso);

/* What a level has used, up to now. */
uint64_t budget_used(const struct orr_isolate *iso, const struct level *level);

/*
 * For C functions of ours that may take long, to be asked every few thousand steps.  True: the function should suspend itself,
 * by returning budget_pause(), with all that it needs in its frame; never where L cannot yield.  Raises if the call is being ended.
 */
bool budget_wants_pause(lua_State *L);

/*
 * Has the collector do all that is owed.  True if there is no time for that, and the function should suspend itself: as above.  Where L
 * cannot yield, it is done in one go.
 */
bool budget_pay(lua_State *L);

int budget_pause(lua_State *L, lua_KFunction k, lua_KContext context);

/*
 * The same for functions that must not be overtaken by other Lua of the isolate, because they walk over tables that it could change.
 * In a `fair` task, too, the isolate is held until the function has gone on.
 */
bool budget_wants_hold(lua_State *L);

int budget_hold(lua_State *L, lua_KFunction k, lua_KContext context);

/* The same for those that cannot suspend themselves, and need not be functions of ours. */
void budget_check(struct orr_isolate *iso, lua_State *L);

/* In the allocator: the stack of the coroutine that runs is about to grow to its limit, and leaves no room for the hook. */
void budget_stack_fills(struct orr_isolate *iso);

/*
 * From inside the allocator: has the hook called at the next instruction, if Lua runs that it can interrupt; false if not.  The
 * second, because the account is overdrawn; the third, because the collector is owed work.
 */
bool budget_ask(struct orr_isolate *iso);
bool budget_ask_for_memory(struct orr_isolate *iso);
void budget_ask_to_collect(struct orr_isolate *iso);

/*
 * The script has broken a limit that cannot be held by an error, since what breaks it takes long each time: none of the isolate's Lua
 * runs any more.  The host is told why, once; each call and task that runs, or goes on, is ended as at its deadline.
 */
void budget_condemn(struct orr_isolate *iso, const char *why);

/*
 * In the hook of a script, where Lua may be suspended and `requested` is set: does what is to be done.  False if Lua cannot be suspended here
 * for some time.  Raises.
 */
bool budget_look_in_hook(struct orr_isolate *iso, lua_State *L);

/* The hook of a coroutine that is not ours, its mask and its count, also while ours stands in for it; NULL for none. */
lua_Hook budget_others_hook(const struct orr_isolate *iso, lua_State *co, int *mask, int *count);

/* Between the two, nobody sets or takes away the hook of the coroutine that runs: it is the caller's own. */
void budget_hands_off(struct orr_isolate *iso);
void budget_hands_on(struct orr_isolate *iso);

/*
 * Tells the host, as soon as no Lua runs; or, if it has no function for that, the log, when the failures of tasks that came before have
 * been reported.  That a handler is disabled, the host too is told then.  Of tasks that have timed out the log is not told here: the sink is, or whoever awaits them.
 */
void budget_notice(struct orr_isolate *iso, enum orr_lua_notice kind, const char *text);

/* The same for a handler of an event, or a timer's callback (0), that is not called any more. */
void budget_notice_disabled(struct orr_isolate *iso, const char *text, int64_t handler);

/* The same for a call of the host's that has timed out: nobody else hears more of it than that it has. */
void budget_notice_call(struct orr_isolate *iso, const struct level *level);

/* Failures have been reported: delivers what was to come after them. */
void budget_deliver_notices(struct orr_isolate *iso);

#endif
