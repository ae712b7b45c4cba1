/*
 * A mutex belongs to a task, or to a wait that it was granted to and that has not been picked up.  It observes its owner:
 * should that end and not have unlocked it, the next in line gets it, and is told.
 */
#ifndef ORR_SYNC_MUTEX_H
#define ORR_SYNC_MUTEX_H

#include "exec/outcome.h"
#include "sync/primitive.h"

struct orr_mutex {
    struct worker *worker;
    struct orr_link *line;  /* of those who lock, and of conditions that lock again */
    struct orr_task *owner; /* NULL if it is free */
    bool orphaned;          /* its last owner ended without unlocking it */
    struct orr_observer death;
};

/* Hands it to the first in line, or to nobody. */
void mutex_pass_on(struct orr_mutex *mutex);

/* 0, or -EOWNERDEAD, which is said once: how the new owner has come by it. */
static inline int mutex_news(struct orr_mutex *mutex)
{
    bool orphaned = mutex->orphaned;
    mutex->orphaned = false;
    return orphaned ? -EOWNERDEAD : 0;
}

#endif
