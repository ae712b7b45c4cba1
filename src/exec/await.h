/*
 * What every wait function does before and after its own part: it asks what interrupts the task,
 * picks up what was granted, and begins or goes on.  For wait functions in exec and in layers
 * above.  All of it belongs to the worker's owner.
 */
#ifndef ORR_EXEC_AWAIT_H
#define ORR_EXEC_AWAIT_H

#include "exec/wait.h"

/*
 * What interrupts a task: -ECANCELED, or -ECHILD, and then the task counts as told of the failure;
 * 0 for nothing.
 */
int wait_interruption(struct orr_task *task);

/*
 * A child of a WAITING task has failed.  Withdraws the wait, unless its kind cannot be withdrawn.
 * The wait function returns the answer.
 */
int wait_tell_failure(struct orr_task *task, struct orr_wait *wait);

/* For an answer other than -EAGAIN: a wait that has not begun leaves its group. */
static inline int wait_refuse(struct orr_wait *wait, int answer)
{
    if (wait->state == WAIT_IDLE)
        wait->grouped = false;
    return answer;
}

/* Whether the task may use the wait for this kind: 0, or the wait function's answer. */
static inline int wait_check(const struct orr_task *task, struct orr_wait *wait, const struct orr_wait_kind *kind)
{
    if (!task || !wait)
        return -EINVAL;
    if (!wait_allowed(task))
        return wait_refuse(wait, -EPERM);
    return wait->state != WAIT_IDLE && (wait->kind != kind || wait_task(wait) != task) ? -EBUSY : 0;
}

/*
 * What has become of a wait that the task may use.  1: it has not begun, and may begin.  Anything
 * else is the wait function's answer: 0 if the wait was granted and is picked up, -EAGAIN if it
 * goes on, or an error.
 */
static inline int wait_go_on(struct orr_task *task, struct orr_wait *wait)
{
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

/* The first step of every wait function that has a source.  Answers as wait_go_on(). */
static inline int wait_poll(struct orr_task *task, struct orr_wait *wait, const void *source,
                            const struct orr_wait_kind *kind)
{
    int error = source ? wait_check(task, wait, kind) : -EINVAL;
    if (error)
        return error;
    if (wait->state != WAIT_IDLE && wait->source != source)
        return -EBUSY;
    return wait_go_on(task, wait);
}

/* What is waited for is there already: the wait does not begin. */
static inline int wait_at_once(struct orr_wait *wait)
{
    wait->grouped = false;
    return 0;
}

/* Begins a wait in the list of those who wait for `source`, first come, first served. */
static inline int wait_in_line(struct orr_task *task, struct orr_wait *wait, void *source,
                               const struct orr_wait_kind *kind, struct orr_link **line)
{
    ring_append(line, &wait->in_source);
    return wait_begin(task, wait, source, kind);
}

#endif
