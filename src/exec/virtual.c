#include "exec/virtual.h"

#include "exec/runtime.h"
#include "exec/tree.h"

static bool is_virtual(const struct worker *worker)
{
    return worker->timers->clock == ORR_CLOCK_VIRTUAL;
}

void virtual_init(struct orr_runtime *rt)
{
    atomic_store(&rt->virtual.awake, rt->worker_count - 1);
}

void virtual_falls_asleep(struct worker *worker, bool io)
{
    if (!is_virtual(worker) || worker->number == 1 || io)
        return;
    if (atomic_fetch_sub(&worker->runtime->virtual.awake, 1) == 1)
        worker_nudge(runtime_worker(worker->runtime, 1));
}

void virtual_wakes_up(struct worker *worker, bool io)
{
    if (!is_virtual(worker) || worker->number == 1 || io)
        return;
    /* In this order: a look at `awake` that is too early finds another number of rises. */
    atomic_fetch_add(&worker->runtime->virtual.awake, 1);
    atomic_fetch_add(&worker->runtime->virtual.rises, 1);
}

void virtual_ends(struct worker *worker)
{
    virtual_falls_asleep(worker, false);
}

void virtual_begins_outside(struct worker *worker)
{
    atomic_fetch_add(&worker->remote.foreign_futures, 1);
}

void virtual_ends_outside(struct worker *worker)
{
    if (atomic_fetch_sub(&worker->remote.foreign_futures, 1) == 1)
        worker_nudge(runtime_worker(worker->runtime, 1));
}

static bool others_have_news(struct orr_runtime *rt)
{
    for (unsigned number = 2; number <= runtime_open_workers(rt); number++) {
        struct worker *worker = runtime_worker(rt, number);
        if (atomic_load(&worker->shard->living) && worker_has_news(worker))
            return true;
    }
    return false;
}

/*
 * Whether something outside is to complete a future.  Futures of a worker that has ended do not
 * count.
 */
static bool foreign_outstanding(struct orr_runtime *rt)
{
    for (unsigned number = 1; number <= runtime_open_workers(rt); number++) {
        struct worker *worker = runtime_worker(rt, number);
        if (atomic_load(&worker->remote.foreign_futures) && (number == 1 || atomic_load(&worker->shard->living)))
            return true;
    }
    return false;
}

/*
 * No other worker is awake from the first look at `awake` to the last.  Meanwhile only threads
 * outside and the time service can leave something, and they are counted until they have left it.
 * So everything that can be left is looked at after those who can leave it, also what is left for
 * this worker.
 */
static bool quiet_everywhere(struct worker *worker)
{
    struct orr_runtime *rt = worker->runtime;
    uint64_t rises = atomic_load(&rt->virtual.rises);
    if (atomic_load(&rt->virtual.awake) || foreign_outstanding(rt) || atomic_load(&rt->timers->in_transit))
        return false;
    if (worker_busy(worker) || worker_has_news(worker) || reactor_in_flight(worker->reactor) || others_have_news(rt))
        return false;
    return !atomic_load(&rt->virtual.awake) && atomic_load(&rt->virtual.rises) == rises;
}

static uint64_t next_anywhere(struct worker *worker)
{
    struct orr_runtime *rt = worker->runtime;
    uint64_t next = shard_next(worker->shard);
    for (unsigned number = 2; number <= runtime_open_workers(rt); number++) {
        uint64_t other = atomic_load_explicit(&runtime_worker(rt, number)->shard->next, memory_order_relaxed);
        next = other < next ? other : next;
    }
    return next;
}

bool virtual_can_jump(struct worker *worker)
{
    return is_virtual(worker) && worker->number == 1 && next_anywhere(worker) != ORR_NEVER && quiet_everywhere(worker);
}

/* Whether nobody outside this worker can wake its tasks, on the machine's clock. */
static bool is_alone(const struct worker *worker)
{
    struct orr_runtime *rt = worker->runtime;
    return rt->alone && rt->timers->clock == ORR_CLOCK_MONOTONIC && runtime_open_workers(rt) == 1;
}

bool virtual_is_stuck(struct worker *worker)
{
    struct orr_runtime *rt = worker->runtime;
    if (!(is_virtual(worker) || is_alone(worker)) || worker->number != 1 || next_anywhere(worker) != ORR_NEVER ||
        !quiet_everywhere(worker))
        return false;
    uint64_t tasks = 0;
    for (unsigned number = 1; number <= runtime_open_workers(rt); number++)
        tasks += counter_read(&runtime_worker(rt, number)->tasks.live);
    if (tasks && rt->deadlock) {
        rt->deadlock(rt->deadlock_data);
        return !worker_busy(worker) && next_anywhere(worker) == ORR_NEVER && quiet_everywhere(worker);
    }
    if (tasks && !rt->virtual.stuck) {
        rt->virtual.stuck = true;
        log_line(&rt->log, ORR_LOG_WARNING,
                 "deadlock%s: %llu %s, nothing is ready, no timer is set, no I/O is in flight and no "
                 "future is to be completed from outside:",
                 is_virtual(worker) ? " in virtual time" : "", (unsigned long long)tasks,
                 tasks == 1 ? "task waits" : "tasks wait");
        tree_log(worker);
    }
    return tasks;
}

void virtual_jump(struct worker *worker)
{
    if (!is_virtual(worker) || worker->number != 1 || !quiet_everywhere(worker))
        return;
    uint64_t next = next_anywhere(worker);
    if (next == ORR_NEVER)
        return;
    worker->runtime->virtual.stuck = false;
    timers_advance(worker->timers, next);
    for (unsigned number = 2; number <= runtime_open_workers(worker->runtime); number++) {
        struct worker *other = runtime_worker(worker->runtime, number);
        if (atomic_load_explicit(&other->shard->next, memory_order_relaxed) <= next)
            worker_nudge(other);
    }
}
