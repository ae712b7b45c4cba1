/*
 * When garbage is collected.
 *
 * Lua's own collector works while Lua allocates, in steps that can take many times a turn.  In a
 * state that the library made, Lua's own collector stands still while Lua runs: its debt is kept
 * far below zero.  The library steps the collector itself.  One step is about a thousand units of
 * work and takes some fifty microseconds.  The library reads the clock between two steps.
 *
 * Pace.  A cycle begins when the memory in use has doubled since the last cycle ended, and has
 * grown by a megabyte or a sixteenth of the limit, whichever is less.  From then on each
 * allocated byte makes two units of work *owed*.  The allocator reports every 16 KB allocated, and
 * requests the hook, which pays the owed work at the next instruction.  If the slice or the turn
 * ends before all is paid, the script is suspended.  The rest is paid in later turns, before any
 * Lua of the isolate goes on.  So allocation costs time of the script, not of the host.
 *
 * Some steps cannot be divided: the end of marking, a large table, freeing an array.  The longest
 * step of the last cycle is remembered.  Until this cycle has had its own long step, a step begins
 * only if the turn has that much time left.  If the longest step was long, marking is done in one
 * go, with the script suspended: then there is little to mark again at the end.  If the longest
 * step grows from cycle to cycle, cycles begin sooner, so that the growth is noticed early.  An
 * untrusted script that makes a step last longer than `longest_step_ns` is banned.
 *
 * At the memory limit the cycle under way and up to two whole cycles after it are *forced*: they
 * are owed until they are over, however little is allocated.
 *
 * States that the host made, and states without time limits, keep Lua's own collector.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_COLLECTOR_H
#define ORR_LUA_ISOLATE_COLLECTOR_H

#include "exec/idle.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct orr_isolate;

enum { KEPT_CACHE = 16 };

struct collector {
    struct idle_work idle; /* steps taken while the host is idle */
    bool managed;          /* the library steps the collector */
    /* The script asked for generational mode, which changes nothing */
    bool generational;
    bool stopped; /* the script stopped the collector: only forced cycles are owed */
    /* Lua's own collector works, because plain code of the host runs Lua */
    bool left_to_lua;
    bool in_cycle; /* a cycle is under way */
    bool at_work;  /* steps are being taken */
    /* Work is owed until the longest step of this cycle is done */
    bool in_one_go;
    lua_State *stack;                  /* holds the newest object; finalizers run on it */
    int kept;                          /* reference to a list of metatables: see collector_keep() */
    uint64_t kept_in;                  /* the cycle in which the list was made, counted from 1 */
    const void *kept_last[KEPT_CACHE]; /* a cache of metatables in the list */
    unsigned forced;                   /* cycles that must be over before the script goes on */
    /* The next cycle begins at this percentage of the bytes that the last cycle left in use */
    unsigned pause;
    unsigned rate;           /* units of work per byte, in percent of the default */
    uint64_t owed;           /* units of work */
    uint64_t quiet_until;    /* the hook is not requested before this time */
    uint64_t request_ns;     /* how long a request of the hook takes, in nanoseconds */
    size_t threshold;        /* bytes in use at which the next cycle begins */
    uint64_t longest;        /* the longest step of this cycle, in nanoseconds */
    uint64_t longest_before; /* the longest step of the last cycle */
    size_t left_before;      /* bytes in use at the end of the last cycle */
    /* Consecutive cycles whose longest step grew faster than the square of the memory */
    unsigned rises;
    uint64_t cycles; /* completed */
    uint64_t worst;  /* the longest step of all, in nanoseconds */
};

/*
 * Holds the metatable at an index of L until the cycle is over.  Up to Lua 5.4.8 a table with weak
 * keys and values may lose a metatable that it gets during marking, because the collector does not
 * visit the table again.  May raise.
 */
void collector_keep(struct orr_isolate *iso, lua_State *L, int index);

/* Makes the work for `kilobytes` allocated kilobytes owed; for 0, one step. */
void collector_owe(struct orr_isolate *iso, long long kilobytes);

/*
 * Takes over the collector of a state that the library has just made.  Nothing is collected before
 * collector_begin().
 */
void collector_open(struct orr_isolate *iso, lua_State *L);

/* The state is complete.  From now on it is collected, also while the host is idle. */
void collector_begin(struct orr_isolate *iso);

/* The isolate is being closed: undoes collector_begin().  Safe if that was never called. */
void collector_end(struct orr_isolate *iso);

/*
 * A slice begins: the library steps the collector again, if plain code of the host left it to Lua.
 */
void collector_take_back(struct orr_isolate *iso);

/*
 * Notes that `bytes` bytes were allocated, and requests the hook.  Called inside the allocator, so
 * it does no more than that.
 */
void collector_note_allocated(struct orr_isolate *iso, size_t bytes);

/* Whether work must be paid before Lua goes on. */
bool collector_owes(const struct orr_isolate *iso);

/*
 * Takes steps until nothing is owed, or the time is over: at `until`, at the end of the turn, or at
 * the end of the running slice.  True if nothing is owed any more.  Runs finalizers, on the
 * collector's own stack.
 */
bool collector_pay(struct orr_isolate *iso, uint64_t until);

/*
 * Takes steps for up to `ns` nanoseconds, even if the turn or the slice ends meanwhile.  For Lua
 * that cannot be suspended.
 */
void collector_pay_anyway(struct orr_isolate *iso, uint64_t ns);

/*
 * Makes the cycle under way, if there is one, and `cycles` whole cycles after it owed.  Fewer are
 * run if they bring memory well below its limit.  Only the second cycle frees an object with a
 * finalizer, and what the finalizer makes.
 */
void collector_force(struct orr_isolate *iso, unsigned cycles);

/* Cancels all forced cycles. */
void collector_stop_forcing(struct orr_isolate *iso);

/* Restores the collector's initial settings, and so undoes what scripts have set. */
void collector_reset(struct orr_isolate *iso, lua_State *L);

static inline bool collector_is_managed(const struct collector *self)
{
    return self->managed;
}

/* Whether Lua's own collector runs, outside of slices: collector_take_back() ends that. */
static inline bool collector_is_left_to_lua(const struct collector *self)
{
    return self->left_to_lua;
}

/* Whether steps are being taken.  Finalizers may run during steps. */
static inline bool collector_is_at_work(const struct collector *self)
{
    return self->at_work;
}

static inline bool collector_is_forced(const struct collector *self)
{
    return self->forced;
}

/* Cycles completed so far. */
static inline uint64_t collector_cycles(const struct collector *self)
{
    return self->cycles;
}

#endif
