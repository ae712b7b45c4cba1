/* Opening and closing a runtime, and its pool threads. */
#ifndef ORR_EXEC_OPEN_H
#define ORR_EXEC_OPEN_H

#include "exec/runtime.h"

/*
 * Opens the pool threads, unless they are open.  `on_close` is called on each of them before it
 * closes; it may be NULL. Negative errno if there is not one of them.  Any thread.
 */
int runtime_grow(struct orr_runtime *rt, void (*on_close)(struct worker *worker));

/*
 * Opens another runtime like this one, whose worker 1 nobody drives: it is there for its pool
 * threads, as many as asked for.  It shares the allocator and the log, so it must be freed before
 * this one; it has no sink.  Negative errno.  Any thread.
 */
int runtime_open_beside(struct orr_runtime *rt, unsigned pool_threads, struct orr_runtime **out);

/*
 * The one object that a layer above keeps with a runtime.  The first call has `make` make it;
 * `free` is called at the end of the runtime, after all workers are closed.  NULL if `make` answers
 * NULL.  Any thread.
 */
void *runtime_extension(struct orr_runtime *rt, void *(*make)(struct orr_runtime *rt), void (*free)(void *extension));

#endif
