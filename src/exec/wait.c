#include "exec/wait.h"

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
    if (!group)
        return;
    wait->grouped = false;
    wait->owner = group->wait.owner;
    group_left(group);
}

void wait_withdraw(struct orr_wait *wait)
{
    bool granted = wait->state == WAIT_GRANTED;
    wait_pick_up(wait);
    wait->kind->withdraw(wait, granted);
}

/* --- Groups ----------------------------------------------------------------------------------- */

void group_left(struct orr_group *group)
{
    if (group->wait.state != WAIT_IDLE && !group->pending && !group->granted)
        wait_pick_up(&group->wait);
}

static void withdraw_all(struct orr_link **members)
{
    while (*members)
        wait_withdraw(container_of(*members, struct orr_wait, in_owner));
}

void group_clear(struct orr_group *group)
{
    withdraw_all(&group->pending);
    withdraw_all(&group->granted);
    group_left(group);
}

/*
 * Nothing may be granted to a cancelled task.  After the failure of a child, the group may go on.
 */
static void group_interrupt(struct orr_wait *wait)
{
    struct orr_group *group = container_of(wait, struct orr_group, wait);
    if (!((struct orr_task *)wait->owner)->cancelled || !group->pending)
        return;
    wait->value = true; /* the group is not complete any more */
    withdraw_all(&group->pending);
}

static void group_withdraw(struct orr_wait *wait, bool granted)
{
    (void)granted;
    group_clear(container_of(wait, struct orr_group, wait));
}

static bool group_awaited(const struct orr_wait *wait, task_each_fn *each, void *data)
{
    const struct orr_group *group = wait->source;
    for (struct orr_link *link = group->pending; link; link = ring_next(group->pending, link)) {
        const struct orr_wait *member = container_of(link, struct orr_wait, in_owner);
        if (member->kind->awaited && !member->kind->awaited(member, each, data))
            return false;
    }
    return true;
}

static const struct orr_wait_kind group_kind = {
    .name = "any of several",
    .withdraw = group_withdraw,
    .interrupt = group_interrupt,
    .awaited = group_awaited,
};

/* A member of the group begins to wait: so does the group, for the same task. */
static void group_enter(struct orr_task *task, struct orr_wait *wait)
{
    struct orr_group *group = wait->owner;
    if (group->wait.state != WAIT_IDLE)
        return;
    group->wait.value = false;
    wait_begin(task, &group->wait, group, &group_kind);
}

/* --- Begin, grant, interrupt ------------------------------------------------------------------ */

int wait_begin(struct orr_task *task, struct orr_wait *wait, void *source, const struct orr_wait_kind *kind)
{
    wait->source = source;
    wait->kind = kind;
    wait_set_since(wait, task->worker->now);
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

/* The first wait that an interruption can withdraw. */
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
    /* From the start each time: withdrawing one may withdraw others. */
    while ((wait = first_to_withdraw(task)))
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
