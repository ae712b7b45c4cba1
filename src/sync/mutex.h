/*
 * A mutex belongs to a task, or to a wait that it was granted to and that was not picked up.  It
 * observes its owner: if the owner ends without unlocking it, the next in line gets the mutex, and
 * is told.
 */
#ifndef ORR_SYNC_MUTEX_H
#define ORR_SYNC_MUTEX_H

#include "exec/observer.h"
#include "sync/primitive.h"

struct orr_mutex {
    struct primitive common; /* the line: tasks that lock, and conditions that lock again */
    struct orr_task *owner;  /* NULL if free; has not picked it up while one is granted */
    unsigned wanted;         /* waits for a condition that will lock it again */
    bool orphaned;           /* its last owner ended without unlocking it */
    struct orr_observer death;
};

/*
 * Hands the mutex to the first in line, or frees it.  Also for a wait that was granted the mutex
 * and is withdrawn.
 */
void mutex_pass_on(struct orr_mutex *mutex);

/* How the new owner got the mutex: 0, or -EOWNERDEAD, which is answered once. */
static inline int mutex_news(struct orr_mutex *mutex)
{
    bool orphaned = mutex->orphaned;
    mutex->orphaned = false;
    return orphaned ? -EOWNERDEAD : 0;
}

#endif
