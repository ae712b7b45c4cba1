#include "exec/drive.h"

#include "base/clock.h"
#include "exec/turn.h"
#include "exec/virtual.h"
#include "exec/wait.h"
#include "time/open.h"

#include <errno.h>

void worker_finish_spawns(struct worker *worker)
{
    uint64_t spawns_by_letter = worker->spawns_by_letter;
    worker->spawns_by_letter = 0;
    runtime_finish_spawns(worker->runtime, spawns_by_letter);
}

void worker_settle(struct worker *worker)
{
    bool rested = shard_comes_to_rest(worker->shard);
    if (!counter_read(&worker->tasks.live) && (rested || worker->spawns_by_letter))
        worker_finish_spawns(worker);
}

bool worker_may_go_on(struct worker *worker)
{
    worker_take_nudge(worker);
    return !runtime_stopping(worker->runtime) && !atomic_load_explicit(&worker->remote.stopped, memory_order_acquire);
}

int runtime_drive(struct orr_runtime *rt)
{
    if (!runtime_valid(rt))
        return -EINVAL;
    for (struct worker *worker = worker_current; worker; worker = worker->outer)
        if (worker->runtime == rt)
            return -EBUSY;
    return atomic_exchange_explicit(&rt->driven, true, memory_order_acquire) ? -EBUSY : 0;
}

void runtime_park(struct orr_runtime *rt)
{
    atomic_store_explicit(&rt->driven, false, memory_order_release);
}

/*
 * While worker 1 is driven, its shard is attended: timers of unattended shards come to it and fire
 * there.  Its own timers stay with it in any case.
 */
static void attend(struct orr_runtime *rt)
{
    shard_attend(runtime_worker(rt, 1)->shard);
}

static void unattend(struct orr_runtime *rt)
{
    if (!rt->fd_in_use)
        shard_unattend(runtime_worker(rt, 1)->shard);
}

/* Tasks before timers: a task that ends leaves its timers to be seen. */
static bool all_done(struct orr_runtime *rt)
{
    return !counter_read(&runtime_worker(rt, 1)->tasks.live) &&
           !atomic_load_explicit(&rt->spawns_by_letter, memory_order_acquire) && timers_idle(rt->timers);
}

static bool was_interrupted(struct orr_runtime *rt)
{
    return atomic_load_explicit(&rt->interrupted, memory_order_relaxed) && atomic_exchange(&rt->interrupted, false);
}

/*
 * Turns worker 1 until `done(data)`; with `done` NULL, until nothing is left to happen.
 * -ECANCELED: stopped; -EINTR: interrupted, with `done` NULL only; -EDEADLK: `done` can never come
 * true.
 */
static int turn_until(struct worker *worker, bool (*done)(void *data), void *data)
{
    struct orr_runtime *rt = worker->runtime;
    for (;;) {
        if (!worker_may_go_on(worker)) {
            worker_nudge(worker); /* for the next call to see */
            return -ECANCELED;
        }
        if (!done && was_interrupted(rt))
            return -EINTR;
        if (done)
            worker_turn(worker, ORR_NEVER);
        else
            worker_turns(worker);
        if (done && done(data))
            return 0;
        if (worker_busy(worker))
            continue;
        worker_settle(worker);
        if (all_done(rt))
            return done ? -EDEADLK : 0;
        if (virtual_can_jump(worker))
            continue;
        if (virtual_is_stuck(worker))
            return -EDEADLK;
        /* A host that was told of the deadlock may have mended it. */
        if (!worker_busy(worker) && !virtual_can_jump(worker))
            worker_sleep(worker, ORR_NEVER);
    }
}

int orr_runtime_run(struct orr_runtime *rt)
{
    int error = runtime_drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    struct worker *outer = worker_enter(worker);
    watch_return(worker->watch);
    attend(rt);
    error = turn_until(worker, NULL, NULL);
    unattend(rt);
    worker_leave(outer);
    worker_park(worker, rt->fd_in_use);
    runtime_park(rt);
    return error;
}

