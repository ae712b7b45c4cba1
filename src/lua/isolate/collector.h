/*
 * When garbage is collected.
 *
 * Lua's own collector works while Lua allocates, in steps that can take many times a turn.  In a state of ours it stands still while
 * Lua runs: its debt is kept far below zero.  We step it ourselves, a thousand units of work at a time, which takes some fifty
 * microseconds, and look at the clock between two steps.
 *
 * Pace.  A cycle begins when what is in use has doubled since the last one ended.  From then on each byte that is allocated makes
 * two units of work *owed*.  The account (memory.h) says what was allocated, every 16 KB, and has the hook pay what is owed, at the
 * next instruction.  When the slice or the turn is over before all is paid, the script is suspended, and the rest is paid in
 * later turns, before any Lua of the isolate goes on.  So what a script allocates costs it time, and costs the host none.
 *
 * Steps that cannot be divided: the end of marking, a large table, an array that is freed.  How long the longest of the last
 * cycle took is remembered.  Until this cycle has had its own, a step begins only where that much is left of the turn.  If it was long,
 * marking is done in one go, with the script suspended: then there is little to look at again when marking ends.  If it becomes
 * longer from cycle to cycle, cycles begin sooner, so that it is noticed early; and an untrusted script that makes a step last longer
 * than `longest_step_ns` is ended.
 *
 * At the memory limit the cycle under way and up to two whole ones after that are *forced*: owed until they are over, whatever is allocated.
 *
 * States that the host has made, and those without limits on their time, keep Lua's own collector.  The isolate's worker's thread.
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
    struct idle_work idle;             /* steps taken while the host has time to spare */
    bool managed;                      /* it is stepped by us */
    bool generational;                 /* the script has asked for that mode, which changes nothing */
    bool stopped;                      /* by the script: nothing is owed but what is forced */
    bool left_to_lua;                  /* Lua's own collector is at work, for plain code of the host's */
    bool in_cycle;                     /* a cycle is under way */
    bool paying;                       /* it is at work */
    bool hurry;                        /* it is paid in one go, until the longest step was taken */
    lua_State *keeper;                 /* a stack that holds the newest object */
    int kept;                          /* in the registry: a list of metatables; see collector_keep() */
    uint64_t kept_in;                  /* the cycle that it is of */
    const void *kept_last[KEPT_CACHE]; /* some of those in it */
    unsigned forced;                   /* cycles that must be over before the script goes on */
    unsigned pause;                    /* percent of what is left by a cycle at which the next begins */
    unsigned rate;                     /* units of work a byte, in percent of the usual */
    uint64_t owed;                     /* units of work */
    uint64_t quiet_until;              /* the hook is not asked for before */
    uint64_t asking_ns;                /* what asking for it takes */
    size_t threshold;                  /* of memory in use, where the next cycle begins */
    uint64_t longest;                  /* step of this cycle, in nanoseconds */
    uint64_t before;                   /* step of the last cycle */
    size_t left_before;                /* what was in use at its end */
    unsigned rises;                    /* cycles in a row whose longest step grew out of all proportion */
    uint64_t cycles;                   /* completed */
    uint64_t worst;                    /* step of all, in nanoseconds */
};

/*
 * Up to 5.4.8 a table that is weak in keys and values may lose a metatable that it is given while marking goes on: nobody looks at it
 * again.  So the metatable at an index of L is held until the cycle is over.  May raise.
 */
void collector_keep(struct orr_isolate *iso, lua_State *L, int index);

/* So many kilobytes' worth of work is owed; for 0, one step. */
void collector_owe(struct orr_isolate *iso, long long kilobytes);

/* The state is made, and ours: takes over its collector.  Nothing is collected before collector_begin(). */
void collector_begin(struct orr_isolate *iso);
void collector_open(struct orr_isolate *iso, lua_State *L);

/* A slice begins: what plain code of the host's has left to Lua's own collector is ours again. */
void collector_take_back(struct orr_isolate *iso);

/* So many bytes have been allocated.  In the allocator: only notes, and asks for the hook. */
void collector_hear(struct orr_isolate *iso, size_t bytes);

/* Whether something is to be paid before Lua goes on. */
bool collector_owes(const struct orr_isolate *iso);

/*
 * Takes steps until nothing is owed, or the time is over: `until`, the end of the turn, or, where a slice is under way, its end.  True
 * if nothing is owed any more.  Runs finalizers, on a stack of its own.
 */
bool collector_pay(struct orr_isolate *iso, uint64_t until);

/* The same for Lua that cannot be suspended: for so long, whatever is over meanwhile. */
void collector_pay_anyway(struct orr_isolate *iso, uint64_t ns);

/*
 * The cycle under way, if there is one, and so many whole ones after that are owed, or fewer if those bring memory well below its limit.
 * An object with a finalizer, and what the finalizer makes, are freed only by the second.  Or nothing is owed any more.
 */
void collector_force(struct orr_isolate *iso, unsigned cycles);
void collector_relent(struct orr_isolate *iso);

/* As it was when the state was made, whatever a script has done to it. */
void collector_reset(struct orr_isolate *iso, lua_State *L);

/* Takes steps in time that the host has left.  True if there is more that it could do. */
bool collector_idle(struct orr_isolate *iso, uint64_t until);

#endif
