/*
 * The begin and the end of a slice, inline: a call from the host often takes less time than a call
 * of these functions would.  What is rare is in slice_rare.h.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_SLICE_BOUNDS_H
#define ORR_LUA_LIMITS_SLICE_BOUNDS_H

#include "lua/isolate.h"
#include "lua/isolate/calm.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/memory_limit.h"
#include "lua/limits/notices.h"
#include "lua/limits/slice_rare.h"

/* Begins a slice.  Lua must not run in one. */
static inline void slice_open(struct orr_isolate *iso)
{
    execution_set_slice(&iso->execution, SLICE_RUNS);
    iso->slice.outer_isolate = isolate_in_slice;
    isolate_in_slice = iso;
    if (collector_is_left_to_lua(&iso->collector))
        collector_take_back(iso);
    if (iso->limits.mode != ORR_LUA_SIGNAL) {
        slice_rare_set_end(iso);
        return;
    }
    struct watch *watch = worker_watch(iso->worker);
    watch_begin(watch, &iso->slice.outer, interrupt_slice_over, iso, iso->limits.slice_ns);
    interrupt_watch_slice(&iso->interrupt);
    if (watch_failed(watch))
        slice_rare_count(iso);
}

/* Ends a slice that slice_open() has begun. */
static inline void slice_close(struct orr_isolate *iso)
{
    execution_set_slice(&iso->execution, SLICE_NONE);
    isolate_in_slice = iso->slice.outer_isolate;
    if (memory_alarm_is_on(&iso->memory_alarm) || !charge_is_settled(&iso->charge, &iso->account))
        memory_limit_end_slice(iso);
    if (iso->limits.mode == ORR_LUA_SIGNAL) {
        bool over = interrupt_time_is_over(&iso->interrupt);
        watch_end(worker_watch(iso->worker), &iso->slice.outer);
        if (interrupt_is_requested(&iso->interrupt))
            slice_rare_end_request(iso, over);
    }
    if (iso->limits.memory_soft)
        memory_limit_watch_soft(iso);
    if (notices_any(&iso->notices))
        notices_deliver(iso);
}

/* --- The short way ---------------------------------------------------------------------------- */

/*
 * A call from the host into an isolate that is idle and calm takes the short way: nothing but what
 * interrupts the call is set up before it, and nothing but that is cleared after it.
 */

/* Whether a call on the isolate's main thread can take the short way.  The worker is entered. */
static inline bool slice_can_be_short(const struct orr_isolate *iso)
{
    return calm_holds(&iso->calm) && !isolate_in_slice && execution_is_idle(&iso->execution);
}

/* Begins the slice and the level of a call.  `limit` is not short: see level_is_short(). */
static inline void slice_open_short(struct orr_isolate *iso, uint64_t limit)
{
    struct watch *watch = worker_watch(iso->worker);
    isolate_in_slice = iso;
    execution_begin_first(&iso->execution, limit);
    if (!watch_begin_again(watch, iso, iso->limits.slice_ns))
        slice_rare_watch(iso);
}

/*
 * Ends the slice and the level of a call that has returned, unless there is more to do: if false,
 * the caller does it, with level_leave() and slice_close_long().
 */
static inline bool slice_close_short(struct orr_isolate *iso)
{
    watch_end_alone(worker_watch(iso->worker)); /* a signal may come until here */
    if (!calm_holds(&iso->calm) || !charge_is_settled(&iso->charge, &iso->account))
        return false;
    execution_end_first(&iso->execution);
    isolate_in_slice = NULL;
    return true;
}

/* Ends a slice that slice_open_short() has begun, and that cannot end in the short way. */
static inline void slice_close_long(struct orr_isolate *iso)
{
    iso->slice.outer_isolate = NULL;
    iso->slice.outer.data = NULL;
    slice_close(iso);
}

#endif
