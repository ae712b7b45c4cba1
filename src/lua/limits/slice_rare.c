#include "lua/limits/slice_rare.h"

#include "base/clock.h"
#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/notices.h"
#include "lua/limits/timeout_report.h"

#include <stdio.h>
#include <string.h>

void slice_rare_set_end(struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        iso->slice.end = clock_after(clock_now(), iso->limits.slice_ns);
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
