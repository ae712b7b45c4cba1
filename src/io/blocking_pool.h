/*
 * A pool of threads for system calls and library calls that block and cannot be interrupted.
 *
 * Nothing waits for these threads: neither a turn nor the end of a runtime.  They are made when
 * needed, belong to no runtime, block all signals, and end when they have been idle for some
 * seconds.  Pools share no threads: what blocks in one does not delay another.
 *
 * A client is one who asks, usually an isolate.  At most `running` jobs of a client run at a time,
 * the rest wait in its line, and clients take turns.  So a client whose jobs hang does not keep
 * others from theirs.  A job that was abandoned while it runs goes on unseen: it still counts for
 * its client, since it still holds a thread.
 *
 * A job is WAITING (in its client's line), RUNNING (a thread has it), or ENDED.  It has up to two
 * holders: its owner until blocking_abandon(), and its thread while RUNNING.
 *
 * Any thread may call all functions here.
 */
#ifndef ORR_IO_BLOCKING_POOL_H
#define ORR_IO_BLOCKING_POOL_H

#include "base/list.h"

#include <pthread.h>
#include <stdbool.h>

struct blocking_client;
struct blocking_job;

struct blocking_pool {
    const unsigned max_threads;
    const unsigned max_running; /* of one client */
    const unsigned max_waiting; /* of one client, in line */

    pthread_mutex_t mutex;   /* guards the rest, the clients and the states of the jobs */
    pthread_cond_t work;     /* there is a job to start */
    struct orr_link clients; /* those that can start a job; whose turn it is, first */
    struct orr_link named;   /* those of blocking_start_for() */
    unsigned threads, idle;
    unsigned running, waiting;
};

/* For the definition of a pool, which must live as long as the process. */
#define BLOCKING_POOL(pool, most_threads, most_running, most_waiting) \
    { \
        .max_threads = (most_threads), .max_running = (most_running), .max_waiting = (most_waiting), \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, \
        .clients = { &(pool).clients, &(pool).clients }, .named = { &(pool).named, &(pool).named }, \
    }

struct blocking_kind {
    /* Does the work, on a thread of the pool.  It may take for ever. */
    void (*run)(struct blocking_job *job);

    /* The work is done, and the owner has not abandoned it.  The pool's mutex is held.  This is the
     * last that the pool does with the job: the owner may free it meanwhile. */
    void (*over)(struct blocking_job *job);

    /* The work is done, and the owner has abandoned it: frees the job. */
    void (*drop)(struct blocking_job *job);
};

enum blocking_state {
    BLOCKING_WAITING,
    BLOCKING_RUNNING,
    BLOCKING_ENDED,
};

/* The pool's part of a job, in the job's memory. */
struct blocking_job {
    struct orr_link in_line;
    struct blocking_client *client;
    const struct blocking_kind *kind;
    enum blocking_state state;
    bool abandoned;
};

/* NULL without memory. */
struct blocking_client *blocking_client_new(struct blocking_pool *pool);

/*
 * The client asks for nothing any more.  Its jobs in line are never run; their owners still abandon
 * them.  It lives until none of its jobs runs.  NULL is allowed.
 */
void blocking_client_free(struct blocking_client *client);

/*
 * As blocking_start(), for the client with this name, which is made when it has a first job and
 * goes with its last one.  -ENOMEM, too.
 */
int blocking_start_for(struct blocking_pool *pool, const void *name, struct blocking_job *job,
                       const struct blocking_kind *kind);

/* Puts a job into its client's line.  -ENOBUFS: the line is full.  -EAGAIN: there is no thread, and
 * none can be made. */
int blocking_start(struct blocking_client *client, struct blocking_job *job, const struct blocking_kind *kind);

/*
 * The owner gives up a job that it has started.  Answers the state that the job was in: if it was
 * RUNNING, its thread frees it; else it belongs to the caller alone.
 */
enum blocking_state blocking_abandon(struct blocking_pool *pool, struct blocking_job *job);

/*
 * The owner gives up a job that is to be done all the same.  True: its thread frees it.  False: it
 * has ended, and belongs to the caller alone.
 */
bool blocking_detach(struct blocking_pool *pool, struct blocking_job *job);

/* For tests: how many threads there are, and how many jobs run or wait. */
struct blocking_numbers {
    unsigned threads, running, waiting;
};
struct blocking_numbers blocking_numbers(struct blocking_pool *pool);

#endif
