/*
 * A runtime is its workers, and the little that they share.
 *
 * Worker 1 is driven by whoever holds `driven`, a turn or a run at a time; taking it and giving it back are acquire and
 * release, so turns may move from thread to thread.  The others have threads, which end on `stopping`.
 *
 * `errands` counts the spawns that went by letter and whose worker has not been without tasks since.  A task can be
 * made only by a task or a timer's callback on the same worker, or by letter; so when worker 1 has no task, there are
 * no errands, and no timer is set anywhere or runs, nothing is left to happen but by the host.
 */
#ifndef ORR_EXEC_RUNTIME_H
#define ORR_EXEC_RUNTIME_H

#include "exec/virtual.h"
#include "exec/worker.h"

#define RUNTIME_MAGIC UINT64_C(0x6f727265727931a7)

struct orr_runtime {
    uint64_t magic; /* tells a runtime from other things that a pointer may point at */
    _Atomic bool driven;
    _Atomic bool stopping;
    _Atomic unsigned stoppers; /* calls of orr_runtime_stop() under way, which the end of the runtime waits for */
    _Atomic uint64_t errands;
    bool fd_in_use;
    struct timekeeper *keeper;
    struct virtual_state virtual;
    struct alloc alloc;
    struct log log;
    orr_sink_fn *sink;
    void *sink_data;
    orr_deadlock_fn *deadlock;
    void *deadlock_data;
    unsigned worker_count;
    struct worker *workers;
};

static inline bool runtime_valid(const struct orr_runtime *rt)
{
    return rt && rt->magic == RUNTIME_MAGIC;
}

static inline bool runtime_stopping(struct orr_runtime *rt)
{
    return atomic_load_explicit(&rt->stopping, memory_order_acquire);
}

/* `number` from 1. */
static inline struct worker *runtime_worker(struct orr_runtime *rt, unsigned number)
{
    return &rt->workers[number - 1];
}

/*
 * Turns worker 1, of which the calling thread is the owner, until `done(data)`, for at most so long by the runtime's clock.
 * -ETIMEDOUT; -ECANCELED: stopped; -EDEADLK: nothing is left that could ever make it so.
 */
int runtime_run_until(struct orr_runtime *rt, bool (*done)(void *data), void *data, uint64_t timeout_ns);

static inline void runtime_expect_errand(struct orr_runtime *rt)
{
    atomic_fetch_add_explicit(&rt->errands, 1, memory_order_relaxed);
}

/* Tells worker 1 if none are left and it does not know by itself.  Any thread. */
static inline void runtime_finish_errands(struct orr_runtime *rt, uint64_t count)
{
    /* Release, so that whoever sees none left sees what the tasks did. */
    bool last = atomic_fetch_sub_explicit(&rt->errands, count, memory_order_acq_rel) == count;
    if (last && worker_current != runtime_worker(rt, 1))
        worker_nudge(runtime_worker(rt, 1));
}

#endif
