/*
 * What events, semaphores, mutexes, conditions and queues have in common: each belongs to the worker on whose thread it
 * was made, is used on that thread only, and keeps a line of those who wait.  So none of them needs an atomic operation.
 */
#ifndef ORR_SYNC_PRIMITIVE_H
#define ORR_SYNC_PRIMITIVE_H

#include "exec/wait.h"

/* Memory for a primitive of the calling thread's worker, zeroed.  -EINVAL, -EPERM, -ENOMEM. */
static inline int primitive_new(void *out, size_t size)
{
    if (!out)
        return -EINVAL;
    if (!worker_current)
        return -EPERM;
    void *block = alloc_zeroed(&worker_current->alloc, size);
    if (!block)
        return -ENOMEM;
    *(void **)out = block;
    return 0;
}

/* 0 if something may be done to a primitive of this worker here and now.  -EINVAL if there is none, -EPERM. */
#define PRIMITIVE_CHECK(primitive) \
    (!(primitive) ? -EINVAL : (primitive)->worker != worker_current || !worker_current ? -EPERM : 0)

/* What a wait function does first: wait_poll(), and the primitive must be of the task's worker. */
#define PRIMITIVE_POLL(task, wait, primitive, kind) \
    ((primitive) && (task) && (primitive)->worker != (task)->worker ? -EPERM \
                                                                    : wait_poll((task), (wait), (primitive), (kind)))

#endif
