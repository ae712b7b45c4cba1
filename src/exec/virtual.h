/*
 * Virtual time.  The clock of a whole runtime stands still while anything is ready or under way on
 * any worker.  Then it jumps to the next deadline of any worker.  Worker 1, driven by the host,
 * makes it jump.
 *
 * The other workers count themselves: `awake` is how many of them are not blocked, or are blocked
 * with I/O in flight, and `rises` how often one woke up.  A worker that falls asleep publishes its
 * next deadline first.  All is quiet if, checked in this order, no worker is awake, no worker, also
 * not worker 1, has been left anything, and still none is awake or has been since.  For a thread
 * that leaves something for a worker is awake itself (or is outside the runtime, where no order can
 * be had).  So either it is still counted, or what it left is seen, or the worker that found it has
 * risen.
 *
 * On the machine's clock all of this does nothing, except for a deadlock in a runtime whose host
 * has promised that nothing comes from outside (runtime_is_alone()), while worker 1 is its only
 * worker.
 */
#ifndef ORR_EXEC_VIRTUAL_H
#define ORR_EXEC_VIRTUAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct orr_runtime;
struct worker;

/* Before the workers start: the threads count as awake. */
void virtual_init(struct orr_runtime *rt);

/*
 * Around a worker's blocking; virtual_ends() after its last turn.  `io`: with I/O in flight.  The
 * owner.
 */
void virtual_falls_asleep(struct worker *worker, bool io);
void virtual_wakes_up(struct worker *worker, bool io);
void virtual_ends(struct worker *worker);

/*
 * Around something that is done outside the runtime for a task of this worker: the clock stands
 * still meanwhile.  The owner.
 */
void virtual_begins_outside(struct worker *worker);
void virtual_ends_outside(struct worker *worker);

/*
 * Whether the clock would jump if worker 1 turned now.  The owner of worker 1; false for any other.
 */
bool virtual_can_jump(struct worker *worker);

/*
 * Whether tasks wait and nothing can ever happen any more.  Tells the host's deadlock function,
 * which may mend it; without one, logs it once.  The owner of worker 1; false for any other.
 */
bool virtual_is_stuck(struct worker *worker);

/*
 * Has the clock jump, if all is quiet and a deadline is set.  The owner of worker 1; nothing for
 * any other.
 */
void virtual_jump(struct worker *worker);

#endif
