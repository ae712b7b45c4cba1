/*
 * Waking.  On the worker's own thread: a thread-local compare, a look-up, a push.  From anywhere
 * else: the inbox of the waker table.  A signal handler always takes the inbox, because it may have
 * interrupted the worker in the middle of a push.
 */
#include "exec/worker.h"

void orr_waker_wake(struct orr_waker waker)
{
    struct worker *worker = worker_current;
    if (!worker || worker->table_number != waker_table_number(waker)) {
        waker_table_wake(waker);
        return;
    }
    struct orr_task *task = tasks_find(&worker->tasks, waker);
    if (!task || task->queued)
        return;
    counter_add(&worker->counters.wakes_local, 1);
    worker_ready(worker, task);
}

void orr_waker_wake_signal(struct orr_waker waker)
{
    waker_table_wake(waker);
}

struct orr_waker orr_task_waker(const struct orr_task *task)
{
    if (!task || task->life != TASK_LIVE)
        return (struct orr_waker){ 0 };
    ((struct orr_task *)task)->named = true;
    return waker_make(task->worker->table_number, task->slot, task->generation);
}

enum orr_poll orr_task_yield(struct orr_task *task)
{
    struct worker *worker = worker_current;
    if (!task || task->queued)
        return ORR_PENDING;
    if (task->worker == worker && task->life == TASK_LIVE) {
        counter_add(&worker->counters.wakes_local, 1);
        worker_ready(worker, task);
    } else {
        orr_waker_wake(orr_task_waker(task));
    }
    return ORR_PENDING;
}
