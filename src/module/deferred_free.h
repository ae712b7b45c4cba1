/*
 * Where runtimes go whose states are being closed.  Lua finalizes last what was made first, so what a script has made before it
 * required us outlives us, and may call functions of ours from its finalizer.  They must still find what they refer to, if only to
 * be told that it is closed; and nobody tells us when the last finalizer has run.  So a runtime and its isolate are kept until the
 * thread that closes the state does something that cannot be part of that: opens the next one, or ends, or ends the process.
 */
#ifndef ORR_MODULE_DEFERRED_FREE_H
#define ORR_MODULE_DEFERRED_FREE_H

#include <orrery.h>

struct orr_isolate;

/* A place for one, made while failing is still possible; NULL for no memory. */
struct deferred_free *deferred_free_new(struct orr_runtime *rt);

/* It is not needed after all; NULL is allowed. */
void deferred_free_discard(struct deferred_free *deferred);

/* From now on the isolate outlives its state. */
void deferred_free_hold(struct deferred_free *deferred, struct orr_isolate *iso);

/* The state is being closed, and nothing of it runs any more. */
void deferred_free_queue(struct deferred_free *deferred);

/* Frees what this thread has closed. */
void deferred_free_run(void);

#endif
