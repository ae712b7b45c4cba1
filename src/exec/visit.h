/*
 * Short visits: plain code of the host drives worker 1 for as long as one call takes, as it would
 * between orr_runtime_enter() and orr_runtime_leave().
 *
 * A visit costs a few stores if the call leaves the worker as it was: parked, with nothing more to
 * submit, and with the same next deadline.  While the host watches the descriptor, the bell goes on
 * listening during the visit.  So news from other threads make the descriptor readable, and only
 * what the call itself has made ready needs worker_park().
 */
#ifndef ORR_EXEC_VISIT_H
#define ORR_EXEC_VISIT_H

#include "exec/runtime.h"
#include "exec/turn.h"

#include <errno.h>

/*
 * The calling thread drives no worker, and drives worker 1 until visit_end().  -EBUSY if another
 * thread does; -EPERM if the worker has a thread of its own.
 */
static inline int visit_begin(struct worker *worker)
{
    struct orr_runtime *rt = worker->runtime;
    if (worker->number != 1)
        return -EPERM;
    if (atomic_exchange_explicit(&rt->driven, true, memory_order_acquire))
        return -EBUSY;
    worker_enter(worker);
    watch_visit_often(worker->watch);
    return 0;
}

/* Whether the thread that drives the worker drove another one before, and still does. */
static inline bool worker_has_outer(const struct worker *worker)
{
    return worker->outer;
}

/* Whether worker_park() has something to do after a visit. */
static inline bool visit_changed_worker(struct worker *worker, bool watched)
{
    uint64_t published = atomic_load_explicit(&worker->shard->next, memory_order_relaxed);
    return reactor_has_unsubmitted(worker->reactor) || shard_next(worker->shard) != published ||
           (watched && worker_busy(worker));
}

static inline void visit_end(struct worker *worker)
{
    struct orr_runtime *rt = worker->runtime;
    worker_leave(NULL);
    if (visit_changed_worker(worker, rt->fd_in_use))
        worker_park(worker, rt->fd_in_use);
    atomic_store_explicit(&rt->driven, false, memory_order_release);
}

#endif
