/*
 * Polling tasks, and what the worker's loop hands to them: wakes from its inbox, and I/O that has
 * finished.  The worker's owner.
 */
#ifndef ORR_EXEC_POLL_H
#define ORR_EXEC_POLL_H

#include "exec/worker.h"

/*
 * Polls a task that came off the ready queue.  False if it has ended meanwhile, and was not polled.
 */
bool task_run(struct worker *worker, struct orr_task *task);

/*
 * Polls a task that came off the queue of interrupted tasks; it may still be in another queue.
 * False as task_run().
 */
bool task_run_interrupted(struct worker *worker, struct orr_task *task);

/* Polls a live task here and now, also inside the poll of another. */
void task_run_now(struct worker *worker, struct orr_task *task);

/* A slot of this worker came out of the inbox. */
void task_notified(struct worker *worker, uint32_t index);

/* An operation of its task has finished. */
void task_io_done(struct worker *worker, struct orr_io *io);

#endif
