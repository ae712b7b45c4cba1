/*
 * Virtual time.  The clock of a whole runtime stands still while anything is ready or under way on
 * any worker; then it jumps to the next deadline of any.  Worker 1, driven by the host, does the
 * jumping.
 *
 * The others count themselves: `awake` is how many of them are not blocked, or are blocked with I/O
 * in flight, and `rises` how often one woke up.  A worker that falls asleep publishes its next
 * deadline first.  It is quiet everywhere if, in this order, nobody is awake, nobody has been left
 * anything, and still nobody is awake or has been since. For whoever leaves something is awake when
 * it does (or is outside the runtime, where no order can be had), so either it is still counted, or
 * what it left is seen, or its finder has risen.
 *
 * On the machine's clock all of this does nothing.
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

/* Around a worker's blocking, and after its last turn.  The owner. */
void virtual_falls_asleep(struct worker *worker, bool io);
void virtual_wakes_up(struct worker *worker, bool io);
void virtual_ends(struct worker *worker);

/*
 * Whether the clock would jump if worker 1 turned now.  The owner of worker 1; false for any other.
 */
bool virtual_can_jump(struct worker *worker);

/*
 * Whether tasks wait and nothing can ever happen any more, whatever the host does when it is told;
 * without a host that wants to be, says so, once.  The owner of worker 1; false for any other.
 */
bool virtual_is_stuck(struct worker *worker);

/* Jumps, if it would. */
void virtual_jump(struct worker *worker);

#endif
