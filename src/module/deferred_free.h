/*
 * Frees runtimes after their Lua states were closed.  Lua finalizes objects in reverse order of
 * their creation.  So an object that a script created before it required Orrery is finalized after
 * Orrery, and its finalizer may call functions of the API.  They must still find their isolate, if
 * only to learn that it is closed.  Nothing tells us when the last finalizer has run.  So a runtime
 * and its isolate are kept until the thread that closes the state does something that cannot be
 * part of closing it: opens another state, ends, or ends the process.
 */
#ifndef ORR_MODULE_DEFERRED_FREE_H
#define ORR_MODULE_DEFERRED_FREE_H

#include <orrery.h>

struct orr_isolate;

/*
 * Prepares the deferred free of a runtime, while failing is still possible.  Returns NULL without
 * memory.
 */
struct deferred_free *deferred_free_new(struct orr_runtime *rt);

/* Discards it unused.  NULL is allowed. */
void deferred_free_discard(struct deferred_free *deferred);

/* Takes a reference to the isolate, which from now on outlives its state. */
void deferred_free_hold(struct deferred_free *deferred, struct orr_isolate *iso);

/* Queues it for this thread: the state is being closed, and nothing of it runs any more. */
void deferred_free_queue(struct deferred_free *deferred);

/* Frees everything that this thread has queued. */
void deferred_free_run(void);

#endif
