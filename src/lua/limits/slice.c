#include "lua/limits/slice.h"

#include "base/clock.h"
#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"
#include "lua/limits/slice_bounds.h"

bool slice_begin(struct orr_isolate *iso)
{
    if (execution_in_slice(&iso->execution))
        return false;
    slice_open(iso);
    return true;
}

void slice_end(struct orr_isolate *iso)
{
    slice_close(iso);
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
