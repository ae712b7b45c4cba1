/*
 * A slice is one uninterrupted stretch of Lua.  It begins when a worker polls a task of the
 * isolate, or when the host makes a call, and ends when the poll or call returns.  A slice that
 * runs longer than `slice_ns` is suspended, or, past a deadline, ended (preempt.h).  Before that, a
 * slice costs next to nothing.
 *
 * With a timer: the worker's watch (exec/watch.h) interrupts the thread when the slice is over, and
 * the signal handler requests the hook (isolate/interrupt.h).
 *
 * Without a timer: a slice that the watch cannot interrupt is *counted*.  The hook is set from the
 * start, moves with the running coroutine, and reads the clock every `check_interval` instructions.
 *
 * A slice may run inside the slice of another isolate on the same worker.  When the inner slice is
 * over, the outer slice is over, too.
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
    /* The slice of another isolate on the same worker, inside which this one runs */
    struct watch_outer outer;
    struct orr_isolate *outer_isolate; /* that isolate; NULL for none */
    uint64_t end;                      /* by the clock, if no timer interrupts the slice */
    bool counted_told;                 /* the host has been notified that slices are counted */
};

/* Begins a slice, unless Lua runs in one already.  If true, the caller must call slice_end(). */
bool slice_begin(struct orr_isolate *iso);
void slice_end(struct orr_isolate *iso);

/* Whether the time of the slice is used up, or the worker's turn is over. */
bool slice_is_over(const struct orr_isolate *iso);

/* When the slice will be over, by the clock; ORR_NEVER if a signal interrupts it. */
uint64_t slice_end_time(const struct orr_isolate *iso);

#endif
