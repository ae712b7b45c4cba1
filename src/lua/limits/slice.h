/*
 * A slice is one uninterrupted stretch of Lua, from when a worker polls a task of the isolate, or
 * the host makes a call, until that returns.  A slice that outlasts its share is suspended, or,
 * past a deadline, ended (preempt.h).  Until that happens a slice costs next to nothing.
 *
 * With a timer.  The worker's watch (exec/watch.h) interrupts the thread when the slice is over,
 * and its signal handler requests the hook (isolate/interrupt.h).
 *
 * Without a timer.  A slice that the watch cannot interrupt is *counted*: the hook is there from
 * the start, moves with the running coroutine, and looks at the clock every `check_interval`
 * instructions.
 *
 * A slice of another isolate on the same worker may be around ours; when ours is over, so is that
 * one.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_SLICE_H
#define ORR_LUA_LIMITS_SLICE_H

#include "exec/watch.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

struct slice {
    /* The slice of another isolate on the same worker, inside which ours runs */
    struct watch_outer outer;
    uint64_t end;      /* by the clock, where instructions are counted */
    bool counted_told; /* the host was told that slices are counted */
};

/* Begins a slice, unless Lua runs in one already.  True if it has: then slice_end() is due. */
bool slice_begin(struct orr_isolate *iso);
void slice_end(struct orr_isolate *iso);

/* Whether the slice has used up its share, or the worker's turn is over. */
bool slice_is_over(const struct orr_isolate *iso);

/* Until when work may be done in the slice; ORR_NEVER where a signal says when that is over. */
uint64_t slice_end_time(const struct orr_isolate *iso);

#endif
