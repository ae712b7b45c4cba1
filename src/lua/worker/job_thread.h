/*
 * A job thread is what a pool thread keeps for its jobs: spare job isolates, and those that it
 * cannot free yet.  Only that thread uses it; after the thread has ended, the runtime's last owner
 * frees it.
 */
#ifndef ORR_LUA_WORKER_JOB_THREAD_H
#define ORR_LUA_WORKER_JOB_THREAD_H

#include "lua/worker/job_isolate.h"

struct job_thread {
    struct worker *worker;
    struct job_isolate *spares; /* newest first */
    unsigned spare_count;
    struct job_isolate *unfreed; /* they still have tasks, because the kernel holds their I/O */
    bool closing;                /* the thread ends: its jobs end at once */
};

/* The calling pool thread's own, made at the first call.  NULL for lack of memory. */
struct job_thread *job_thread_of(struct worker *worker);

/*
 * Before the thread's worker closes.  Jobs that run are ended when their tasks are polled,
 * cancelled.
 */
void job_thread_on_close(struct worker *worker);

/* After the thread has ended.  NULL is allowed. */
void job_thread_free(struct job_thread *thread);

/* A spare isolate of the job's program, or a new one.  NULL for lack of memory. */
struct job_isolate *job_thread_take_isolate(struct job_thread *thread, struct job *job,
                                            job_isolate_unhandled *on_unhandled);

/* Its job is over: makes it a spare, or frees it. */
void job_thread_give_isolate(struct job_thread *thread, struct job_isolate *isolate);

#endif
