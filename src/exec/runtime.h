/*
 * A runtime is its workers, and the little that they share.
 *
 * Worker 1 is driven by whoever holds `driven`, a turn or a run at a time; taking it and giving it back are acquire and
 * release, so turns may move from thread to thread.  The others have threads, which end on `stopping`.
 *
 * `spawns_by_letter` counts the spawns that went by letter and whose worker has not been without tasks since.  A task can be
 * made only by a task or a timer's callback on the same worker, or by letter; so when worker 1 has no task, there are
 * no spawns_by_letter, and no timer is set anywhere or runs, nothing is left to happen but by the host.
 *
 * Behind the host's workers there is room for more, the *crew*, for whoever needs other cores: they are opened when first asked for,
 * all at once, and then are workers like any other, except that the host does not know their numbers.
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
    _Atomic bool interrupted;  /* whoever runs it is to return, once */
    _Atomic unsigned stoppers; /* calls of orr_runtime_stop() under way, which the end of the runtime waits for */
    _Atomic uint64_t spawns_by_letter;
    bool fd_in_use;
    struct timers *timers;
    struct virtual_state virtual;
    struct alloc alloc;
    struct log log;
    orr_sink_fn *sink;
    void *sink_data;
    orr_deadlock_fn *deadlock;
    void *deadlock_data;
    unsigned worker_count;     /* the host's */
    unsigned capacity;         /* with the crew */
    _Atomic unsigned open;     /* workers there are: up to the host's, or all */
    pthread_mutex_t growing;   /* around the opening of the crew */
    struct worker_config crew; /* what it is opened with */
    struct worker *workers;
    void *extension; /* of the layer above; made under `growing` */
    void (*extension_free)(void *extension);
};

static inline bool runtime_valid(const struct orr_runtime *rt)
{
    return rt && rt->magic == RUNTIME_MAGIC;
}

/* How many workers the host has; the pool threads have higher numbers.  Any thread. */
static inline unsigned runtime_host_workers(const struct orr_runtime *rt)
{
    return rt->worker_count;
}

static inline bool runtime_stopping(struct orr_runtime *rt)
{
    return atomic_load_explicit(&rt->stopping, memory_order_acquire);
}

/* How many workers there are; each is there for good.  Any thread. */
static inline unsigned runtime_open_workers(struct orr_runtime *rt)
{
    return atomic_load(&rt->open);
}

/* `number` from 1. */
static inline struct worker *runtime_worker(struct orr_runtime *rt, unsigned number)
{
    return &rt->workers[number - 1];
}

/*
 * Opens the crew, unless it is, each with what it is to do on its thread before it closes, which may be NULL.  Negative errno if
 * there is none at all.  Any thread.
 */
int runtime_grow(struct orr_runtime *rt, void (*on_close)(struct worker *worker));

/*
 * The one object that a layer above keeps with a runtime.  The first call has `make` make it; `free` is called at the end of the
 * runtime, after all workers are closed.  NULL if `make` answers NULL.  Any thread.
 */
void *runtime_extension(struct orr_runtime *rt, void *(*make)(struct orr_runtime *rt), void (*free)(void *extension));

/*
 * Turns worker 1, of which the calling thread is the owner, until `done(data)`, for at most so long by the runtime's clock.
 * -ETIMEDOUT; -ECANCELED: stopped; -EDEADLK: nothing is left that could ever make it so.
 */
int runtime_run_until(struct orr_runtime *rt, bool (*done)(void *data), void *data, uint64_t timeout_ns);

static inline void runtime_expect_spawn(struct orr_runtime *rt)
{
    atomic_fetch_add_explicit(&rt->spawns_by_letter, 1, memory_order_relaxed);
}

/* Tells worker 1 if none are left and it does not know by itself.  Any thread. */
static inline void runtime_finish_spawns(struct orr_runtime *rt, uint64_t count)
{
    /* Release, so that whoever sees none left sees what the tasks did. */
    bool last = atomic_fetch_sub_explicit(&rt->spawns_by_letter, count, memory_order_acq_rel) == count;
    if (last && worker_current != runtime_worker(rt, 1))
        worker_nudge(runtime_worker(rt, 1));
}

#endif
