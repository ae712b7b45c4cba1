/*
 * The hook that interrupts Lua at its next instruction.
 *
 * There is no hook in normal running.  It is *requested* when the slice is over, or when something
 * is to be done about memory.  Then our debug hook is set on the coroutine that runs; at the next
 * instruction it calls the layer above, which finds out what is to be done (limits/preempt.h).
 * interrupt_switched() moves the hook whenever another coroutine runs, so the hook is on the
 * running coroutine and on no other.  A hook of ours that is found elsewhere is stale or inherited,
 * and removes itself.
 *
 * Other hooks.  A script's own hook does the same work by itself (limits/hooks.h).  Ours stands in
 * for the hook of a C library: it still tells that hook all that it wants to know, and puts it
 * back.
 *
 * Signals.  interrupt_slice_over() runs in a signal handler on the worker's thread, between any two
 * machine instructions.  It reads and writes `requested`, `time`, `armed` and `busy`, which are
 * volatile, one word each, and used by no other thread: so the handler sees them as the interrupted
 * code last wrote them, and needs no atomic operation.  The interrupted code keeps the handler from
 * setting the hook by `busy`. What it keeps about the hook (`foreign`, `skips`, ...) changes only
 * under `busy` or in the handler.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_INTERRUPT_H
#define ORR_LUA_ISOLATE_INTERRUPT_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

/* What the layer above does. */
struct interrupt_actions {
    /*
     * In the hook: does what is to be done.  `may_suspend`: Lua may be suspended at this event.
     * May raise or yield.
     */
    void (*act)(struct orr_isolate *iso, lua_State *L, bool may_suspend);

    /* In the first hook after the slice was over: looks at what took long.  Never raises. */
    void (*late)(struct orr_isolate *iso, lua_State *L, lua_Debug *event);

    /* Whether what runs is to be ended, so that any error will do.  Async-signal-safe. */
    bool (*is_overdue)(const struct orr_isolate *iso);

    /* The hook that counts instructions, in the mode ORR_LUA_COUNT. */
    lua_Hook count;
};

/* Whether the slice has time left. */
enum slice_time {
    TIME_LEFT,
    TIME_JUST_OVER, /* it is over, and no hook has run since */
    TIME_OVER,
};

struct interrupt {
    const struct interrupt_actions *actions;
    /* The hook is wanted: the slice is over, or there is something to do about memory */
    volatile bool requested;
    volatile uint8_t time; /* enum slice_time */
    volatile bool busy;    /* the hook is being moved: the signal handler leaves it alone */
    /* Lua copies a stack into a block that ends at its limit, until it frees the old one */
    volatile bool stack_grows;
    bool counted;              /* no timer interrupts the slice: the hook looks at the clock */
    volatile bool at_start;    /* the next instruction may be the first of a function */
    unsigned skips;            /* unsafe points to suspend at that were skipped so far */
    uint64_t over_at;          /* when the slice was over, by the clock */
    uint64_t over_at_cpu;      /* and by the thread's processor time */
    lua_State *volatile armed; /* the coroutine that has our hook */
    struct {
        lua_Hook hook;
        int mask, count;
    } foreign; /* the hook of a C library that ours stands in for */
    /* The C function of scripts' hooks, which looks by itself; NULL if scripts can have none */
    lua_Hook script_hook;
};

/* To be called before the isolate's Lua runs. */
void interrupt_open(struct interrupt *self, const struct interrupt_actions *actions);

/* --- Requests --------------------------------------------------------------------------------- */

/*
 * Has the hook called at the next instruction, if Lua runs that it can interrupt; false if not.
 * Safe inside the allocator.
 */
bool interrupt_request(struct orr_isolate *iso);

/* Has a script's hook, too, look at the next instruction: by itself it would come later. */
void interrupt_hurry(const struct orr_isolate *iso, lua_State *L);

/* Nothing is wanted of the hook any more, unless the slice is over. */
void interrupt_stand_down(struct orr_isolate *iso);

/* For now Lua runs without the hook.  The request stays. */
void interrupt_take_off(struct orr_isolate *iso);

/*
 * In our hook: it is to be called again after so many instructions.  A script's hook comes by
 * itself.
 */
void interrupt_again_after(lua_State *L, int count);

static inline bool interrupt_is_requested(const struct interrupt *self)
{
    return self->requested;
}

/* Long work in C reads this flag between steps: `requested`. */
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
 * The watch's function, a watch_fn; `data` is the isolate.  The slice is over, or still is: in a
 * signal handler, on the worker's thread, inside that slice.
 */
void interrupt_slice_over(void *data);

/* The slice is over since that of another isolate, which ran inside it, was over. */
void interrupt_slice_over_with(struct orr_isolate *iso, const struct interrupt *inner);

/* No timer interrupts the slice that begins at `now`: the hook is there from the start. */
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

/*
 * How long ago the slice was over, in nanoseconds: by the clock, and by the thread's processor
 * time.
 */
uint64_t interrupt_time_over_for(const struct interrupt *self);
uint64_t interrupt_time_over_for_cpu(const struct interrupt *self);

/*
 * In a hook: whatever takes long from now on is not what made the slice last too long.  The handler
 * changes TIME_LEFT only, so nothing of its work is lost.
 */
static inline void interrupt_looked(struct interrupt *self)
{
    if (self->time == TIME_JUST_OVER)
        self->time = TIME_OVER;
}

/* In a hook: no time is left.  A signal meanwhile would say so, too. */
static inline void interrupt_end_time(struct interrupt *self)
{
    if (self->time == TIME_LEFT)
        self->time = TIME_OVER;
}

/* --- Coroutines ------------------------------------------------------------------------------- */

/* Moves the hook to where Lua runs now. */
void interrupt_follow(struct orr_isolate *iso);

/* Must be called whenever the running coroutine has changed. */
static inline void interrupt_switched(const struct interrupt *self, struct orr_isolate *iso)
{
    if (self->requested)
        interrupt_follow(iso);
}

/* A new coroutine has been made by L: it must not inherit the hook. */
void interrupt_made_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co);

/* Where instructions are counted: has the counting hook called on `co` after so many of them. */
void interrupt_count(struct orr_isolate *iso, lua_State *co, int instructions);

/* In the counting hook: it has come. */
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
 * The hook of a coroutine that is not ours, its mask and count, also while ours stands in for it;
 * NULL for none.
 */
lua_Hook interrupt_foreign_hook(const struct orr_isolate *iso, lua_State *co, int *mask, int *count);

/*
 * Between the two, nobody sets or removes the hook of the coroutine that runs: it belongs to the
 * caller.
 */
void interrupt_lock_hook(struct orr_isolate *iso);
void interrupt_unlock_hook(struct orr_isolate *iso);

/* The C function of scripts' hooks. */
static inline void interrupt_set_script_hook(struct interrupt *self, lua_Hook hook)
{
    self->script_hook = hook;
}

/*
 * In the hook, before Lua is suspended in L.  Lua marks the frame in which a hook has yielded, and
 * leaves out one call of a hook there.  The mark must not stay until a script sets a hook for
 * lines, and misses the first of them.  So our hook stays on for the instruction at which the
 * coroutine goes on, and removes itself at the next.  It cannot if it stands in for the hook of a C
 * library, which is put back at once; and need not if scripts have no hooks.
 */
void interrupt_stay_on(struct orr_isolate *iso, lua_State *L);

#endif
