/*
 * The hook that interrupts Lua at its next instruction.
 *
 * In normal running there is no hook.  The hook is *requested* when the slice is over, or when
 * something must be done about memory.  Then the library's debug hook is set on the running
 * coroutine.  At the next instruction the hook calls the layer above, which finds out what to do
 * (limits/preempt.h).  interrupt_switched() moves the hook whenever another coroutine runs, so the
 * hook is on the running coroutine and on no other.  A hook of the library on another coroutine is
 * stale or inherited, and removes itself.
 *
 * Other hooks.  A script's own hook does the same work by itself (limits/hooks.h).  The library's
 * hook stands in for the hook of a C library: it passes on all events that the C library's hook
 * wants, and puts that hook back.
 *
 * Signals.  interrupt_slice_over() runs in a signal handler on the worker's thread, between any two
 * machine instructions.  It reads and writes `requested`, `time`, `armed` and `busy`, which are
 * volatile, one word each, and used by no other thread.  So the handler sees them as the
 * interrupted code last wrote them, and needs no atomic operation.  The interrupted code sets
 * `busy` to keep the handler from setting the hook.  The other fields about the hook (`foreign`,
 * `skips`, ...) change only under `busy` or in the handler.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_INTERRUPT_H
#define ORR_LUA_ISOLATE_INTERRUPT_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

/* A point in time, as three clocks show it. */
struct moment {
    uint64_t at;  /* by the clock */
    uint64_t cpu; /* by the thread's processor time */
    long sleeps;  /* how often the thread had given up its processor by itself */
};

/* Functions that the layer above provides. */
struct interrupt_actions {
    /*
     * In the hook: does the work that the hook was requested for.  `may_suspend`: Lua may be
     * suspended at this event.  May raise or yield.
     */
    void (*act)(struct orr_isolate *iso, lua_State *L, bool may_suspend);

    /* In the first hook after the slice was over: finds out what took long.  Never raises. */
    void (*late)(struct orr_isolate *iso, lua_State *L, lua_Debug *event);

    /*
     * In the return hook of a function, after the slice was over and hooks have run: the timer has
     * come again since the last of them, at `since`.  Never raises.
     */
    void (*late_again)(struct orr_isolate *iso, lua_State *L, lua_Debug *event, const struct moment *since);

    /* Whether the running Lua must be ended, so that any error will do.  Async-signal-safe. */
    bool (*is_overdue)(const struct orr_isolate *iso);

    /* The hook that counts instructions, in the mode ORR_LUA_COUNT. */
    lua_Hook count;
};

/* Whether the slice has time left. */
enum slice_time {
    TIME_LEFT,
    TIME_JUST_OVER, /* the slice is over, and no hook has run since */
    TIME_OVER,
};

struct interrupt {
    const struct interrupt_actions *actions;
    /* The hook is requested: the slice is over, or something must be done about memory */
    volatile bool requested;
    volatile uint8_t time; /* enum slice_time */
    volatile bool busy;    /* the hook is being moved: the signal handler leaves it alone */
    /* Lua is growing a stack to its limit, from making the new block until it frees the old one */
    volatile bool stack_grows;
    bool counted;           /* no timer interrupts the slice: the hook reads the clock */
    volatile bool at_start; /* the next instruction may be the first of a function */
    unsigned skips;         /* unsafe points for suspending, skipped so far */
    /* When the slice was over.  The signal handler writes it only while there is time left. */
    struct moment over;
    /* When the timer came again after a hook.  The handler writes it only while `again` is not
     * set. */
    struct moment later;
    volatile bool again;       /* the timer has come again since the last hook */
    lua_State *volatile armed; /* the coroutine that has the library's hook */
    volatile bool left_on;     /* `armed` needs the hook for the next instruction */
    struct {
        lua_Hook hook;
        int mask, count;
    } foreign; /* the hook of a C library that the library's hook stands in for */
    /*
     * The C function of scripts' hooks, which does the work by itself; NULL if scripts can set none
     */
    lua_Hook script_hook;
};

/* Must be called before the isolate's Lua runs. */
void interrupt_open(struct interrupt *self, const struct interrupt_actions *actions);

/* --- Requests --------------------------------------------------------------------------------- */

/*
 * Has the hook called at the next instruction; false if no Lua runs that the hook can interrupt.
 * Safe inside the allocator.
 */
bool interrupt_request(struct orr_isolate *iso);

/*
 * Makes the hook of L come at the next instruction, if it is the library's or a script's.  Without
 * this, such a hook comes only after its own count.
 */
void interrupt_hurry(const struct orr_isolate *iso, lua_State *L);

/* Withdraws the request, unless the slice is over. */
void interrupt_stand_down(struct orr_isolate *iso);

/* Removes the hook for now.  The request stays. */
void interrupt_take_off(struct orr_isolate *iso);

/*
 * In the library's hook: has it called again after `count` instructions.  A script's hook comes by
 * itself.
 */
void interrupt_again_after(lua_State *L, int count);

static inline bool interrupt_is_requested(const struct interrupt *self)
{
    return self->requested;
}

