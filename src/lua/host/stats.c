/* An isolate's statistics, for the host.  Scripts use `runtime`: see api/runtime_info.c. */
#include "lua/api/events.h"
#include "lua/api/schedule.h"
#include "lua/api/script_timers.h"
#include "lua/isolate.h"

#include <errno.h>

/* Orrery does not count the memory of a state that the host has created, so Lua is asked. */
static size_t memory_used(const struct orr_isolate *iso)
{
    if (iso->owned)
        return account_used(&iso->account);
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
    const struct event_figures *events = events_figures(&iso->events);
    const struct timer_figures *timers = script_timers_figures(&iso->timers);
    struct limit_statistics limits = statistics_read(&iso->statistics);
    *stats = (struct orr_lua_stats){
        .tasks = task_set_count(&iso->tasks),
        .memory_used = memory_used(iso),
        .memory_peak = account_peak(&iso->account),
        .memory_limit = iso->owned ? iso->limits.memory : 0,
        .preemptions = limits.preemptions,
        .timeouts = limits.timeouts,
        .events_emitted = events->emitted,
        .events_refused = events->refused,
        .events_dropped = events->dropped,
        .events_coalesced = events->coalesced,
        .schedule_waiting = schedule_count(&iso->schedule),
        .schedule_errors = task_set_scheduled_failed(&iso->tasks),
        .schedule_run = schedule_run(&iso->schedule),
        .timers_pending = timers->pending,
        .timers_fired = timers->fired,
        .timers_cancelled = timers->cancelled,
        .timers_rearmed = timers->rearmed,
        .timers_dropped = timers->dropped,
    };
    isolate_leave(iso);
    return 0;
}
