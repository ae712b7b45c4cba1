/*
 * The begin and the end of a slice, inline: a call from the host often takes less time than a call
 * of these functions would.  What is rare is in slice_rare.h.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_SLICE_BOUNDS_H
#define ORR_LUA_LIMITS_SLICE_BOUNDS_H

#include "lua/isolate.h"
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

#endif
