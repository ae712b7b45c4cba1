/* Spawning for other parts of the library. */
#ifndef ORR_EXEC_SPAWN_H
#define ORR_EXEC_SPAWN_H

#include "exec/worker.h"

/* As orr_spawn() on the calling thread's own worker, except that the task is not queued: whoever makes it polls it. */
int spawn_unqueued(struct worker *worker, const struct orr_spawn *what, struct orr_task **out);

/* As orr_spawn() on the calling thread's own worker, without a waker or a reference, in a share that need not be the parent's. */
int spawn_for(struct worker *worker, struct share *share, const struct orr_spawn *what);

#endif
