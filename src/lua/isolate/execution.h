/*
 * What runs in an isolate at this moment.
 *
 * Lua runs in *slices*.  A slice lasts from when a worker polls a task, or the host makes a call,
 * until that returns.  Inside a slice, Lua runs in *levels*: for example, a poll of a task inside a
 * call inside a poll of another task.  Inside a level, the script's own coroutines form a *chain*
 * from the running coroutine out to the level's coroutine.
 *
 * Lua leaves tasks and calls by yielding.  Before Lua yields, `yield` is set to the reason.  Each
 * coroutine on the way out passes the yield on.  The level takes the reason with
 * execution_take_yield().
 *
 * A signal handler on the worker's thread reads `running`, `level` and `yield`, so they are
 * volatile.  It also reads the limits of the levels.  The fences below, which cost no instruction,
 * keep the compiler from changing a level while `level` leads to it.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_EXECUTION_H
#define ORR_LUA_ISOLATE_EXECUTION_H

#include "lua/isolate/compat.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ltask;

/* One resume of a script's own coroutine, inside a task or a call. */
struct chain {
    struct chain *outer;
    lua_State *L;  /* the coroutine that resumed it */
    lua_State *co; /* the coroutine that was resumed */
    /* The library's hook runs on `co`, or has raised an error there: Lua then keeps hooks off */
    bool in_hook;
};

/* Whether the limits let a level go on. */
enum level_end {
    LEVEL_GOES_ON,
    LEVEL_TIMED_OUT, /* the level's own time is up */
    /* The time of an outer level is up: the outer level ends and is reported, too */
    LEVEL_ENDS_WITH_OUTER,
};

/* A level is one poll of a task, or one call from the host.  Levels can be nested. */
struct level {
    struct level *outer;
    lua_State *co;   /* the coroutine that the level runs on */
    bool host_waits; /* the caller waits on the C stack: the level cannot be suspended */
    bool fair;       /* other Lua of the isolate may run while the level is suspended */
    uint8_t entry;   /* enum orr_lua_entry */
    uint32_t script; /* the script that the task belongs to; 0 for none */
    uint64_t limit;  /* nanoseconds, or instructions in mode ORR_LUA_COUNT; 0 for none */
    /* The part of the limit used up, without the time that has passed since `since` */
    uint64_t used;
    uint64_t since;     /* when this poll or call began, once that matters; 0 before */
    bool exposed;       /* a script holds a reference to the coroutine */
    bool raised;        /* the body has ended with an error */
    bool renewed;       /* calls before this one have run in the level: see level_renew() */
    uint8_t end;        /* enum level_end */
    char *report;       /* the report on the level's end; NULL for none */
    struct ltask *task; /* the task that is polled; NULL for a call */
    lua_State *outer_running;
    struct chain *outer_chain;
};

enum slice_state {
    SLICE_NONE,
    SLICE_RUNS,
    SLICE_UNWINDS, /* the slice's time is over, and every task out to the worker yields */
};

/* Why the coroutines of a level yield, from the innermost out. */
enum yield_reason {
    YIELD_NONE, /* nothing yields, or a C function outside the library has yielded */
    YIELD_WAIT, /* the task waits */
    /* The task waits in a function that does nothing but raise when the wait is cancelled */
    YIELD_WAIT_SIMPLE,
    YIELD_PREEMPTED, /* the slice is over */
    /* The slice is over.  No other Lua of the isolate may run first, even if the task is fair */
    YIELD_HOLDING,
    YIELD_ENDED, /* the level has ended, and is never resumed */
};

struct execution {
    /* The task of the running coroutine; NULL in plain calls of the host */
    struct ltask *current;
    lua_State *volatile running;  /* the running coroutine */
    struct chain *chain;          /* leads from the running coroutine out to the level's */
    struct level *volatile level; /* the innermost level; NULL if no Lua runs under limits */
    unsigned depth;               /* polls and calls inside one another */
    unsigned calls;               /* calls from and to the host under way */
    unsigned closes;              /* nested closes of coroutines */
    bool host_waits;              /* plain code of the host waits for the Lua that runs */
    uint8_t slice;                /* enum slice_state */
    volatile uint8_t yield;       /* enum yield_reason */
    lua_State *yielded_in;        /* the innermost coroutine that yielded last */
    /* The level of a call into the idle isolate; filled in, except `limit`, between such calls */
    struct level first_level;
};

