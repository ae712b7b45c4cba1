/* What the limits keep of the slice that runs: see budget.h. */
#ifndef ORR_LUA_LIMITS_PREEMPTION_H
#define ORR_LUA_LIMITS_PREEMPTION_H

#include "exec/watch.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct preemption {
    struct watch_outer outer; /* the slice of another isolate on the same worker, inside which ours runs */
    bool slicing;             /* Lua runs, watched */
    bool preempting;   /* coroutines yield outwards because the slice is over: all tasks out to the worker follow */
    bool counted;      /* no timer interrupts the slice: its hook looks at the clock */
    bool counted_told; /* the host was told that slices are counted */
    volatile bool requested; /* the hook is wanted: the slice is over, or there is something to do about memory */
    volatile bool slice_over;
    volatile bool fresh, moving, after_call;
    unsigned skips;            /* unsafe yield points skipped so far */
    uint64_t slice_end;        /* when instructions are counted */
    uint64_t requested_at;     /* by the clock */
    uint64_t requested_cpu;    /* by the thread's processor time */
    lua_State *volatile armed; /* the coroutine that has our hook */
    struct {
        lua_Hook hook;
        int mask, count;
    } own;                /* the hook that the armed coroutine had before */
    lua_Hook script_hook; /* the hook of scripts, which looks by itself (hooks.h); NULL if they can have none */
    uint64_t count;       /* slices that were preempted so far */
    uint64_t timeouts;    /* calls that were ended so far */
    char culprit[80];     /* the C function that ran when the slice was over, and for how long */
};

#endif
