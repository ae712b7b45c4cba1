/* An isolate's figures, for the host.  Scripts have theirs in `runtime`: see info.c. */
#include "lua/isolate.h"

#include <errno.h>

/* A state of the host's own has no account with us. */
static size_t memory_used(const struct orr_isolate *iso)
{
    if (iso->owned)
        return iso->memory.used;
    return ((size_t)lua_gc(iso->L, LUA_GCCOUNT) << 10) + (size_t)lua_gc(iso->L, LUA_GCCOUNTB);
}

int orr_lua_stats(lua_State *L, struct orr_lua_stats *stats)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || !stats)
        return -EINVAL;
    int error = isolate_visit(iso);
    if (error)
        return error;
    *stats = (struct orr_lua_stats){
        .tasks = task_set_count(&iso->tasks),
        .memory_used = memory_used(iso),
        .memory_peak = iso->memory.peak,
        .memory_limit = iso->owned ? iso->limits.memory : 0,
        .preemptions = iso->preemption.count,
        .timeouts = iso->preemption.timeouts,
        .events_emitted = iso->events.emitted,
        .events_refused = iso->events.refused,
        .events_dropped = iso->events.dropped,
        .events_coalesced = iso->events.coalesced,
        .schedule_waiting = iso->schedule.count,
        .schedule_errors = task_set_scheduled_failed(&iso->tasks),
        .schedule_run = iso->schedule.run,
        .timers_pending = iso->timers.figures.pending,
        .timers_fired = iso->timers.figures.fired,
        .timers_cancelled = iso->timers.figures.cancelled,
        .timers_rearmed = iso->timers.figures.rearmed,
        .timers_dropped = iso->timers.figures.dropped,
    };
    isolate_leave(iso);
    return 0;
}
