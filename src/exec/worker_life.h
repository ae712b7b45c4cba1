/* The life of a worker: opening and closing it. */
#ifndef ORR_EXEC_WORKER_LIFE_H
#define ORR_EXEC_WORKER_LIFE_H

#include "exec/worker.h"

/*
 * Negative errno, and nothing made, when a descriptor or memory is missing.  Before the worker has
 * an owner.
 */
int worker_open(struct worker *worker, const struct worker_config *config);

/*
 * Ends every task and frees all but the waker table.  On the worker's thread, or on any if it has
 * none.
 */
void worker_close(struct worker *worker);

/*
 * Gives up the waker table of a closed worker, when no other thread nudges it or reads its counters
 * any more.
 */
void worker_release(struct worker *worker);

#endif