/* --- Questions -------------------------------------------------------------------------------- */

static inline struct ltask *execution_task(const struct execution *self)
{
    return self->current;
}

static inline lua_State *execution_running(const struct execution *self)
{
    return self->running;
}

static inline struct chain *execution_chain(const struct execution *self)
{
    return self->chain;
}

static inline struct level *execution_level(const struct execution *self)
{
    return self->level;
}

/* Whether plain code of the host waits for the Lua that runs: nothing can be suspended. */
static inline bool execution_host_waits(const struct execution *self)
{
    return self->host_waits;
}

/* Whether Lua runs in a slice. */
static inline bool execution_in_slice(const struct execution *self)
{
    return self->slice != SLICE_NONE;
}

/* Whether the slice is over, and every task out to the worker yields. */
static inline bool execution_unwinds(const struct execution *self)
{
    return self->slice == SLICE_UNWINDS;
}

/* Whether the coroutines of the running level are yielding, from the innermost out. */
static inline bool execution_yields(const struct execution *self)
{
    return self->yield != YIELD_NONE;
}

/* Whether the limits end the innermost level: the script gets no more time there. */
static inline bool execution_is_ending(const struct execution *self)
{
    return self->level && self->level->end != LEVEL_GOES_ON;
}

/* Whether L is the innermost level's own coroutine, and not one that the script made. */
static inline bool execution_is_base(const struct execution *self, const lua_State *L)
{
    return self->level && self->level->co == L;
}

/* Polls and calls inside one another. */
static inline unsigned execution_depth(const struct execution *self)
{
    return self->depth;
}

/* Calls from and to the host under way. */
static inline unsigned execution_calls(const struct execution *self)
{
    return self->calls;
}

/* The innermost coroutine that yielded last. */
static inline lua_State *execution_yielded_in(const struct execution *self)
{
    return self->yielded_in;
}

/* Whether a call from or to the host, or a poll, is under way. */
static inline bool execution_is_busy(const struct execution *self)
{
    return self->depth || self->calls;
}

/*
 * Whether nothing runs in the isolate: no level, poll or call.  Then the main thread counts as
 * running, and there is neither a task nor a chain.
 */
static inline bool execution_is_idle(const struct execution *self)
{
    return !self->level && !self->calls;
}

/* The coroutine that prevents a yield from L out through a chain; NULL if all can yield. */
lua_State *chain_find_stuck(lua_State *L, const struct chain *chain);

static inline bool chain_can_yield(lua_State *L, const struct chain *chain)
{
    return chain ? !chain_find_stuck(L, chain) : lua_isyieldable(L);
}

/*
 * Pushes a coroutine on L.  Lua's API allows that only through the coroutine's own stack, which may
 * be full.  Each call of lua_checkstack() would enlarge the frame of a coroutine that was suspended
 * in mid-slice.  So the value goes into one of the extra slots that every Lua stack has beyond its
 * end, for temporary values.
 */
void execution_push_coroutine(lua_State *L, lua_State *co);

/* Whether L is the running coroutine and can yield, out to its level. */
static inline bool execution_can_yield(const struct execution *self, const lua_State *L)
{
    return L == self->running && chain_can_yield(self->running, self->chain);
}

/* --- Changes ---------------------------------------------------------------------------------- */

/* Fills in the level for calls into the idle isolate, which run on its main thread. */
void execution_fill_first_level(struct execution *self, lua_State *L);

/* The state has been made: its main thread runs. */
static inline void execution_open(struct execution *self, lua_State *L)
{
    self->running = L;
    execution_fill_first_level(self, L);
}

/* Lua runs on `level->co`, for a task or a call, until execution_leave_level(). */
static inline void execution_enter_level(struct execution *self, struct level *level, struct ltask *task)
{
    level->outer = self->level;
    level->outer_running = self->running;
    level->outer_chain = self->chain;
    level->task = task;
    atomic_signal_fence(memory_order_release); /* the signal handler sees a complete level */
    self->level = level;
    self->current = task;
    self->chain = NULL;
    self->running = level->co;
}

static inline void execution_leave_level(struct execution *self, const struct level *level)
{
    self->level = level->outer;
    atomic_signal_fence(memory_order_release); /* the signal handler no longer finds the level */
    self->current = level->outer ? level->outer->task : NULL;
    self->running = level->outer_running;
    self->chain = level->outer_chain;
}

