/*
 * What events, semaphores, mutexes, conditions and queues have in common.  Each belongs to the
 * worker on whose thread it was made, is used on that thread only, and keeps a line of waits.  So
 * none of them needs an atomic operation.  A primitive cannot be freed while a task is in line, or
 * was granted something and has not picked it up.
 */
#ifndef ORR_SYNC_PRIMITIVE_H
#define ORR_SYNC_PRIMITIVE_H

#include "exec/await.h"
#include "sync/embed.h"

/* The first member of each primitive, so that it is also the source of its waits. */
struct primitive {
    struct worker *worker;
    struct orr_link *line;
    unsigned granted; /* granted waits that were not picked up */
};

/*
 * Makes memory a primitive of the calling thread's worker; everything else in it is zeroed.
 * -EINVAL, -EPERM.
 */
static inline int primitive_init(void *memory, size_t size)
{
    if (!memory)
        return -EINVAL;
    if (!worker_current)
        return -EPERM;
    memset(memory, 0, size);
    ((struct primitive *)memory)->worker = worker_current;
    return 0;
}

/* Makes a primitive in new memory.  -EINVAL, -EPERM, -ENOMEM. */
static inline int primitive_new(void *out, size_t size)
{
    if (!out)
        return -EINVAL;
    if (!worker_current)
        return -EPERM;
    void *memory = alloc_new(&worker_current->alloc, size);
    if (!memory)
        return -ENOMEM;
    primitive_init(memory, size);
    *(void **)out = memory;
    return 0;
}

/* 0 if the primitive may be used on this thread.  -EINVAL for NULL, -EPERM. */
static inline int primitive_check(const void *primitive)
{
    if (!primitive)
        return -EINVAL;
    return worker_current && ((const struct primitive *)primitive)->worker == worker_current ? 0 : -EPERM;
}

/* Whether the memory holds a primitive. */
static inline bool primitive_lives(const void *primitive)
{
    return primitive && ((const struct primitive *)primitive)->worker;
}

/* 0 if the primitive may be ended on this thread, or is none.  -EPERM, -EBUSY. */
static inline int primitive_check_end(const void *primitive)
{
    const struct primitive *common = primitive;
    int error = primitive_lives(primitive) ? primitive_check(primitive) : 0;
    return error ? error : primitive && (common->line || common->granted) ? -EBUSY : 0;
}

/* Ends the primitive: the memory is its user's again. */
static inline void primitive_end(void *primitive)
{
    if (primitive)
        ((struct primitive *)primitive)->worker = NULL;
}

/* Frees the memory of a primitive whose end answered 0, on its worker's thread. */
static inline int primitive_free(int ended, void *primitive, size_t size)
{
    if (!ended && primitive)
        alloc_free(&worker_current->alloc, primitive, size);
    return ended;
}

/* The first step of a wait function: wait_poll(), for a primitive of the task's worker. */
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

/*
 * The usual case of primitive_poll(): the running task begins to wait for a primitive of its
 * worker, and nothing interrupts it.  True only if primitive_poll() would answer 1.
 */
static inline bool primitive_may_begin(const struct orr_task *task, const struct orr_wait *wait, const void *primitive)
{
    const struct worker *worker = worker_current;
    return primitive && wait && worker && ((const struct primitive *)primitive)->worker == worker && task &&
           worker->polling == task && wait->state == WAIT_IDLE && !task->cancelled && !task->child_failed;
}

/* Grants the first wait in a line of the primitive; NULL if there is none. */
static inline struct orr_wait *primitive_grant_first(struct primitive *common, struct orr_link **line)
{
    struct orr_wait *wait = wait_grant_first(line);
    common->granted += wait != NULL;
    return wait;
}

#endif
