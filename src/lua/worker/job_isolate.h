/*
 * A *job_isolate* is an isolate, on one thread of the crew, in which jobs of one program run, one at a time.
 *
 * A new job_isolate is *born* when the program's modules are loaded, and what it is like then is remembered.  After a job it is made as it was
 * (birth.h), and kept for the next job of the same program; unless it is *single*, because what cannot be put back was part of it from
 * its birth, or *spoiled*, because that came later, or it was ended by force, or it has run out of memory.  Then it is freed.
 *
 * A *job_thread* is what a thread has for its jobs.  All of it belongs to that thread.
 */
#ifndef ORR_LUA_WORKER_JOB_ISOLATE_H
#define ORR_LUA_WORKER_JOB_ISOLATE_H

#include "lua/worker/pool.h"

/* On the stack of a job_isolate's state. */
enum {
    JOB_ISOLATE_LIBRARY = 1, /* until it is born, what it has of ours; */
    JOB_ISOLATE_SCRIPT = 1,  /* from then on, the function, */
    JOB_ISOLATE_SNAPSHOT,    /* what it was like, */
    JOB_ISOLATE_MAIN,        /* and, while there is one, the handle of the job's task */
};

struct job_isolate {
    struct job_isolate *next; /* of the spares; or of those that could not be freed yet */
    struct job_thread *job_thread;
    struct program *program; /* a reference */
    lua_State *L;
    struct orr_isolate *iso;
    size_t newborn; /* its memory when it was born */
    size_t spared;  /* on the quota, as that of a spare one */
    bool unfit;     /* it could not be prepared: why is on the stack */
    bool born, single, spoiled;

    /* Of the job, for perform.c. */
    struct job *job; /* NULL while it is spare */
    struct ltask *main;
    bool begun, stopping;
    bool taken;    /* what the script returned has been copied, or is being copied, */
    bool collects; /* by a task, because it is much */
};

struct job_thread {
    struct worker *worker;
    struct job_isolate *spares, *remains; /* newest first */
    unsigned spare_count;
    bool ending;
};

/* The calling thread's own.  NULL for lack of memory. */
struct job_thread *job_thread_of(struct worker *worker, struct pools *pools);

/* A spare job_isolate of the job's program, or a new one.  NULL for lack of memory. */
struct job_isolate *job_isolate_get(struct job_thread *job_thread, struct job *job);

/* Its modules are loaded.  False if it cannot be born after all, with why not on the stack. */
bool job_isolate_init(struct job_isolate *job_isolate);

/* For an isolate of a job_isolate: something that nobody awaits has failed.  In perform.c. */
void run_job_note_unhandled(void *data, struct orr_task *task);

/* Whether it holds a good part of what its script may have. */
bool job_isolate_is_large(const struct job_isolate *job_isolate);

/* Its job is over: makes it ready for another, or frees it. */
void job_isolate_leave(struct job_isolate *job_isolate);

#endif
