#include "exec/wait.h"

#include "base/clock.h"
#include "exec/scope.h"

int wait_interruption(struct orr_task *task)
{
    if (task->cancelled)
        return -ECANCELED;
    if (!task->child_failed)
        return 0;
    scope_deliver(task);
    return -ECHILD;
}

static struct orr_link **owner_list(const struct orr_wait *wait)
{
    if (!wait->grouped)
        return &((struct orr_task *)wait->owner)->waits;
    struct orr_group *group = wait->owner;
    return wait->state == WAIT_GRANTED ? &group->granted : &group->pending;
}

void wait_pick_up(struct orr_wait *wait)
{
    struct orr_group *group = wait->grouped ? wait->owner : NULL;
    ring_remove(owner_list(wait), &wait->in_owner);
    wait->state = WAIT_IDLE;
    wait->grouped = false;
    if (group)
        group_left(group);
}

/* A child has failed: the wait is withdrawn, unless it is of those that cannot be. */
int wait_tell_failure(struct orr_task *task, struct orr_wait *wait)
{
    if (wait->kind->interrupt) {
        wait->kind->interrupt(wait);
        return -EAGAIN;
    }
    wait_withdraw(wait);
    return wait_interruption(task);
}

void wait_withdraw(struct orr_wait *wait)
{
    bool granted = wait->state == WAIT_GRANTED;
    wait_pick_up(wait);
    wait->kind->withdraw(wait, granted);
}

int wait_begin(struct orr_task *task, struct orr_wait *wait, void *source, const struct orr_wait_kind *kind)
{
    wait->source = source;
    wait->kind = kind;
    wait->since = task->worker->now;
    wait->state = WAIT_WAITING;
    if (wait->grouped)
        group_enter(task, wait);
    else
        wait->owner = task;
    ring_append(owner_list(wait), &wait->in_owner);
    return -EAGAIN;
}

static void become_granted(struct orr_wait *wait)
{
    if (wait->grouped) {
        struct orr_group *group = wait->owner;
        ring_remove(&group->pending, &wait->in_owner);
        ring_append(&group->granted, &wait->in_owner);
    }
    wait->state = WAIT_GRANTED;
}

void wait_grant(struct orr_wait *wait)
{
    struct orr_task *task = wait_task(wait);
    become_granted(wait);
    worker_ready(task->worker, task);
}

void wait_grant_failure(struct orr_wait *wait)
{
    struct orr_task *task = wait_task(wait);
    become_granted(wait);
    worker_ready_interrupted(task->worker, task);
}

/* The first wait that an interruption can take away. */
static struct orr_wait *first_to_withdraw(struct orr_task *task)
{
    for (struct orr_link *link = task->waits; link; link = ring_next(task->waits, link)) {
        struct orr_wait *wait = container_of(link, struct orr_wait, in_owner);
        if (wait->state == WAIT_WAITING && !wait->kind->interrupt)
            return wait;
    }
    return NULL;
}

void waits_interrupt(struct orr_task *task, bool by_failure)
{
    struct orr_wait *wait;
    while ((wait = first_to_withdraw(task))) /* from the start each time: withdrawing one may withdraw others */
        wait_withdraw(wait);
    struct orr_link *link = task->waits;
    while (link) { /* each takes at most itself out of the list */
        wait = container_of(link, struct orr_wait, in_owner);
        link = ring_next(task->waits, link);
        if (wait->state == WAIT_WAITING)
            wait->kind->interrupt(wait);
    }
    (by_failure ? worker_ready_interrupted : worker_ready)(task->worker, task);
}

void waits_abandon(struct orr_task *task)
{
    while (task->waits)
        wait_withdraw(container_of(task->waits, struct orr_wait, in_owner));
}

void orr_wait_withdraw(struct orr_wait *wait)
{
    if (wait && wait->state != WAIT_IDLE)
        wait_withdraw(wait);
}

int orr_checkpoint(struct orr_task *task)
{
    if (!task)
        return -EINVAL;
    return wait_allowed(task) ? wait_interruption(task) : -EPERM;
}

/* --- Sleep ----------------------------------------------------------------------------------------------- */

static void sleep_withdraw(struct orr_wait *wait, bool granted)
{
    if (!granted)
        shard_wake_early(((struct worker *)wait->source)->shard, wait_sleeper(wait));
}

static const struct orr_wait_kind sleep_kind = { .name = "sleep", .withdraw = sleep_withdraw, .ends_by_itself = true };

void wait_rouse(struct sleeper *sleeper, unsigned part_of)
{
    if (part_of == SLEEPER_OF_SCOPE)
        scope_expire(sleeper);
    else if (part_of == SLEEPER_OF_WAIT)
        wait_grant((struct orr_wait *)((char *)sleeper - offsetof(struct orr_wait, word)));
}

static int sleep_begin(struct orr_task *task, struct orr_wait *wait, uint64_t deadline)
{
    struct worker *worker = task->worker;
    wait_begin(task, wait, worker, &sleep_kind);
    shard_sleep(worker->shard, wait_sleeper(wait), SLEEPER_OF_WAIT, deadline);
    return -EAGAIN;
}

/* Time that has passed is nothing one could lose: if something interrupts the task as well, it hears of that. */
static int sleep_poll(struct orr_task *task, struct orr_wait *wait)
{
    int answer = wait_poll(task, wait, task ? task->worker : NULL, &sleep_kind);
    return answer ? answer : wait_interruption(task);
}

int orr_sleep_until(struct orr_task *task, struct orr_wait *wait, uint64_t deadline)
{
    int answer = sleep_poll(task, wait);
    return answer == 1 ? sleep_begin(task, wait, deadline) : answer;
}

int orr_sleep(struct orr_task *task, struct orr_wait *wait, uint64_t ns)
{
    int answer = sleep_poll(task, wait);
    return answer == 1 ? sleep_begin(task, wait, clock_after(timers_now(task->worker->timers), ns)) : answer;
}
