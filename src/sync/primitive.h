/*
 * What events, semaphores, mutexes, conditions and queues have in common: each belongs to the worker on whose thread it
 * was made, is used on that thread only, and keeps a line of those who wait.  So none of them needs an atomic operation.
 * It is needed, and cannot be freed, while somebody is in line, or was granted something and has not picked it up.
 */
#ifndef ORR_SYNC_PRIMITIVE_H
#define ORR_SYNC_PRIMITIVE_H

#include "exec/wait.h"

/* The first member of each: so a wait's source is this, too. */
struct primitive {
    struct worker *worker;
    struct orr_link *line;
    unsigned granted; /* and not picked up */
};

/* Memory for a primitive of the calling thread's worker, zeroed but for what is common.  -EINVAL, -EPERM, -ENOMEM. */
static inline int primitive_new(void *out, size_t size)
{
    if (!out)
        return -EINVAL;
    if (!worker_current)
        return -EPERM;
    struct primitive *primitive = alloc_zeroed(&worker_current->alloc, size);
    if (!primitive)
        return -ENOMEM;
    primitive->worker = worker_current;
    *(void **)out = primitive;
    return 0;
}

/* 0 if something may be done to it here and now.  -EINVAL if there is none, -EPERM. */
static inline int primitive_check(const void *primitive)
{
    if (!primitive)
        return -EINVAL;
    return worker_current && ((const struct primitive *)primitive)->worker == worker_current ? 0 : -EPERM;
}

/* The same, for freeing it: 0 for none, and -EBUSY. */
static inline int primitive_check_free(const void *primitive)
{
    const struct primitive *common = primitive;
    int error = primitive ? primitive_check(primitive) : 0;
    return error ? error : primitive && (common->line || common->granted) ? -EBUSY : 0;
}

static inline void primitive_free(void *primitive, size_t size)
{
    if (primitive)
        alloc_free(&((struct primitive *)primitive)->worker->alloc, primitive, size);
}

/* What a wait function does first: wait_poll(), for a primitive of the task's worker. */
static inline int primitive_poll(struct orr_task *task, struct orr_wait *wait, void *primitive,
                                 const struct orr_wait_kind *kind)
{
    struct primitive *common = primitive;
    if (common && task && wait && common->worker != task->worker)
        return wait_refuse(wait, -EPERM);
    int answer = wait_poll(task, wait, primitive, kind);
    if (answer == 0)
        common->granted--;
    return answer;
}

/* Grants the first in a line of the primitive's; NULL if there is none. */
static inline struct orr_wait *primitive_grant_first(struct primitive *common, struct orr_link **line)
{
    struct orr_wait *wait = wait_grant_first(line);
    common->granted += wait != NULL;
    return wait;
}

#endif
