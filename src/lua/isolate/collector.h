/*
 * When garbage is collected.
 *
 * Lua's own collector works while Lua allocates, in steps that can take many times a turn.  In a
 * state of ours it stands still while Lua runs: its debt is kept far below zero.  We step it
 * ourselves, a thousand units of work at a time, which takes some fifty microseconds, and look at
 * the clock between two steps.
 *
 * Pace.  A cycle begins when the memory in use has doubled since the last cycle ended.  From then
 * on each byte that is allocated makes two units of work *owed*.  The allocator says what was
 * allocated, every 16 KB, and has the hook pay what is owed at the next instruction.  When the
 * slice or the turn is over before all is paid, the script is suspended, and the rest is paid in
 * later turns, before any Lua of the isolate goes on.  So what a script allocates costs the script
 * time, and costs the host none.
 *
 * Steps that cannot be divided: the end of marking, a large table, an array that is freed.  The
 * longest step of the last cycle is remembered.  Until this cycle has had its own, a step begins
 * only if that much time is left of the turn.  If the longest step was long, marking is done in one
 * go, with the script suspended: then there is little to mark again at the end.  If it becomes
 * longer from cycle to cycle, cycles begin sooner, so that it is noticed early; and an untrusted
 * script that makes a step last longer than `longest_step_ns` is banned.
 *
 * At the memory limit the cycle under way and up to two whole cycles after it are *forced*: owed
 * until they are over, however little is allocated.
 *
 * States that the host has made, and states without limits on their time, keep Lua's own collector.
 *
 * The isolate's worker's thread.
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
    struct idle_work idle; /* steps taken while the host has time to spare */
    bool managed;          /* it is stepped by us */
    /* The script has asked for that mode, which changes nothing */
    bool generational;
    bool stopped; /* by the script: nothing is owed but what is forced */
    /* Lua's own collector is at work, for plain code of the host */
    bool left_to_lua;
    bool in_cycle; /* a cycle is under way */
    bool at_work;  /* steps are being taken */
    /* All is owed until the longest step of the cycle was taken */
    bool in_one_go;
    lua_State *stack;                  /* holds the newest object; finalizers run on it */
    int kept;                          /* reference to a list of metatables: see collector_keep() */
    uint64_t kept_in;                  /* the cycle for which they are kept */
    const void *kept_last[KEPT_CACHE]; /* some of those in the list */
    unsigned forced;                   /* cycles that must be over before the script goes on */
    /* The next cycle begins at this percentage of what the last has left */
    unsigned pause;
    unsigned rate;           /* units of work a byte, in percent of the usual */
    uint64_t owed;           /* units of work */
    uint64_t quiet_until;    /* the hook is not requested before this time */
    uint64_t request_ns;     /* how long a request takes */
    size_t threshold;        /* bytes in use at which the next cycle begins */
    uint64_t longest;        /* the longest step of this cycle, in nanoseconds */
    uint64_t longest_before; /* the longest step of the last cycle */
    size_t left_before;      /* bytes in use at the end of the last cycle */
    /* Cycles in a row whose longest step grew out of all proportion */
    unsigned rises;
    uint64_t cycles; /* completed */
    uint64_t worst;  /* the longest step of all, in nanoseconds */
};

/*
 * Up to 5.4.8 a table that is weak in keys and values may lose a metatable that it is given while
 * marking goes on: nobody looks at it again.  So the metatable at an index of L is held until the
 * cycle is over.  May raise.
 */
void collector_keep(struct orr_isolate *iso, lua_State *L, int index);

/* So many kilobytes' worth of work is owed; for 0, one step. */
void collector_owe(struct orr_isolate *iso, long long kilobytes);

/*
 * Takes over the collector of a state of ours that was just made.  Nothing is collected before
 * collector_begin().
 */
void collector_open(struct orr_isolate *iso, lua_State *L);

/* The state is complete: from now on it is collected, also while the host has time to spare. */
void collector_begin(struct orr_isolate *iso);

/* The isolate is being closed: takes back collector_begin().  Safe without that. */
void collector_end(struct orr_isolate *iso);

/* A slice begins: what plain code of the host has left to Lua's own collector is ours again. */
void collector_take_back(struct orr_isolate *iso);

/* So many bytes have been allocated.  In the allocator: only notes that, and requests the hook. */
void collector_note_allocated(struct orr_isolate *iso, size_t bytes);

/* Whether something is to be paid before Lua goes on. */
bool collector_owes(const struct orr_isolate *iso);

/*
 * Takes steps until nothing is owed, or the time is over: `until`, the end of the turn, or the end
 * of the slice that is under way.  True if nothing is owed any more.  Runs finalizers, on a stack
 * of its own.
 */
bool collector_pay(struct orr_isolate *iso, uint64_t until);

/*
 * Takes steps for Lua that cannot be suspended: for so long, even if the turn or the slice is over
 * meanwhile.
 */
void collector_pay_anyway(struct orr_isolate *iso, uint64_t ns);

/*
 * The cycle under way, if there is one, and so many whole cycles after that are owed, or fewer if
 * those bring memory well below its limit.  An object with a finalizer, and what the finalizer
 * makes, are freed only by the second.
 */
void collector_force(struct orr_isolate *iso, unsigned cycles);

/* No cycle is forced any more. */
void collector_stop_forcing(struct orr_isolate *iso);

/* Sets the collector as it was when the state was made, undoing what scripts have set. */
void collector_reset(struct orr_isolate *iso, lua_State *L);

static inline bool collector_is_managed(const struct collector *self)
{
    return self->managed;
}

/* Whether steps are being taken: then finalizers may run. */
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
