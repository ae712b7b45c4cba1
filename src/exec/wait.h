/*
 * Waiting, the one mechanism.  A wait is a struct orr_wait in the waiting task's memory, and goes
 *
 *     IDLE -> WAITING -> GRANTED -> IDLE
 *
 * The task begins it, and it is in two lists: its owner's (the task's `waits`, or a group's), and one of its source's,
 * which is the source's own affair.  The source grants it: what was waited for is the wait's from then on, and the task
 * is woken.  The task, polled, picks it up.  On every other way out it is withdrawn:
 *
 *   - WAITING, it leaves the source as if it had never come;
 *   - GRANTED, it gives back what it was granted, for the source to pass on.
 *
 * Cancellation withdraws what is WAITING at once, not when the task is polled, so that nothing can be granted to it any
 * more.  The failure of a child wakes the task, and withdraws when it is polled: until then somebody else may have looked at the
 * failure, and then nothing has happened.  What is GRANTED already stands: the task has it, and hears of the
 * interruption when it next waits.  The end of a body withdraws everything.
 *
 * All of it on the worker's thread.
 */
#ifndef ORR_EXEC_WAIT_H
#define ORR_EXEC_WAIT_H

#include "base/ring.h"
#include "exec/worker.h"

#include <errno.h>

enum wait_state {
    WAIT_IDLE,
    WAIT_WAITING,
    WAIT_GRANTED,
};

/* Called for each of several tasks, until it answers false. */
typedef bool task_each_fn(void *data, struct orr_task *task);

struct orr_wait_kind {
    const char *name; /* what a task waits for, for people */

    /* Takes a wait out of its source; `granted`: it has what it waited for, which it gives back. */
    void (*withdraw)(struct orr_wait *wait, bool granted);

    /* For those that an interruption does not withdraw: it hears of it, perhaps more than once.  NULL for all others. */
    void (*interrupt)(struct orr_wait *wait);

    /* For those that end when tasks do: names them.  False if it was told to stop.  NULL for all others. */
    bool (*awaited)(const struct orr_wait *wait, task_each_fn *each, void *data);

    /* The wait ends though nobody can reach what is waited for: by time, by children, or from another thread. */
    bool ends_by_itself;
};

/* What a sleeper is part of. */
enum {
    SLEEPER_OF_WAIT,
    SLEEPER_OF_SCOPE,
    SLEEPER_OF_NOBODY, /* whoever set it looks at it */
};

static_assert(offsetof(struct orr_wait, in_source) - offsetof(struct orr_wait, word) ==
                      offsetof(struct sleeper, entry.link) &&
                  offsetof(struct orr_wait, value) - offsetof(struct orr_wait, word) ==
                      offsetof(struct sleeper, entry.deadline),
              "a wait has room for a sleeper");

static inline struct sleeper *wait_sleeper(struct orr_wait *wait)
{
    return (struct sleeper *)&wait->word;
}

static inline struct orr_task *wait_task(const struct orr_wait *wait)
{
    return wait->grouped ? ((struct orr_group *)wait->owner)->wait.owner : wait->owner;
}

/* Only the task that is being polled may wait. */
static inline bool wait_allowed(const struct orr_task *task)
{
    return worker_current && worker_current->polling == task;
}

/* What interrupts a task: -ECANCELED, -ECHILD, which this counts as told, or 0. */
int wait_interruption(struct orr_task *task);

/* Withdraws a wait from its source and its owner. */
void wait_withdraw(struct orr_wait *wait);

/* A wait that was GRANTED is picked up: it is IDLE. */
void wait_pick_up(struct orr_wait *wait);

int wait_tell_failure(struct orr_task *task, struct orr_wait *wait);

/* An answer other than -EAGAIN: a wait that has not begun leaves its group. */
static inline int wait_refuse(struct orr_wait *wait, int answer)
{
    if (wait->state == WAIT_IDLE)
        wait->grouped = false;
    return answer;
}

/*
 * What every wait function does first.  1: the wait is yet to begin, and may.  Else it answers as the function is to: 0
 * the wait was granted and is picked up, -EAGAIN it goes on, or an error.
 */
static inline int wait_poll(struct orr_task *task, struct orr_wait *wait, const void *source,
                            const struct orr_wait_kind *kind)
{
    if (!task || !wait || !source)
        return -EINVAL;
    if (!wait_allowed(task))
        return wait_refuse(wait, -EPERM);
    if (wait->state != WAIT_IDLE && (wait->source != source || wait->kind != kind || wait_task(wait) != task))
        return -EBUSY;
    if (wait->state == WAIT_GRANTED) {
        wait_pick_up(wait);
        return 0;
    }
    if (wait->state == WAIT_WAITING)
        return task->child_failed && !task->cancelled ? wait_tell_failure(task, wait) : -EAGAIN;
    if (!task->cancelled && !task->child_failed)
        return 1;
    return wait_refuse(wait, wait_interruption(task));
}

/* What is waited for is there already: the wait does not even begin. */
static inline int wait_at_once(struct orr_wait *wait)
{
    wait->grouped = false;
    return 0;
}

/* Begins a wait that is IDLE; the source puts it into a list of its own by `in_source`.  Answers -EAGAIN. */
int wait_begin(struct orr_task *task, struct orr_wait *wait, void *source, const struct orr_wait_kind *kind);

/* Begins a wait in the list of those who wait for `source`, first come, first served. */
static inline int wait_in_line(struct orr_task *task, struct orr_wait *wait, void *source,
                               const struct orr_wait_kind *kind, struct orr_link **line)
{
    ring_append(line, &wait->in_source);
    return wait_begin(task, wait, source, kind);
}

/* WAITING becomes GRANTED, and the task is woken.  The source has taken it off its list. */
void wait_grant(struct orr_wait *wait);

/* The same, if what was waited for has failed: the task goes on before those that are merely ready. */
void wait_grant_failure(struct orr_wait *wait);

/* Grants the first in a line; NULL if there is none. */
static inline struct orr_wait *wait_grant_first(struct orr_link **line)
{
    struct orr_link *first = ring_pop(line);
    if (!first)
        return NULL;
    struct orr_wait *wait = container_of(first, struct orr_wait, in_source);
    wait_grant(wait);
    return wait;
}

/* The task was cancelled, because something else has failed or not: what waits is withdrawn, and the task woken. */
void waits_interrupt(struct orr_task *task, bool by_failure);

/* The body is over: everything is withdrawn. */
void waits_abandon(struct orr_task *task);

/* Asks for all I/O of a task to be given up. */
void io_cancel_all(struct orr_task *task);

/* For the timers. */
void wait_rouse(struct sleeper *sleeper, unsigned part_of);

/* A member of a group begins to wait; one has gone. */
void group_enter(struct orr_task *task, struct orr_wait *wait);
void group_left(struct orr_group *group);

/* The first wait that tells what a task waits for; NULL if there is none. */
static inline const struct orr_wait *wait_first(const struct orr_task *task)
{
    return task->waits ? container_of(task->waits, struct orr_wait, in_owner) : NULL;
}

#endif
