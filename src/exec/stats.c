/*
 * Adds up the counters of workers and of their timers.  Each is written by one thread, and read
 * here by any.
 */
#include "exec/runtime.h"

#include <errno.h>

static void add_worker(struct orr_stats *sum, struct worker *worker)
{
    struct bell *bell = &worker->table->bell;
    sum->tasks_spawned += counter_read(&worker->tasks.spawned);
    sum->tasks_live += counter_read(&worker->tasks.live);
    sum->polls += counter_read(&worker->counters.polls);
    sum->wakes_local += counter_read(&worker->counters.wakes_local);
    sum->wakes_foreign += counter_read(&worker->counters.wakes_foreign);
    sum->wakes_coalesced += counter_read(&worker->counters.wakes_coalesced);
    sum->eventfd_writes += atomic_load_explicit(&bell->eventfd_writes, memory_order_relaxed) -
                           worker->counters.eventfd_writes_before;
    sum->futex_wakes += atomic_load_explicit(&bell->futex_wakes, memory_order_relaxed) -
                        worker->counters.futex_wakes_before;
    sum->sleeps += counter_read(&worker->counters.sleeps);
    sum->turns += counter_read(&worker->counters.turns);
}

static void add_shard(struct orr_stats *sum, struct timer_shard *shard)
{
    for (unsigned i = 0; i < TIMER_STRIPES; i++) {
        const struct timer_stripe *stripe = &shard->stripes[i];
        sum->timers_cancelled += atomic_load_explicit(&stripe->cancelled, memory_order_relaxed);
        sum->timers_rearmed += atomic_load_explicit(&stripe->rearmed, memory_order_relaxed);
    }
    sum->timers_stale += shard_garbage(shard);
    sum->timers_pending += shard_pending(shard);
    sum->timers_fired += counter_read(&shard->fired);
    sum->timers_cancelled += counter_read(&shard->cancelled);
    sum->timers_rearmed += counter_read(&shard->rearmed);
    sum->timers_migrated += counter_read(&shard->migrated);
    sum->timers_scrubbed += counter_read(&shard->scrubbed);
}

/* The quantiles of the lateness on several workers together. */
static void add_lateness(struct orr_stats *sum, struct orr_runtime *rt, unsigned first, unsigned last)
{
    uint64_t seen = 0, fired = 0;
    bool half = false, nearly_all = false;
    for (unsigned number = first; number <= last; number++)
        for (unsigned class = 0; class < HISTOGRAM_CLASSES; class ++)
            fired += counter_read(&runtime_worker(rt, number)->shard->lateness.classes[class]);
    for (unsigned class = 0; class < HISTOGRAM_CLASSES && fired; class ++) {
        for (unsigned number = first; number <= last; number++)
            seen += counter_read(&runtime_worker(rt, number)->shard->lateness.classes[class]);
        if (!half && seen * 2 >= fired)
            sum->lateness_p50_ns = histogram_limit(class);
        if (!nearly_all && seen * 100 >= fired * 99)
            sum->lateness_p99_ns = histogram_limit(class);
        half = half || seen * 2 >= fired;
        nearly_all = nearly_all || seen * 100 >= fired * 99;
    }
    for (unsigned number = first; number <= last; number++) {
        uint64_t longest = counter_read(&runtime_worker(rt, number)->shard->lateness.longest);
        if (longest > sum->lateness_max_ns)
            sum->lateness_max_ns = longest;
    }
    /* A quantile is the upper end of a class; nothing was later than the latest. */
    if (sum->lateness_p50_ns > sum->lateness_max_ns)
        sum->lateness_p50_ns = sum->lateness_max_ns;
    if (sum->lateness_p99_ns > sum->lateness_max_ns)
        sum->lateness_p99_ns = sum->lateness_max_ns;
}

static void add_service(struct orr_stats *sum, struct timers *timers)
{
    struct orr_stats unowned = { 0 };
    add_shard(&unowned, timers_unowned(timers)); /* where timers are cancelled and re-armed, too */
    sum->timers_held = unowned.timers_pending;
    sum->timers_pending += unowned.timers_pending;
    sum->timers_cancelled += unowned.timers_cancelled;
    sum->timers_rearmed += unowned.timers_rearmed;
    sum->timers_dropped = atomic_load_explicit(&timers->dropped, memory_order_relaxed);
    sum->service_wake_ups = atomic_load_explicit(&timers->wake_ups, memory_order_relaxed);
    sum->service_lag_ns = atomic_load_explicit(&timers->lag, memory_order_relaxed);
}

int orr_runtime_stats(struct orr_runtime *rt, unsigned worker, struct orr_stats *stats)
{
    if (!runtime_valid(rt) || worker > rt->worker_count || !stats)
        return -EINVAL;
    *stats = (struct orr_stats){ .workers = runtime_open_workers(rt) };
    unsigned first = worker ? worker : 1;
    unsigned last = worker ? worker : stats->workers;
    for (unsigned number = first; number <= last; number++) {
        add_worker(stats, runtime_worker(rt, number));
        add_shard(stats, runtime_worker(rt, number)->shard);
    }
    add_lateness(stats, rt, first, last);
    if (!worker)
        add_service(stats, rt->timers);
    stats->reactor = runtime_worker(rt, first)->reactor_kind;
    return 0;
}
