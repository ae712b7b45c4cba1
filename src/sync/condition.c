/*
 * A condition.  A wait for it has two parts: it is in the condition's line until it is notified or
 * interrupted, then in the mutex's line until it has the mutex again.  It moves from one to the
 * other directly, so a notified task runs only when it can have the mutex.  The second part cannot
 * be interrupted.
 *
 * A notification belongs to the task that it was given to.  If that task ends before it has run,
 * the notification passes to another.
 */
#include "sync/mutex.h"

struct orr_condition {
    struct primitive common; /* `granted`: waits in their second part */
};

/* Which part a wait is in.  Its `value` is the address of the mutex, with the part in low bits. */
enum part {
    UNNOTIFIED, /* in the condition's line */
    NOTIFIED,   /* in the mutex's line, or it has the mutex */
    INTERRUPTED,
    PARTS = 3, /* the bits of a part */
};

static_assert(_Alignof(struct orr_mutex) > PARTS, "the address of a mutex leaves room for a part");

static struct orr_mutex *mutex_of(const struct orr_wait *wait)
{
    return (struct orr_mutex *)(uintptr_t)(wait->value & ~(uint64_t)PARTS);
}

static enum part part_of(const struct orr_wait *wait)
{
    return wait->value & PARTS;
}

static void set_part(struct orr_wait *wait, struct orr_mutex *mutex, enum part part)
{
    wait->value = (uintptr_t)mutex | part;
}

/* Begins the second part of a wait. */
static void lock_again(struct orr_wait *wait, enum part part)
{
    struct orr_condition *condition = wait->source;
    struct orr_mutex *mutex = mutex_of(wait);
    condition->common.granted++;
    mutex->wanted--;
    set_part(wait, mutex, part);
    mutex_join(mutex, wait);
}

static bool notify_one(struct orr_condition *condition)
{
    struct orr_link *first = ring_pop(&condition->common.line);
    if (first)
        lock_again(container_of(first, struct orr_wait, in_source), NOTIFIED);
    return first;
}

static void condition_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_condition *condition = wait->source;
    if (part_of(wait) == UNNOTIFIED) {
        ring_remove(&condition->common.line, &wait->in_source);
        mutex_of(wait)->wanted--;
        return;
    }
    condition->common.granted--;
    if (granted) {
        mutex_of(wait)->common.granted--;
        mutex_pass_on(mutex_of(wait));
    } else {
        ring_remove(&mutex_of(wait)->common.line, &wait->in_source);
    }
    if (part_of(wait) == NOTIFIED)
        notify_one(condition);
}

static void condition_interrupt(struct orr_wait *wait)
{
    if (part_of(wait) != UNNOTIFIED)
        return;
    ring_remove(&((struct orr_condition *)wait->source)->common.line, &wait->in_source);
    lock_again(wait, INTERRUPTED);
}

static const struct orr_wait_kind condition_kind = {
    .name = "a condition",
    .withdraw = condition_withdraw,
    .interrupt = condition_interrupt,
};

int orr_condition_new(struct orr_condition **condition)
{
    return primitive_new(condition, sizeof **condition);
}

const size_t condition_size = sizeof(struct orr_condition);

int condition_init(struct orr_condition *condition)
{
    return primitive_init(condition, sizeof *condition);
}

int condition_end(struct orr_condition *condition)
{
    int error = primitive_check_end(condition);
    if (!error)
        primitive_end(condition);
    return error;
}

int orr_condition_free(struct orr_condition *condition)
{
    return primitive_free(condition_end(condition), condition, sizeof *condition);
}

int orr_condition_wait(struct orr_task *task, struct orr_wait *wait, struct orr_condition *condition,
                       struct orr_mutex *mutex)
{
    if (!mutex)
        return -EINVAL;
    int answer = primitive_poll(task, wait, condition, &condition_kind);
    if (answer == 0) {
        mutex->common.granted--;
        int interruption = part_of(wait) == INTERRUPTED ? wait_interruption(task) : 0;
        return interruption ? interruption : mutex_news(mutex);
    }
    if (answer != 1)
        return answer;
    if (!mutex_belongs_to(mutex, task) || mutex->common.granted)
        return wait_refuse(wait, -EPERM);
    mutex->wanted++;
    set_part(wait, mutex, UNNOTIFIED);
    wait_in_line(task, wait, condition, &condition_kind, &condition->common.line);
    mutex_pass_on(mutex);
    return -EAGAIN;
}

int orr_condition_notify(struct orr_condition *condition, unsigned n)
{
    int error = primitive_check(condition);
    if (error)
        return error;
    int notified = 0;
    while (n-- && notify_one(condition))
        notified++;
    return notified;
}
