/*
 * The grace period of cancelled tasks: the worker keeps turning for them until they are done or the
 * period, in real time, is over.  A task that waits for nothing the runtime knows of, neither in a
 * wait nor for I/O, and has no descendant that does, is not waited for.
 */
#ifndef ORR_EXEC_GRACE_H
#define ORR_EXEC_GRACE_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

/*
 * Turns the worker while `goes_on(data)`, until `end` of the machine's clock.  False if `end` comes
 * first.  The owner, outside tasks.
 */
bool grace_wait(struct worker *worker, uint64_t end, bool (*goes_on)(void *data), void *data);

/*
 * Cancels all tasks of a worker that is about to close, and gives them the grace period.  Those
 * that do not end are shown in the log.  The owner.
 */
void grace_give(struct worker *worker);

#endif
