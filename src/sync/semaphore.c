/*
 * A semaphore.  `free` is 0 while anybody waits: a permit that is released goes straight to the first in line, so
 * nobody can come in between.
 */
#include "sync/primitive.h"

struct orr_semaphore {
    struct worker *worker;
    struct orr_link *line;
    uint32_t permits, free;
};

static void give_back(struct orr_semaphore *semaphore)
{
    if (!wait_grant_first(&semaphore->line))
        semaphore->free++;
}

static void semaphore_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_semaphore *semaphore = wait->source;
    if (granted)
        give_back(semaphore);
    else
        ring_remove(&semaphore->line, &wait->in_source);
}

static const struct orr_wait_kind semaphore_kind = { .name = "a semaphore", .withdraw = semaphore_withdraw };

int orr_semaphore_new(uint32_t permits, struct orr_semaphore **semaphore)
{
    int error = permits ? primitive_new(semaphore, sizeof **semaphore) : -EINVAL;
    if (error)
        return error;
    (*semaphore)->worker = worker_current;
    (*semaphore)->permits = (*semaphore)->free = permits;
    return 0;
}

int orr_semaphore_free(struct orr_semaphore *semaphore)
{
    int error = semaphore ? PRIMITIVE_CHECK(semaphore) : 0;
    if (error || !semaphore)
        return error;
    if (semaphore->line)
        return -EBUSY;
    alloc_free(&semaphore->worker->alloc, semaphore, sizeof *semaphore);
    return 0;
}

int orr_semaphore_acquire(struct orr_task *task, struct orr_wait *wait, struct orr_semaphore *semaphore)
{
    int answer = PRIMITIVE_POLL(task, wait, semaphore, &semaphore_kind);
    if (answer != 1)
        return answer;
    if (!semaphore->free)
        return wait_in_line(task, wait, semaphore, &semaphore_kind, &semaphore->line);
    semaphore->free--;
    return wait_at_once(wait);
}

int orr_semaphore_try(struct orr_semaphore *semaphore)
{
    int error = PRIMITIVE_CHECK(semaphore);
    if (error)
        return error;
    if (!semaphore->free)
        return -EAGAIN;
    semaphore->free--;
    return 0;
}

int orr_semaphore_release(struct orr_semaphore *semaphore)
{
    int error = PRIMITIVE_CHECK(semaphore);
    if (error)
        return error;
    if (semaphore->free == semaphore->permits)
        return -EOVERFLOW;
    give_back(semaphore);
    return 0;
}

uint32_t orr_semaphore_free_permits(const struct orr_semaphore *semaphore)
{
    return semaphore ? semaphore->free : 0;
}
