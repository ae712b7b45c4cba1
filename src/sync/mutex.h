/*
 * A mutex belongs to a task, or to a wait that it was granted to and that has not been picked up.
 * It observes its owner: should that end and not have unlocked it, the next in line gets it, and is
 * told.
 */
#ifndef ORR_SYNC_MUTEX_H
#define ORR_SYNC_MUTEX_H

#include "exec/observer.h"
#include "sync/primitive.h"

struct orr_mutex {
    struct primitive common; /* the line: those who lock, and conditions that lock again */
    struct orr_task *owner;  /* NULL if it is free; it has not picked it up while one is granted */
    unsigned wanted;         /* by those who wait for a condition, and will lock it again */
    bool orphaned;           /* its last owner ended without unlocking it */
    struct orr_observer death;
};

/*
 * Hands it to the first in line, or to nobody.  A wait that was granted it, and is given up, does
 * the same.
 */
void mutex_pass_on(struct orr_mutex *mutex);

/* 0, or -EOWNERDEAD, which is said once: how the new owner has come by it. */
static inline int mutex_news(struct orr_mutex *mutex)
{
    bool orphaned = mutex->orphaned;
    mutex->orphaned = false;
    return orphaned ? -EOWNERDEAD : 0;
}

#endif
