/*
 * Polling tasks, and what the worker's loop hands to them: wakes from its inbox, and I/O that has
 * finished.  The worker's owner.
 */
#ifndef ORR_EXEC_POLL_H
#define ORR_EXEC_POLL_H

#include "exec/scope.h"
#include "exec/worker.h"

/*
 * Polls a live task.  Inline, like task_run(): a Lua task that waits leaves its coroutine by
 * longjmp(), after which the processor mispredicts the return of every function out to the loop.
 */
static inline __attribute__((always_inline)) void task_poll(struct worker *worker, struct orr_task *task)
{
    if (task->running)
        return; /* something inside its own poll turns the worker */
    if (task->opened) {
        task->opened = false;
        struct slot *slot = waker_table_slot(worker->table, task->slot);
        counter_add(&worker->counters.wakes_coalesced, slot_acknowledge(slot, task->generation));
    }
    struct orr_task *outer = worker->polling;
    worker->polling = task;
    task->running = true;
    enum orr_poll answer = task->poll(task, task->data);
    task->running = false;
    worker->polling = outer;
    counter_add(&worker->counters.polls, 1);
    if (answer == ORR_PENDING)
        return;
    if (answer != ORR_DONE)
        log_line(&worker->log, ORR_LOG_ERROR,
                 "a poll function answered %d, expected ORR_DONE or ORR_PENDING; its task was ended", (int)answer);
    scope_body_over(task);
}

/*
 * Polls a task that came off the ready queue.  False if it has ended meanwhile, and was not polled.
 */
static inline bool task_run(struct worker *worker, struct orr_task *task)
{
    bool live = task->life == TASK_LIVE;
    task->queued = false;
    if (live)
        task_poll(worker, task);
    else
        task_recycle(&worker->tasks, task);
    return live;
}

/*
 * Polls a task that came off the queue of interrupted tasks; it may still be in another queue.
 * False as task_run().
 */
bool task_run_interrupted(struct worker *worker, struct orr_task *task);

/* Polls a live task here and now, also inside the poll of another. */
void task_run_now(struct worker *worker, struct orr_task *task);

/* A slot of this worker came out of the inbox. */
void task_notified(struct worker *worker, uint32_t index);

/* An operation of its task has finished. */
void task_io_done(struct worker *worker, struct orr_io *io);

#endif
