#include "exec/poll.h"

#include "base/ring.h"

#include <errno.h>

void task_run_now(struct worker *worker, struct orr_task *task)
{
    task_poll(worker, task);
}

bool task_run_interrupted(struct worker *worker, struct orr_task *task)
{
    bool live = task->life == TASK_LIVE;
    task->interrupted = false;
    if (live)
        task_poll(worker, task);
    else
        task_recycle(&worker->tasks, task);
    return live;
}

void task_notified(struct worker *worker, uint32_t index)
{
    struct slot *slot = waker_table_slot(worker->table, index);
    struct orr_task *task = index < worker->tasks.used ? tasks_at(&worker->tasks, index) : NULL;
    if (!slot_opened(slot)) {
        if (!task)
            return;
        task->reusable = slot_vacant(slot);
        task_recycle(&worker->tasks, task);
    } else if (task && task->life == TASK_LIVE) {
        counter_add(&worker->counters.wakes_foreign, 1);
        task->opened = true;
        worker_ready(worker, task);
    } else {
        slot_disown(slot);
    }
}

void task_io_done(struct worker *worker, struct orr_io *io)
{
    struct orr_task *task = io->task;
    ring_remove(&task->ios, &io->in_task);
    io->state = IO_DONE;
    if (task->life == TASK_LIVE) {
        worker_ready(worker, task);
    } else if (!task->ios) {
        worker->tasks.io_ending--;
        scope_settle(task);
    }
}

int orr_task_drop(struct orr_waker waker)
{
    struct worker *worker = worker_current;
    if (!worker || worker->table_number != waker_table_number(waker))
        return waker_table_names_task(waker) ? -EPERM : -ESRCH;
    struct orr_task *task = tasks_find(&worker->tasks, waker);
    if (!task)
        return -ESRCH;
    if (task->running)
        return -EBUSY;
    scope_drop_body(task);
    return 0;
}