struct patience {
    bool (*done)(void *data);
    void *data;
    struct sleeper alarm; /* by the runtime's clock, so that virtual time reaches it, too */
    bool bounded;
};

static bool done_or_late(void *data)
{
    const struct patience *patience = data;
    return patience->done(patience->data) || (patience->bounded && !patience->alarm.word);
}

int runtime_run_until(struct orr_runtime *rt, bool (*done)(void *data), void *data, uint64_t timeout_ns)
{
    struct worker *worker = worker_current;
    struct patience patience = { .done = done, .data = data, .bounded = timeout_ns != ORR_NEVER };
    if (patience.bounded)
        shard_sleep(worker->shard, &patience.alarm, SLEEPER_OF_NOBODY, clock_after(timers_now(rt->timers), timeout_ns));
    int error = turn_until(worker, done_or_late, &patience);
    if (patience.alarm.word)
        shard_wake_early(worker->shard, &patience.alarm);
    if (done(data))
        return 0;
    return error ? error : -ETIMEDOUT;
}

int orr_runtime_turn(struct orr_runtime *rt, uint64_t budget_ns)
{
    int error = runtime_drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    int more = -ESHUTDOWN;
    if (worker_may_go_on(worker)) {
        struct worker *outer = worker_enter(worker);
        bell_ignore(&worker->table->bell);
        watch_return(worker->watch);
        /*
         * Only if no worker attends the timers: otherwise timers that came to this shard now would
         * have to leave it at the end of the turn.
         */
        if (!timers_is_attended(rt->timers))
            attend(rt);
        worker_turn(worker, budget_ns);
        worker_settle(worker);
        if (rt->deadlock && !worker_busy(worker))
            virtual_is_stuck(worker);
        unattend(rt);
        worker_leave(outer);
        more = 0;
    } else {
        /* The descriptor stays readable, so that the next turn says so again. */
        worker_nudge(worker);
    }
    worker_park(worker, rt->fd_in_use);
    if (!more)
        more = worker_deadline(worker) == 0;
    runtime_park(rt);
    return more;
}

int orr_runtime_idle(struct orr_runtime *rt, uint64_t budget_ns)
{
    int error = runtime_drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    struct worker *outer = worker_enter(worker);
    bool more = worker_idle(worker, clock_after(clock_now(), budget_ns));
    worker_leave(outer);
    runtime_park(rt);
    return more;
}

int orr_runtime_enter(struct orr_runtime *rt)
{
    int error = runtime_drive(rt);
    if (error)
        return error;
    worker_enter(runtime_worker(rt, 1));
    watch_visit(runtime_worker(rt, 1)->watch);
    return 0;
}

int orr_runtime_leave(struct orr_runtime *rt)
{
    struct worker *worker = worker_current;
    if (!runtime_valid(rt) || worker != runtime_worker(rt, 1) || worker->polling)
        return -EINVAL;
    worker_leave(worker->outer);
    worker_park(worker, rt->fd_in_use);
    runtime_park(rt);
    return 0;
}

int orr_runtime_fd(struct orr_runtime *rt)
{
    int error = runtime_drive(rt);
    if (error)
        return error;
    struct worker *worker = runtime_worker(rt, 1);
    int fd = reactor_fd(worker->reactor);
    if (fd >= 0 && !rt->fd_in_use) {
        rt->fd_in_use = true;
        attend(rt);
        reactor_wait(worker->reactor, 0); /* clears what the bell's former owners rang */
        worker_park(worker, true);
    }
    runtime_park(rt);
    return fd;
}

uint64_t orr_runtime_next_deadline(struct orr_runtime *rt)
{
    if (!runtime_valid(rt))
        return ORR_NEVER;
    return worker_deadline(runtime_worker(rt, 1));
}
