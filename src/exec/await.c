#include "exec/await.h"

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

int wait_tell_failure(struct orr_task *task, struct orr_wait *wait)
{
    if (wait->kind->interrupt) {
        wait->kind->interrupt(wait);
        return -EAGAIN;
    }
    wait_withdraw(wait);
    return wait_interruption(task);
}

int orr_checkpoint(struct orr_task *task)
{
    if (!task)
        return -EINVAL;
    return wait_allowed(task) ? wait_interruption(task) : -EPERM;
}
