/*
 * The outcome of a job: copies the script's results, or its error, into the job.  All of it runs on
 * the pool thread that runs the job, before the job's future is completed.
 */
#ifndef ORR_LUA_WORKER_JOB_OUTCOME_H
#define ORR_LUA_WORKER_JOB_OUTCOME_H

#include "lua/worker/job_isolate.h"

/*
 * Fails the job with the value at the top of L, which is popped.  Does nothing else if the job
 * failed before.  `report` may be NULL: then nothing raises, and for lack of memory the error is
 * missing.  With a report it raises for lack of memory.
 */
void job_outcome_fail(struct job_isolate *isolate, lua_State *L, const char *report);

/*
 * Calls `function` with [isolate] [pointer] [handle of the main task, or else the value at 1],
 * protected.  If it raises, the job fails with the error, and the answer is false.
 */
bool job_outcome_protect(struct job_isolate *isolate, lua_CFunction function, void *pointer, int results);

/* A task of the isolate failed, and nobody awaits it: the job fails.  A job_isolate_unhandled. */
void job_outcome_note_unhandled(void *data, struct orr_task *task);

/*
 * The main task is over: takes its error, or its results while the job's progress is
 * PROGRESS_RUNNING.
 */
void job_outcome_take(struct job_isolate *isolate);

/*
 * Starts a main task that copies the results, after the progress became PROGRESS_COPYING.  False:
 * the job failed.
 */
bool job_outcome_start_copying(struct job_isolate *isolate);

#endif
