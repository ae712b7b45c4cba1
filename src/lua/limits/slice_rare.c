#include "lua/limits/slice_rare.h"

#include "base/clock.h"
#include "lua/isolate.h"
#include "lua/isolate/ban.h"
#include "lua/isolate/calm.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/memory_limit.h"
#include "lua/limits/notices.h"
#include "lua/limits/timeout_report.h"

#include <stdio.h>
#include <string.h>

void slice_rare_set_end(struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        iso->slice.end = clock_after(clock_now(), iso->limits.slice_ns);
}

void slice_rare_watch(struct orr_isolate *iso)
{
    struct watch *watch = worker_watch(iso->worker);
    watch_begin(watch, &iso->slice.outer, interrupt_slice_over, iso, iso->limits.slice_ns);
    if (watch_failed(watch))
        slice_rare_count(iso);
}

void slice_rare_count(struct orr_isolate *iso)
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

void slice_rare_end_request(struct orr_isolate *iso, bool over)
{
    struct orr_isolate *outer = iso->slice.outer.data;
    interrupt_end_slice(iso);
    timeout_report_forget_slow(&iso->timeout_report);
    if (over && outer)
        interrupt_slice_over_with(outer, &iso->interrupt);
}

/* Whether every slice needs more than the short way, because of what the host has chosen. */
static bool is_always_watched(const struct limits *limits)
{
    uint64_t limit = limits->deadline_ns[ORR_LUA_CALL];
    return limits->mode != ORR_LUA_SIGNAL || limits->memory_soft || (limit && limit < 2 * limits->slice_ns);
}

/*
 * The alarm and the suspicion of a block that is too large come with a request for the hook, but
 * may outlast the slice.
 */
void slice_rare_look_for_calm(struct orr_isolate *iso)
{
    bool pending = is_always_watched(&iso->limits) || iso->closing || isolate_has_urgent(iso) ||
                   execution_in_slice(&iso->execution) || interrupt_is_requested(&iso->interrupt) ||
                   interrupt_is_counted(&iso->interrupt) || ban_is_imposed(&iso->ban) ||
                   collector_is_left_to_lua(&iso->collector) || notices_any(&iso->notices) ||
                   memory_limit_is_pending(&iso->memory_alarm, &iso->oversized);
    if (!pending)
        calm_begin(&iso->calm);
}
