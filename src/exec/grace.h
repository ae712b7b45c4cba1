/*
 * The last chance of a worker's tasks.  They are cancelled, and the worker goes on turning for them until they are done or
 * the grace period, in real time, is over.  A task that waits for nothing the runtime knows of, neither in a wait nor for I/O,
 * with nobody left below it who does, cannot be waited for either.
 */
#ifndef ORR_EXEC_GRACE_H
#define ORR_EXEC_GRACE_H

struct worker;

/* The owner, instead of its ordinary turns. */
void grace_give(struct worker *worker);

#endif
