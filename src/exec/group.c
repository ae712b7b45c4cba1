/*
 * Many waits together.  A group is itself in its task's list of waits while it has members, so that
 * the end of the body finds them.  Its members are in its own two lists, and move from *pending* to
 * *granted* when they are granted: finding the next costs the same however many there are.  A
 * member that is handed out becomes an ordinary wait of the task.  wait.c has the lists.
 */
#include "exec/await.h"

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

/* What the group functions check before they look at the members; 1 to go on. */
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
    group_clear(group);
}
