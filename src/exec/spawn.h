/* Spawning, for other parts of the library.  The worker's owner. */
#ifndef ORR_EXEC_SPAWN_H
#define ORR_EXEC_SPAWN_H

#include "exec/worker.h"

/*
 * Spawns a task on the calling thread's own worker, in a share that need not be the parent's, and
 * does not queue it: the caller polls it, or queues it by worker_ready().  Hands out no reference.
 * -ESHUTDOWN while the runtime stops, except while tasks clean up; else as orr_spawn().
 */
int spawn_unqueued(struct worker *worker, struct share *share, const struct orr_spawn *what, struct orr_task **out);

/*
 * Spawns a task as orr_spawn() does on the calling thread's own worker, without waker or reference,
 * in the given share.  `out` is the task, or unchanged on failure.
 */
int spawn_for(struct worker *worker, struct share *share, const struct orr_spawn *what, struct orr_task **out);

#endif
