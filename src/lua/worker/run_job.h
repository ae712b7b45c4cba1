/*
 * Runs jobs on a pool thread.
 *
 * A task of the core runs each job: it starts the script as a Lua task of a job isolate, is woken
 * when the isolate has no task left, takes the outcome and completes the job's future.  A job is
 * done when all that it began is done: tasks, timers and scheduled callbacks.  The job fails if the
 * script fails, or anything that nobody awaits.  The first failure cancels the rest.
 *
 * In a new job isolate the program's modules run before the script: in the job's time, and as a
 * task of their own, so that they can be suspended and ended too.
 *
 * A job that was given up, or has failed, is cancelled.  Tasks that wait may clean up, for 100 ms
 * at most.  A task that computes is ended at the end of its time slice, as if its deadline had
 * passed.
 */
#ifndef ORR_LUA_WORKER_RUN_JOB_H
#define ORR_LUA_WORKER_RUN_JOB_H

#include "lua/worker/pool.h"

/*
 * A job arrived in the mail of a pool thread: runs it, or fails it for lack of memory.  That
 * thread.
 */
void run_job_arrive(struct worker *worker, struct mail *mail);

#endif
