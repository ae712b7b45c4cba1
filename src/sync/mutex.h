/*
 * A mutex belongs to a task, or to a wait that it was granted to and that was not picked up.  If
 * the owner ends without unlocking it, the next in line gets the mutex, and is told.
 *
 * Locking and unlocking a mutex that nobody waits for touch the mutex alone.  While tasks are in
 * line, the mutex observes its owner, so that the first of them hears of its end.  While none is,
 * it does not: the next task that wants the mutex finds out by the owner's generation.  A task's
 * memory stays a task's while its worker lives, so the pointer may be followed at any time.
 */
#ifndef ORR_SYNC_MUTEX_H
#define ORR_SYNC_MUTEX_H

#include "exec/observer.h"
#include "sync/primitive.h"

struct orr_mutex {
    struct primitive common; /* the line: tasks that lock, and conditions that lock again */
    struct orr_task *owner;  /* NULL if free; has not picked it up while one is granted */
    uint32_t generation;     /* of the owner: another task may have its memory by now */
    unsigned wanted;         /* waits for a condition that will lock it again */
    bool orphaned;           /* its last owner ended without unlocking it */
    bool observing;          /* `death` is registered with the owner */
    struct orr_observer death;
};

/*
 * Whether a task is the owner.  Its generation goes up by one when its body is over; its destructor
 * may still unlock what it has.  That of the next task in its memory begins there, but that one is
 * LIVE until its own goes up.
 */
static inline bool mutex_belongs_to(const struct orr_mutex *mutex, const struct orr_task *task)
{
    return mutex->owner == task && (mutex->generation == task->generation ||
                                    (mutex->generation + 1 == task->generation && task->life != TASK_LIVE));
}

/*
 * Puts a wait that has begun into the line.  If the mutex is free, it is granted at once.
 */
void mutex_join(struct orr_mutex *mutex, struct orr_wait *wait);

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
