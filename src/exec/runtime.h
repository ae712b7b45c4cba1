/*
 * A runtime is its workers, and the little that they share.
 *
 * The thread that holds `driven` drives worker 1, a turn or a run at a time.  Taking `driven` and
 * giving it back are acquire and release, so turns may move from thread to thread.  All other
 * workers have threads, which end on `stopping`.
 *
 * `spawns_by_letter` counts the spawns that went by letter and whose worker has not been without
 * tasks since.  A task is made only by a task or a timer's callback on the same worker, or by
 * letter.  So when worker 1 has no task, no spawn by letter is counted, and no timer is set or runs
 * anywhere, then only the host can make something happen.
 *
 * After the host's workers there is room for the *pool threads*, for layers above that need other
 * cores.  They are opened all at once, when first asked for (open.h), and are workers like any
 * other, except that the host does not know their numbers.
 */
#ifndef ORR_EXEC_RUNTIME_H
#define ORR_EXEC_RUNTIME_H

#include "exec/worker.h"

#define RUNTIME_MAGIC UINT64_C(0x6f727265727931a7)

/* The state of virtual.c: see virtual.h. */
struct virtual_state {
    _Atomic unsigned awake;
    _Atomic uint64_t rises;
    bool stuck; /* the deadlock has been reported */
};

struct orr_runtime {
    uint64_t magic; /* tells a runtime from other things that a pointer may point at */
    _Atomic bool driven;
    _Atomic bool stopping;
    _Atomic bool interrupted; /* orr_runtime_run() is to return, once */
    /* Calls of orr_runtime_stop() under way; orr_runtime_free() waits for them. */
    _Atomic unsigned stoppers;
    _Atomic uint64_t spawns_by_letter;
    bool fd_in_use;
    bool alone; /* no other thread of the host wakes tasks: see runtime_is_alone() */
    struct timers *timers;
    struct virtual_state virtual;
    struct alloc alloc;
    struct log log;
    orr_sink_fn *sink;
    void *sink_data;
    orr_deadlock_fn *deadlock;
    void *deadlock_data;
    unsigned worker_count; /* workers of the host */
    unsigned capacity;     /* workers of the host and pool threads */
    /* Open workers: those of the host, then the pool threads, too. */
    _Atomic unsigned open;
    /* Held while pool threads are opened, or the extension is made. */
    pthread_mutex_t growing;
    struct worker_config pool_config; /* what the pool threads are opened with */
    struct worker *workers;
    _Atomic unsigned last_number; /* see runtime_new_number() */
    void *extension;              /* one object of the layer above; NULL before it is made */
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

/* How many pool threads the host lets the runtime have.  Any thread. */
static inline unsigned runtime_pool_most(const struct orr_runtime *rt)
{
    return rt->capacity - rt->worker_count;
}

static inline bool runtime_stopping(struct orr_runtime *rt)
{
    return atomic_load_explicit(&rt->stopping, memory_order_acquire);
}

/* A number, from 1, for something that a layer above makes and names by it.  Any thread. */
static inline unsigned runtime_new_number(struct orr_runtime *rt)
{
    return atomic_fetch_add_explicit(&rt->last_number, 1, memory_order_relaxed) + 1;
}

/*
 * The host promises that no thread of its own wakes a task or completes a future that is not
 * `foreign`.  Then a deadlock is noticed on the machine's clock, too, as on a virtual one.  For the
 * program and the module, which are their own hosts.  The thread that drives worker 1.
 */
static inline void runtime_is_alone(struct orr_runtime *rt)
{
    rt->alone = true;
}

/* How many workers are open; a worker stays open until the runtime is freed.  Any thread. */
static inline unsigned runtime_open_workers(struct orr_runtime *rt)
{
    return atomic_load(&rt->open);
}

/* The worker with a number, from 1.  Any thread. */
static inline struct worker *runtime_worker(struct orr_runtime *rt, unsigned number)
{
    return &rt->workers[number - 1];
}

static inline void runtime_expect_spawn(struct orr_runtime *rt)
{
    atomic_fetch_add_explicit(&rt->spawns_by_letter, 1, memory_order_relaxed);
}

/*
 * Subtracts `count` spawns.  If none are left, and worker 1 does not know by itself, nudges it.
 * Any thread.
 */
static inline void runtime_finish_spawns(struct orr_runtime *rt, uint64_t count)
{
    /* Release: a thread that reads 0 (acquire) sees what the tasks did. */
    bool last = atomic_fetch_sub_explicit(&rt->spawns_by_letter, count, memory_order_acq_rel) == count;
    if (last && worker_current != runtime_worker(rt, 1))
        worker_nudge(runtime_worker(rt, 1));
}

#endif
