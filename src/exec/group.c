/*
 * Many waits together.  A group is itself in its task's list while it has members, so that the end of the body finds them.
 * Its members are in its own two lists, and move from *pending* to *granted* as they are granted: finding the next costs
 * the same however many there are.  A member that is handed out becomes an ordinary wait of the task.
 */
#include "exec/wait.h"

static void withdraw_all(struct orr_link **members)
{
    while (*members)
        wait_withdraw(container_of(*members, struct orr_wait, in_owner));
}

/* Nothing may be granted to a cancelled task.  The failure of a child can be dealt with, and the group go on. */
static void group_interrupt(struct orr_wait *wait)
{
    struct orr_group *group = container_of(wait, struct orr_group, wait);
    if (!((struct orr_task *)wait->owner)->cancelled || !group->pending)
        return;
    wait->value = true; /* it is not complete any more */
    withdraw_all(&group->pending);
}

static void group_withdraw(struct orr_wait *wait, bool granted)
{
    (void)granted;
    orr_group_clear(container_of(wait, struct orr_group, wait));
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

void group_enter(struct orr_task *task, struct orr_wait *wait)
{
    struct orr_group *group = wait->owner;
    if (group->wait.state != WAIT_IDLE)
        return;
    group->wait.value = false;
    wait_begin(task, &group->wait, group, &group_kind);
}

void group_left(struct orr_group *group)
{
    if (group->wait.state != WAIT_IDLE && !group->pending && !group->granted)
        wait_pick_up(&group->wait);
}

int orr_group_add(struct orr_group *group, struct orr_wait *wait)
{
    if (!group || !wait)
        return -EINVAL;
    if (wait->state != WAIT_IDLE)
        return -EBUSY;
    wait->grouped = true;
    wait->owner = group;
    return 0;
}

/* A granted member becomes a wait of the task itself. */
static struct orr_wait *hand_out(struct orr_task *task, struct orr_group *group)
{
    struct orr_wait *wait = container_of(ring_pop(&group->granted), struct orr_wait, in_owner);
    wait->grouped = false;
    wait->owner = task;
    ring_append(&task->waits, &wait->in_owner);
    group_left(group);
    return wait;
}

/* What orr_group_next() and its like answer before they look at the members; 1 to go on. */
static int group_poll(struct orr_task *task, struct orr_group *group)
{
    if (!task || !group)
        return -EINVAL;
    if (!wait_allowed(task))
        return -EPERM;
    if (group->wait.state != WAIT_IDLE && group->wait.owner != task)
        return -EBUSY;
    group_left(group);
    return 1;
}

int orr_group_next(struct orr_task *task, struct orr_group *group, struct orr_wait **next)
{
    int answer = next ? group_poll(task, group) : -EINVAL;
    if (answer != 1)
        return answer;
    *next = NULL;
    if (group->granted) {
        *next = hand_out(task, group);
        return 0;
    }
    answer = wait_interruption(task);
    return answer ? answer : group->pending ? -EAGAIN : 0;
}

int orr_wait_any(struct orr_task *task, struct orr_group *group, struct orr_wait **first)
{
    int answer = orr_group_next(task, group, first);
    if (!answer)
        orr_group_clear(group);
    return answer;
}

int orr_wait_all(struct orr_task *task, struct orr_group *group)
{
    int answer = group_poll(task, group);
    if (answer != 1)
        return answer;
    if (group->wait.value)
        return -ECANCELED;
    answer = group->pending ? wait_interruption(task) : 0;
    if (answer || group->pending)
        return answer ? answer : -EAGAIN;
    while (group->granted)
        hand_out(task, group);
    return 0;
}

void orr_group_clear(struct orr_group *group)
{
    if (!group)
        return;
    withdraw_all(&group->pending);
    withdraw_all(&group->granted);
    group_left(group);
}
