/*
 * Tasks at rest: a task that is used again and again by the layer above, without being made and
 * freed each time.
 *
 *   LIVE -> RESTING -> LIVE
 *
 * A task at rest is in no queue and not in the tree, and does not count: nobody can tell it from a
 * free one, but it keeps its slot and what it runs.  Only a task that nobody else knows can rest:
 * task_is_untouched() tells.  So no waker names it, and its generation need not change.
 *
 * The layer above owns its tasks at rest, and ends them with task_end_rest().  A worker that closes
 * ends those that are left, before it ends its live tasks.
 *
 * The worker's owner.  Nothing here allocates.
 */
#ifndef ORR_EXEC_REST_H
#define ORR_EXEC_REST_H

#include "exec/worker.h"

/*
 * Whether a live task without a parent is as it was when it was spawned: nothing is below it, it
 * waits for nothing, nothing was said about its end, and only `known` holders have references to
 * it.  The tree is one holder.
 */
bool task_is_untouched(const struct orr_task *task, uint32_t known);

/*
 * An untouched task, which may be running, rests from now on.  It is not queued, and loses its
 * name.
 */
void task_rest(struct orr_task *task);

/*
 * A task at rest is live again, not queued.  It counts as spawned.  -EAGAIN if there may be no more
 * tasks; -ESHUTDOWN while the runtime stops, except while tasks clean up.
 */
int task_rise(struct orr_task *task);

/* Ends a task at rest, like one whose body is dropped: its destructor is called. */
void task_end_rest(struct orr_task *task);

#endif
