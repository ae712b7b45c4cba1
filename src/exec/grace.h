/*
 * The last chance of tasks that have been cancelled: the worker goes on turning for them until they
 * are done or the grace period, in real time, is over.  A task that waits for nothing the runtime
 * knows of, neither in a wait nor for I/O, with nobody left below it who does, cannot be waited for
 * either.
 */
#ifndef ORR_EXEC_GRACE_H
#define ORR_EXEC_GRACE_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

/*
 * Turns while there are hopes for those who are left, until `end` of the machine's clock.  False if
 * that comes first.  The owner, outside tasks.
 */
bool grace_wait(struct worker *worker, uint64_t end, bool (*hopes)(void *data), void *data);

/*
 * All tasks of a worker that is about to close, which are cancelled and, if they refuse to end,
 * shown in the log.
 */
void grace_give(struct worker *worker);

#endif
