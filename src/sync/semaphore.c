/*
 * A semaphore.  `free` is 0 while a task waits: a released permit goes straight to the first in
 * line, so no other task can take it.
 *
 * A semaphore that was made with permits never has more of them free.  One that was made with none
 * counts releases, as many as its counter holds.
 */
#include "sync/primitive.h"

struct orr_semaphore {
    struct primitive common;
    uint32_t most, free; /* permits */
};

static void give_back(struct orr_semaphore *semaphore)
{
    if (!primitive_grant_first(&semaphore->common, &semaphore->common.line))
        semaphore->free++;
}

static void semaphore_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_semaphore *semaphore = wait->source;
    if (!granted) {
        ring_remove(&semaphore->common.line, &wait->in_source);
        return;
    }
    semaphore->common.granted--;
    give_back(semaphore);
}

static const struct orr_wait_kind semaphore_kind = { .name = "a semaphore", .withdraw = semaphore_withdraw };

const size_t semaphore_size = sizeof(struct orr_semaphore);

int semaphore_init(struct orr_semaphore *semaphore, uint32_t permits)
{
    int error = primitive_init(semaphore, sizeof *semaphore);
    if (error)
        return error;
    semaphore->most = permits ? permits : UINT32_MAX;
    semaphore->free = permits;
    return 0;
}

int orr_semaphore_new(uint32_t permits, struct orr_semaphore **semaphore)
{
    int error = primitive_new(semaphore, sizeof **semaphore);
    return error ? error : semaphore_init(*semaphore, permits);
}

int semaphore_end(struct orr_semaphore *semaphore)
{
    int error = primitive_check_end(semaphore);
    if (!error)
        primitive_end(semaphore);
    return error;
}

int orr_semaphore_free(struct orr_semaphore *semaphore)
{
    return primitive_free(semaphore_end(semaphore), semaphore, sizeof *semaphore);
}

static __attribute__((noinline)) int acquire_slowly(struct orr_task *task, struct orr_wait *wait,
                                                    struct orr_semaphore *semaphore)
{
    int answer = primitive_poll(task, wait, semaphore, &semaphore_kind);
    if (answer != 1)
        return answer;
    if (!semaphore->free)
        return wait_in_line(task, wait, semaphore, &semaphore_kind, &semaphore->common.line);
    semaphore->free--;
    return wait_at_once(wait);
}

int orr_semaphore_acquire(struct orr_task *task, struct orr_wait *wait, struct orr_semaphore *semaphore)
{
    if (!primitive_may_begin(task, wait, semaphore) || !semaphore->free)
        return acquire_slowly(task, wait, semaphore);
    semaphore->free--;
    return wait_at_once(wait);
}

int orr_semaphore_try(struct orr_semaphore *semaphore)
{
    int error = primitive_check(semaphore);
    if (error)
        return error;
    if (!semaphore->free)
        return -EAGAIN;
    semaphore->free--;
    return 0;
}

int orr_semaphore_release(struct orr_semaphore *semaphore)
{
    int error = primitive_check(semaphore);
    if (error)
        return error;
    if (semaphore->free == semaphore->most)
        return -EOVERFLOW;
    give_back(semaphore);
    return 0;
}

uint32_t orr_semaphore_free_permits(const struct orr_semaphore *semaphore)
{
    return semaphore ? semaphore->free : 0;
}
