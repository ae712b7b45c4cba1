/*
 * The order of ready tasks, at random, to find out what depends on an order that nobody has
 * promised.  The same seed gives the same order, if the tasks do the same.  What has been promised
 * is kept: a task that was started to run soon after those before it (a scheduled callback, a
 * timer's, a handler) is `in_order`, and is neither overtaken nor overtakes until it has begun.
 * Tasks that were interrupted come before all that are ready (share.h), in their own order.
 *
 * Belongs to the worker's owner.  A worker whose `shuffle` is 0 takes its tasks first come, first
 * served, and pays one branch.
 */
#ifndef ORR_EXEC_SHUFFLE_H
#define ORR_EXEC_SHUFFLE_H

#include "exec/worker.h"

/* The next task of a queue; NULL if there is none. */
struct orr_task *shuffle_pop(struct worker *worker, struct queue *ready);

/* From now on, by this seed; 0 for not at all. */
void shuffle_start(struct worker *worker, uint64_t seed);

#endif
