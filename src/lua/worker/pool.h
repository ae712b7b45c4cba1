/*
 * Pools of jobs, and the jobs.
 *
 * A job is one run of a worker's program: arguments in, results or an error out.  Two sides hold it, by references.  Whoever
 * submitted it waits for its future, on a worker of its own.  A thread of the crew performs it (perform.c).  Whichever completes the future first
 * decides what the job has come to: the crew by what the script did, the other by giving up, because it was cancelled or its time was
 * over.  A future is completed once, so there is one outcome; and what the crew writes into the job it writes before that,
 * and the other side reads after, and only if it was the crew that completed it.
 *
 * A pool bounds how many jobs run at once, and how many wait.  It has no threads: all pools of a runtime share its crew, and a job goes
 * to the thread with the fewest.  More jobs than threads may run at once, for Lua can be suspended anywhere.
 *
 * `lock`, one for all pools of a runtime, guards the queues, the counts, and where each job is.  It is held for a few instructions at a
 * time, and never while Lua runs or memory is asked for.
 */
#ifndef ORR_LUA_WORKER_POOL_H
#define ORR_LUA_WORKER_POOL_H

#include "lua/values/message.h"
#include "lua/worker/program.h"

enum {
    QUEUE_DEFAULT = 1024,
};

struct job_isolate;
struct job_thread;

/* What the pools know of a thread. */
struct berth {
    struct job_thread *job_thread; /* the thread's own: see job_isolate.h */
    unsigned load;                 /* jobs that it has */
};

struct pools {
    struct orr_runtime *rt;
    pthread_mutex_t lock;
    struct pool *standard; /* a reference */
    unsigned first, count; /* the crew's workers, by their numbers */
    struct berth *berths;  /* one for each, from the first */
    uint64_t done;         /* jobs that a thread has finished with */
    uint64_t made;         /* isolates */
};

struct pool {
    _Atomic unsigned references;
    struct pools *all;
    unsigned size;  /* jobs at once */
    unsigned limit; /* that may wait */
    unsigned running, waiting;
    struct job *first, *last;
};

enum job_place {
    JOB_NOWHERE,
    JOB_WAITING,
    JOB_ON_A_THREAD,
};

struct job {
    struct mail mail; /* to the thread */
    _Atomic unsigned references;
    struct pool *pool;
    struct program *program;
    struct orr_future *future;
    uint64_t timeout_ns;
    struct message arguments;
    bool collected;                  /* garbage was, once, to make room for the arguments */
    struct job_isolate *job_isolate; /* the thread's own, while it runs there */

    /* What it has come to: see above. */
    bool failed;
    struct message result; /* the results, or the error */
    char *report;          /* of the error, on the quota; NULL for none */

    /* Under the lock. */
    enum job_place place;
    bool given_up;
    unsigned number; /* of the worker */
    struct orr_waker runner;
    struct job *next, *previous;
};

/* A runtime's pools, made when first asked for, with the crew.  Negative errno. */
int pools_get(struct orr_runtime *rt, struct pools **out);

/* 0 for as many jobs at once as there are threads, and for the usual limit.  NULL for lack of memory. */
struct pool *pool_new(struct pools *pools, unsigned size, unsigned limit);
struct pool *pool_ref(struct pool *pool);
void pool_unref(struct pool *pool);

/* With no arguments yet, on the program's quota.  NULL for lack of memory, or because the runtime ends.  The future's home is the calling thread's worker. */
struct job *job_new(struct pool *pool, struct program *program);
struct job *job_ref(struct job *job);
void job_unref(struct job *job);

/* Keeps the report of a job that has failed, unless there is no memory for it. */
void job_set_report(struct job *job, const char *report);

/* -EAGAIN: `bounded`, and as many wait as may.  -ESHUTDOWN.  Any thread. */
int job_submit(struct job *job, bool bounded);

/* False if it is too late.  Any thread. */
bool job_give_up(struct job *job);

/* For the thread: it begins, as the task with this waker; false if it was given up before. */
bool job_begin(struct job *job, struct orr_waker runner);
bool job_is_given_up(struct job *job);

/* And it is over there.  Answers the next for the same thread, or NULL. */
struct job *job_leave(struct job *job);

/* For the thread it was sent to: performs it.  In perform.c. */
void job_arrives(struct worker *worker, struct mail *mail);

/* Around the life of a thread of the crew.  In job_isolate.c. */
void job_thread_on_close(struct worker *worker);
void job_thread_free(struct job_thread *job_thread, const struct alloc *alloc);

#endif
