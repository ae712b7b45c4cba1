/* The public functions for a runtime's timers and clock. */
#include "exec/runtime.h"
#include "time/control.h"
#include "time/open.h"

#include <errno.h>

int orr_timer_new(struct orr_runtime *rt, const struct orr_timer_options *options, struct orr_timer **timer)
{
    if (!runtime_valid(rt) || !options || !timer || !options->waker.bits == !options->fire)
        return -EINVAL;
    return timer_new(rt->timers, options, timer);
}

uint64_t orr_runtime_now(struct orr_runtime *rt)
{
    return runtime_valid(rt) ? timers_now(rt->timers) : 0;
}

uint64_t orr_worker_now(struct orr_runtime *rt, unsigned worker)
{
    if (!runtime_valid(rt) || !worker || worker > rt->worker_count)
        return 0;
    return timers_published(rt->timers, worker - 1);
}

int orr_runtime_advance(struct orr_runtime *rt, uint64_t ns)
{
    if (!runtime_valid(rt))
        return -EINVAL;
    if (rt->timers->clock == ORR_CLOCK_MONOTONIC)
        return -EPERM;
    timers_advance_by(rt->timers, ns);
    for (unsigned number = 1; number <= runtime_open_workers(rt); number++)
        worker_nudge(runtime_worker(rt, number));
    return 0;
}