/* The address of `requested`, which long work in C reads between its steps. */
static inline const volatile bool *interrupt_flag(const struct interrupt *self)
{
    return &self->requested;
}

static inline bool interrupt_is_set(const struct interrupt *self)
{
    return self->armed != NULL;
}

/* --- The slice -------------------------------------------------------------------------------- */

/*
 * The watch_fn of the watch; `data` is the isolate.  The watch calls it when the slice is over, and
 * again while the slice goes on: in a signal handler on the worker's thread, inside that slice.  If
 * the timer of the watch fails, it is called directly, on the same thread.
 */
void interrupt_slice_over(void *data);

/* Ends the slice of `iso`, because the slice of another isolate, which ran inside it, was over. */
void interrupt_slice_over_with(struct orr_isolate *iso, const struct interrupt *inner);

/* No timer interrupts the slice that begins at `now`: the hook is set from the start. */
void interrupt_count_slice(struct orr_isolate *iso, uint64_t now);

/* A timer interrupts the slice that begins. */
static inline void interrupt_watch_slice(struct interrupt *self)
{
    self->counted = false;
}

/* A slice has ended in which the hook was requested. */
void interrupt_end_slice(struct orr_isolate *iso);

/* Whether no timer interrupts the slice. */
static inline bool interrupt_is_counted(const struct interrupt *self)
{
    return self->counted;
}

static inline bool interrupt_time_is_over(const struct interrupt *self)
{
    return self->time != TIME_LEFT;
}

/* When the slice was over, for the questions below. */
static inline const struct moment *interrupt_over(const struct interrupt *self)
{
    return &self->over;
}

/* Nanoseconds since a moment: by the clock, and by the thread's processor time. */
uint64_t moment_passed(const struct moment *since);
uint64_t moment_passed_cpu(const struct moment *since);

/* Whether the thread has slept since a moment. */
bool moment_slept(const struct moment *since);

/*
 * In a hook: what takes long from now on did not make the slice last too long.  The signal handler
 * changes only TIME_LEFT, so its writes are not lost.
 */
static inline void interrupt_looked(struct interrupt *self)
{
    if (self->time == TIME_JUST_OVER)
        self->time = TIME_OVER;
}

/* In a hook: the slice has no time left.  A signal that arrives meanwhile would say so, too. */
static inline void interrupt_end_time(struct interrupt *self)
{
    if (self->time == TIME_LEFT)
        self->time = TIME_OVER;
}

/* --- Coroutines ------------------------------------------------------------------------------- */

/* Moves the hook to the running coroutine. */
void interrupt_follow(struct orr_isolate *iso);

/* Must be called whenever the running coroutine has changed. */
static inline void interrupt_switched(const struct interrupt *self, struct orr_isolate *iso)
{
    if (self->requested)
        interrupt_follow(iso);
}

/* L has made the coroutine `co`, which must not inherit the hook. */
void interrupt_made_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co);

/*
 * Has the counting hook called on `co` after `instructions` instructions.  Only where instructions
 * are counted.
 */
void interrupt_count(struct orr_isolate *iso, lua_State *co, int instructions);

/* In the counting hook: the request is served. */
static inline void interrupt_counted(struct interrupt *self)
{
    self->requested = false;
}

/* Whether `co` has the counting hook. */
bool interrupt_counts(const struct orr_isolate *iso, lua_State *co);

/*
 * In the allocator: the stack of the running coroutine is about to grow to its limit, and leaves no
 * room for the hook.
 */
void interrupt_stack_fills(struct orr_isolate *iso);

/* In the allocator: no stack is growing to its limit. */
static inline void interrupt_stack_has_grown(struct interrupt *self)
{
    self->stack_grows = false;
}

/* --- Hooks of others -------------------------------------------------------------------------- */

/*
 * The hook of `co` that is not the library's, with its mask and count, also while the library's
 * hook stands in for it; NULL for none.
 */
lua_Hook interrupt_foreign_hook(const struct orr_isolate *iso, lua_State *co, int *mask, int *count);

/*
 * Between the two calls nobody else sets or removes the hook of the running coroutine: the caller
 * owns it.
 */
void interrupt_lock_hook(struct orr_isolate *iso);
void interrupt_unlock_hook(struct orr_isolate *iso);

/* Sets the C function of scripts' hooks. */
static inline void interrupt_set_script_hook(struct interrupt *self, lua_Hook hook)
{
    self->script_hook = hook;
}

/*
 * In the hook, before Lua is suspended in L.  Lua marks the frame in which a hook has yielded, and
 * skips one call of a hook there.  If the mark stayed, a script that sets a hook for lines later
 * would miss the first line.  So the library's hook stays on for the instruction at which the
 * coroutine goes on, and removes itself at the next.  If it is requested before that instruction,
 * it is not taken off before that instruction either.  It cannot stay if it stands in for the hook
 * of a C library, which is put back at once.  It need not stay if scripts can set no hooks.
 */
void interrupt_stay_on(struct orr_isolate *iso, lua_State *L);

#endif
