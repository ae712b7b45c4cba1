#include "lua/limits/slice.h"

#include "base/clock.h"
#include "lua/isolate.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/memory_limit.h"
#include "lua/limits/notices.h"
#include "lua/limits/timeout_report.h"

#include <stdio.h>
#include <string.h>

/* Begins a slice that no timer can interrupt. */
static void count_instead(struct orr_isolate *iso)
{
    int error;
    const char *call = watch_failed_call(worker_watch(iso->worker), &error);
    uint64_t now = clock_now();
    iso->slice.end = clock_after(now, iso->limits.slice_ns);
    interrupt_count_slice(iso, now);
    if (iso->slice.counted_told)
        return;
    iso->slice.counted_told = true;
    char text[160];
    snprintf(text, sizeof text,
             "Lua cannot be interrupted by a timer, and its instructions are counted instead: %s: %s", call,
             strerror(error));
    notices_add(iso, ORR_LUA_COUNTED, text);
}

static void begin_watching(struct orr_isolate *iso)
{
    watch_begin(worker_watch(iso->worker), &iso->slice.outer, interrupt_slice_over, iso, iso->limits.slice_ns);
    interrupt_watch_slice(&iso->interrupt);
    if (watch_failed(worker_watch(iso->worker)))
        count_instead(iso);
}

bool slice_begin(struct orr_isolate *iso)
{
    if (execution_in_slice(&iso->execution))
        return false;
    execution_set_slice(&iso->execution, SLICE_RUNS);
    iso->slice.outer_isolate = isolate_in_slice;
    isolate_in_slice = iso;
    collector_take_back(iso);
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        begin_watching(iso);
    else if (iso->limits.mode == ORR_LUA_COUNT)
        iso->slice.end = clock_after(clock_now(), iso->limits.slice_ns);
    return true;
}

static void end_watching(struct orr_isolate *iso)
{
    struct orr_isolate *outer = iso->slice.outer.data;
    bool over = interrupt_time_is_over(&iso->interrupt);
    watch_end(worker_watch(iso->worker), &iso->slice.outer);
    if (!interrupt_is_requested(&iso->interrupt))
        return;
    interrupt_end_slice(iso);
    timeout_report_forget_slow(&iso->timeout_report);
    if (over && outer)
        interrupt_slice_over_with(outer, &iso->interrupt);
}

void slice_end(struct orr_isolate *iso)
{
    execution_set_slice(&iso->execution, SLICE_NONE);
    isolate_in_slice = iso->slice.outer_isolate;
    memory_limit_end_slice(iso);
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        end_watching(iso);
    if (iso->limits.memory_soft)
        memory_limit_watch_soft(iso);
    if (notices_any(&iso->notices))
        notices_deliver(iso);
}

static bool looks_at_clock(const struct orr_isolate *iso)
{
    return iso->limits.mode == ORR_LUA_COUNT || interrupt_is_counted(&iso->interrupt);
}

bool slice_is_over(const struct orr_isolate *iso)
{
    if (!looks_at_clock(iso))
        return interrupt_time_is_over(&iso->interrupt);
    uint64_t now = clock_now();
    return now >= iso->slice.end || now >= watch_turn_end(worker_watch(iso->worker));
}

uint64_t slice_end_time(const struct orr_isolate *iso)
{
    return looks_at_clock(iso) ? iso->slice.end : ORR_NEVER;
}
