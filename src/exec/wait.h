/*
 * Waits: the one mechanism for waiting.  A wait is a struct orr_wait in the waiting task's memory,
 * and goes
 *
 *     IDLE -> WAITING -> GRANTED -> IDLE
 *
 * The task begins the wait.  From then on it is in two lists: its owner's (the task's `waits`, or a
 * group's), and one of its source's, which is the source's own affair.  The source grants it: the
 * wait owns what was waited for, and the task is woken.  The task, when polled, picks it up.  On
 * every other way out the wait is withdrawn:
 *
 *   - while WAITING, it leaves the source as if it had never been there;
 *   - while GRANTED, it gives back what it was granted, for the source to pass on.
 *
 * Cancellation withdraws a WAITING wait at once, not when the task is polled, so that nothing can
 * be granted to it any more.  The failure of a child wakes the task, and withdraws when the task is
 * polled: until then somebody else may have looked at the failure, and then nothing has happened.
 * A GRANTED wait stands: the task has what it waited for, and hears of the interruption when it
 * next waits.  The end of a body withdraws everything.
 *
 * This file has the states; await.h has what wait functions do with them.  All of it belongs to the
 * worker's owner.
 */
#ifndef ORR_EXEC_WAIT_H
#define ORR_EXEC_WAIT_H

#include "base/ring.h"
#include "exec/worker.h"

#include <errno.h>

enum wait_state {
    WAIT_IDLE,
    WAIT_WAITING, /* in_source is in use: only in this state */
    WAIT_GRANTED,
};

/* Called for each of several tasks, until it answers false. */
typedef bool task_each_fn(void *data, struct orr_task *task);

struct orr_wait_kind {
    const char *name; /* what the task waits for, for people to read */

    /* Takes a wait out of its source.  If it is `granted`, gives back what it has. */
    void (*withdraw)(struct orr_wait *wait, bool granted);

    /*
     * For kinds that an interruption does not withdraw: called for it, perhaps more than once.
     * NULL for all others.
     */
    void (*interrupt)(struct orr_wait *wait);

    /*
     * For kinds that end when tasks do: calls `each` for those tasks.  False if `each` said stop.
     * NULL for all others.
     */
    bool (*awaited)(const struct orr_wait *wait, task_each_fn *each, void *data);

    /*
     * Writes what the task waits for, in place of `name`: "a read from tcp 127.0.0.1:80".  NULL for
     * kinds whose name says it all.
     */
    void (*describe)(const struct orr_wait *wait, char *text, size_t size);

    /*
     * The wait ends though nobody can reach what is waited for: by time, by children, or from
     * another thread.
     */
    bool ends_by_itself;
};

/* What a sleeper is part of. */
enum {
    SLEEPER_OF_WAIT,
    SLEEPER_OF_SCOPE,
    SLEEPER_OF_ALARM,  /* see alarm.h */
    SLEEPER_OF_NOBODY, /* the code that set it looks at it */
};

/*
 * A wait has either a source, or the word of its sleeper: a sleep has no source, and the other
 * kinds have no sleeper.
 */
static_assert(offsetof(struct orr_wait, in_source) - offsetof(struct orr_wait, word) ==
                      offsetof(struct sleeper, entry.link) &&
                  offsetof(struct orr_wait, value) - offsetof(struct orr_wait, word) ==
                      offsetof(struct sleeper, entry.deadline),
              "a wait has room for a sleeper");

static inline struct sleeper *wait_sleeper(struct orr_wait *wait)
{
    return (struct sleeper *)&wait->word;
}

/* When the wait began, in whole microseconds.  48 bits are enough for nine years of uptime. */
static inline void wait_set_since(struct orr_wait *wait, uint64_t now)
{
    uint64_t us = now / 1000;
    wait->since = (uint32_t)us;
    wait->since_high = (uint16_t)(us >> 32);
}

static inline uint64_t wait_since(const struct orr_wait *wait)
{
    return ((uint64_t)wait->since_high << 32 | wait->since) * 1000;
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

/*
 * Withdraws a wait from its source and its owner.  The kind's `withdraw` finds the wait in no
 * group, with the task as its owner.
 */
void wait_withdraw(struct orr_wait *wait);

/* A GRANTED wait is picked up and becomes IDLE. */
void wait_pick_up(struct orr_wait *wait);

/*
 * Begins an IDLE wait.  The source puts it into a list of its own by `in_source`; a sleep, which
 * has no source, passes NULL.  Answers -EAGAIN.
 */
int wait_begin(struct orr_task *task, struct orr_wait *wait, void *source, const struct orr_wait_kind *kind);

/* WAITING becomes GRANTED, and the task is woken.  The source has taken the wait off its list. */
void wait_grant(struct orr_wait *wait);

/*
 * Grants a wait for something that has failed: the task goes on before those that are merely ready.
 */
void wait_grant_failure(struct orr_wait *wait);

/* Grants the first wait in a line; NULL if there is none. */
static inline struct orr_wait *wait_grant_first(struct orr_link **line)
{
    struct orr_link *first = ring_pop(line);
    if (!first)
        return NULL;
    struct orr_wait *wait = container_of(first, struct orr_wait, in_source);
    wait_grant(wait);
    return wait;
}

/*
 * The task was cancelled (`by_failure`: because something has failed).  Withdraws its WAITING waits
 * and wakes it.
 */
void waits_interrupt(struct orr_task *task, bool by_failure);

/* The body is over: withdraws all waits of the task. */
void waits_abandon(struct orr_task *task);

/* Withdraws every member of a group.  The group is empty. */
void group_clear(struct orr_group *group);

/* A member has left the group: an empty group is no wait of its task any more. */
void group_left(struct orr_group *group);

/* The first wait that tells what a task waits for; NULL if there is none. */
static inline const struct orr_wait *wait_first(const struct orr_task *task)
{
    return task->waits ? container_of(task->waits, struct orr_wait, in_owner) : NULL;
}

#endif
