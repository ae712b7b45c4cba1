/* Driving worker 1, which has no thread of its own, and what all workers do between turns. */
#ifndef ORR_EXEC_DRIVE_H
#define ORR_EXEC_DRIVE_H

#include "exec/runtime.h"

/*
 * The calling thread becomes the driver of worker 1, until runtime_park().  -EINVAL; -EBUSY if
 * there is one already.
 */
int runtime_drive(struct orr_runtime *rt);
void runtime_park(struct orr_runtime *rt);

/* Takes the nudge.  False if the worker is to stop.  The worker's owner. */
bool worker_may_go_on(struct worker *worker);

/*
 * Before the worker sleeps: tells worker 1 if the last task or timer is gone, which it may be
 * waiting for.  The worker's owner.
 */
void worker_settle(struct worker *worker);

/* The worker has no tasks: the spawns that it received by letter are over.  The worker's owner. */
void worker_finish_spawns(struct worker *worker);

/*
 * Turns worker 1, whose owner the calling thread is, until `done(data)`, for at most `timeout_ns`
 * by the runtime's clock. -ETIMEDOUT; -ECANCELED: stopped; -EDEADLK: nothing is left that could
 * ever make it so.
 */
int runtime_run_until(struct orr_runtime *rt, bool (*done)(void *data), void *data, uint64_t timeout_ns);

#endif