/*
 * The host calls into the idle isolate, on its main thread: a slice begins, with a level of its
 * own.  `limit` is that of the level.
 */
static inline void execution_begin_first(struct execution *self, uint64_t limit)
{
    self->first_level.limit = limit;
    self->calls = self->depth = 1;
    self->slice = SLICE_RUNS;
    atomic_signal_fence(memory_order_release); /* the signal handler sees a complete level */
    self->level = &self->first_level;
}

/* The call has ended.  Nothing has changed its level. */
static inline void execution_end_first(struct execution *self)
{
    self->level = NULL;
    atomic_signal_fence(memory_order_release); /* the signal handler no longer finds the level */
    self->slice = SLICE_NONE;
    self->calls = self->depth = 0;
}

/* The level of the call into the idle isolate. */
static inline struct level *execution_first_level(struct execution *self)
{
    return &self->first_level;
}

/* A poll or a call is under way until execution_end_nested(). */
static inline void execution_begin_nested(struct execution *self)
{
    self->depth++;
}

static inline void execution_end_nested(struct execution *self)
{
    self->depth--;
}

/*
 * Sets whether plain code of the host waits for the Lua that runs from now on.  Returns the old
 * value.
 */
static inline bool execution_set_host_waits(struct execution *self, bool waits)
{
    bool before = self->host_waits;
    self->host_waits = waits;
    return before;
}

/* Says why the coroutines of the running level are about to yield, from L out. */
static inline void execution_begin_yield(struct execution *self, enum yield_reason reason, lua_State *L)
{
    self->yielded_in = L;
    self->yield = (uint8_t)reason;
}

/* Returns why the level has yielded, and clears the reason. */
static inline enum yield_reason execution_take_yield(struct execution *self)
{
    enum yield_reason reason = (enum yield_reason)self->yield;
    self->yield = YIELD_NONE;
    return reason;
}

/* A yield that was stopped on its way out. */
struct yield_state {
    uint8_t reason, slice;
};

/*
 * Stops a yield on its way out, so that an error may be raised.  execution_go_on_yielding() takes
 * the result to go on with the yield.
 */
static inline struct yield_state execution_stop_yield(struct execution *self)
{
    struct yield_state before = { .reason = self->yield, .slice = self->slice };
    self->yield = YIELD_NONE;
    if (self->slice == SLICE_UNWINDS)
        self->slice = SLICE_RUNS;
    return before;
}

static inline void execution_go_on_yielding(struct execution *self, struct yield_state before)
{
    self->yield = before.reason;
    self->slice = before.slice;
}

static inline void execution_set_slice(struct execution *self, enum slice_state state)
{
    self->slice = (uint8_t)state;
}

/* In mode ORR_LUA_COUNT: charges instructions to every level, innermost to outermost. */
static inline void execution_charge(struct execution *self, uint64_t instructions)
{
    for (struct level *level = self->level; level; level = level->outer)
        level->used += instructions;
}

/* Nested closes of coroutines. */
static inline unsigned execution_closes(const struct execution *self)
{
    return self->closes;
}

/*
 * The coroutine `co` is being closed, and counts as running.  execution_end_close() takes the
 * result.
 */
static inline lua_State *execution_begin_close(struct execution *self, lua_State *co)
{
    lua_State *running = self->running;
    self->closes++;
    self->running = co;
    return running;
}

static inline void execution_end_close(struct execution *self, lua_State *running)
{
    self->running = running;
    self->closes--;
}

/*
 * L resumes the script's own coroutine `co`, which runs from now on.  execution_leave_chain() takes
 * the result.
 */
static inline lua_State *execution_enter_chain(struct execution *self, struct chain *chain, lua_State *L, lua_State *co)
{
    lua_State *running = self->running;
    *chain = (struct chain){ .outer = self->chain, .L = L, .co = co };
    self->chain = chain;
    self->running = co;
    return running;
}

static inline void execution_leave_chain(struct execution *self, const struct chain *chain, lua_State *running)
{
    self->chain = chain->outer;
    self->running = running;
}

/* A call from the host, or to it, is under way until execution_end_call(). */
static inline void execution_begin_call(struct execution *self)
{
    self->calls++;
}

static inline void execution_end_call(struct execution *self)
{
    self->calls--;
}

#endif
