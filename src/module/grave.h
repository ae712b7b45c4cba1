/*
 * Where runtimes go whose states are being closed.  Lua finalizes last what was made first, so what a script has made before it
 * required us outlives us, and may call functions of ours from its finalizer.  They must still find what they refer to, if only to
 * be told that it is closed; and nobody tells us when the last finalizer has run.  So a runtime and its isolate are kept until the
 * thread that closes the state does something that cannot be part of that: opens the next one, or ends, or ends the process.
 */
#ifndef ORR_MODULE_GRAVE_H
#define ORR_MODULE_GRAVE_H

#include <orrery.h>

struct orr_isolate;

/* A place for one, made while failing is still possible; NULL for no memory. */
struct grave *grave_dig(struct orr_runtime *rt);

/* It is not needed after all; NULL is allowed. */
void grave_fill(struct grave *grave);

/* From now on the isolate outlives its state. */
void grave_keep(struct grave *grave, struct orr_isolate *iso);

/* The state is being closed, and nothing of it runs any more. */
void grave_close(struct grave *grave);

/* Frees what this thread has closed. */
void grave_clear(void);

#endif
