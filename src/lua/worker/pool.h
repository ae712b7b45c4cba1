/*
 * Pools of jobs, and the jobs.
 *
 * A job is one run of a program: arguments in, results or an error out.  Two sides hold references
 * to it.  The submitter waits for the job's future on a worker of its own.  A pool thread runs the
 * job (run_job.h).  The side that completes the future decides the outcome: the pool thread by what
 * the script did, the submitter by giving up, because it was cancelled or timed out.  A future is
 * completed once, so there is one outcome.  The pool thread writes the outcome into the job before
 * it completes the future.  The submitter reads it afterwards, and only if the pool thread
 * completed the future.
 *
 * A pool bounds how many of its jobs run at once, and how many wait.  It has no threads: all pools
 * of a runtime share the runtime's pool threads, and a job goes to the thread with the fewest
 * jobs.  More jobs than threads may run at once, because Lua can be suspended anywhere.
 *
 * `lock`, one for all pools of a runtime, guards the queues, the counts and the states of jobs.  It
 * is held for a few instructions, and never while Lua runs or memory is allocated.
 */
#ifndef ORR_LUA_WORKER_POOL_H
#define ORR_LUA_WORKER_POOL_H

#include "base/list.h"
#include "lua/values/message.h"
#include "lua/worker/program.h"

struct job_isolate;

/*
 * All pools of a runtime.  Its pools refer to it, and jobs to their pool: what a script still holds
 * of a job may outlive the runtime of the job's thread, and its allocator is the script's own.
 */
struct job_pools {
    _Atomic unsigned references; /* of the runtime, and of each pool */
    struct alloc alloc;
    struct orr_runtime *rt;   /* has the pool threads; not used after their end */
    struct orr_runtime *home; /* its workers submit the jobs; mostly the same */

    /* Runs a job on its pool thread. */
    void (*arrive)(struct worker *worker, struct mail *mail);

    pthread_mutex_t lock;
    struct job_pool *standard; /* a reference; NULL after the end of the runtime */
    unsigned first, count;     /* the pool threads' numbers among the runtime's workers */
    unsigned *loads;           /* jobs of each pool thread; one entry a thread */
    uint64_t finished;         /* jobs that left their thread */
    uint64_t isolates;         /* job isolates made */
};

struct job_pool {
    _Atomic unsigned references;
    struct job_pools *all;
    unsigned size;        /* jobs that may run at once */
    unsigned waiting_max; /* jobs that may wait */
    unsigned running, waiting;
    struct orr_link queue; /* the jobs that wait */
};

enum { JOB_ROOM = 96 }; /* bytes of arguments, and of results, that need no memory of their own */

enum job_state {
    JOB_NEW,       /* not submitted yet */
    JOB_WAITING,   /* in its pool's queue */
    JOB_ON_THREAD, /* sent to a pool thread */
    JOB_GIVEN_UP,  /* by its submitter; a thread may still have it */
    JOB_LEFT,      /* its thread is done with it */
};

struct job {
    struct mail mail; /* to its pool thread */
    _Atomic unsigned references;
    struct job_pool *pool;
    struct program *program;
    struct orr_future *future;
    uint64_t timeout_ns;
    struct message arguments;
    bool collected;              /* garbage was collected once, to make room for the arguments */
    struct job_isolate *isolate; /* in which it runs; the pool thread's */

    /* The outcome: see above. */
    bool failed;
    struct message result; /* the results, or the error */
    char *report;          /* of the error, charged to the quota; NULL for none */

    /* Under the lock. */
    enum job_state state;
    unsigned number; /* of the worker that is its pool thread */
    struct orr_waker runner;
    struct orr_link link; /* in its pool's queue */

    unsigned char rooms[2][JOB_ROOM]; /* for small arguments and results */
};

/* --- Pools ------------------------------------------------------------------------------------ */

/*
 * Makes all pools of a runtime, whose pool threads are open.  `arrive` runs on a pool thread for
 * each job that is sent there.  NULL for lack of memory.
 */
struct job_pools *job_pools_new(struct orr_runtime *rt, void (*arrive)(struct worker *worker, struct mail *mail));

/* The end of the runtime, after the pool threads have ended. */
void job_pools_close(struct job_pools *pools);

/* Any thread. */
void job_pools_count_isolate(struct job_pools *pools);

/*
 * 0 for `size` allows as many jobs at once as there are pool threads.  0 for `waiting_max` allows
 * the default.  NULL for lack of memory.
 */
struct job_pool *job_pool_new(struct job_pools *pools, unsigned size, unsigned waiting_max);
struct job_pool *job_pool_ref(struct job_pool *pool);
void job_pool_unref(struct job_pool *pool);

struct job_pool_figures {
    unsigned threads, size, waiting_max, running, waiting;
    uint64_t finished, isolates; /* of all pools */
};

/* Any thread. */
struct job_pool_figures job_pool_read(const struct job_pool *pool);

/* --- Jobs ------------------------------------------------------------------------------------- */

/*
 * A job without arguments, charged to the program's quota.  The future belongs to the calling
 * thread's worker.  NULL for lack of memory, or because the runtime is shutting down.
 */
struct job *job_new(struct job_pool *pool, struct program *program);
struct job *job_ref(struct job *job);
void job_unref(struct job *job);

/* Keeps the report of a job that has failed.  Keeps none if there is no memory for it. */
void job_set_report(struct job *job, const char *report);

/* -EAGAIN: `bounded`, and the pool's queue is full.  -ESHUTDOWN.  Any thread. */
int job_submit(struct job *job, bool bounded);

/* False if the job's future was completed before.  Any thread. */
bool job_give_up(struct job *job);

/*
 * The job begins, as the task with this waker.  False if it was given up before.  Its pool thread.
 */
bool job_begin(struct job *job, struct orr_waker runner);
bool job_is_given_up(struct job *job);

/*
 * The job is over on its pool thread.  Answers the next job for the thread, or NULL.  Its pool
 * thread.
 */
struct job *job_leave(struct job *job);

#endif
