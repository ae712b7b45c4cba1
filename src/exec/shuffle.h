/*
 * Takes ready tasks in random order, to find code that depends on an order that nobody has
 * promised.  The same seed gives the same order, if the tasks do the same.  Promised orders are
 * kept: a task that was started to run after those before it (a scheduled callback, a timer's
 * callback, an event handler) is `in_order`; until it has begun, it overtakes no task and none
 * overtakes it.  Interrupted tasks come before all ready ones (share.h), in their own order.
 *
 * All of it belongs to the worker's owner.  A worker whose `shuffle` is 0 takes its tasks first
 * come, first served, at the cost of one branch.
 */
#ifndef ORR_EXEC_SHUFFLE_H
#define ORR_EXEC_SHUFFLE_H

#include "exec/worker.h"

/* Takes the next task of a queue; NULL if it is empty. */
struct orr_task *shuffle_pop(struct worker *worker, struct queue *ready);

/* Shuffles by this seed from now on; 0 for not at all. */
void shuffle_start(struct worker *worker, uint64_t seed);

#endif
