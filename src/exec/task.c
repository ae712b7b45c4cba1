#include "exec/task.h"

#include "base/ring.h"
#include "exec/scope.h"
#include "exec/wait.h"
#include "exec/worker.h"

#include <errno.h>
#include <string.h>

/* Gives a slot that nothing refers to back to the table. */
static void task_recycle(struct tasks *tasks, struct orr_task *task)
{
    if (task->life != TASK_FREE)
        return; /* on its own: together with the next it would be one read, wider than what was just written */
    if (task->queued || task->interrupted || !task->reusable)
        return;
    task->reusable = false;
    task->next = tasks->free;
    tasks->free = task;
}

static int tasks_reserve(struct worker *worker, uint32_t index)
{
    struct tasks *tasks = &worker->tasks;
    unsigned chunk = chunk_position(index).chunk;
    if (!tasks->chunks[chunk]) {
        tasks->chunks[chunk] = alloc_new(&worker->alloc, chunk_length(chunk) * sizeof(struct orr_task));
        if (!tasks->chunks[chunk])
            return -ENOMEM;
    }
    return waker_table_reserve(worker->table, index);
}

/* Takes slots into use for the first time until one is free: a predecessor may have left some that are not. */
static int tasks_extend(struct worker *worker)
{
    struct tasks *tasks = &worker->tasks;
    while (!tasks->free) {
        uint32_t index = tasks->used;
        if (index == ORR_TASKS_MAX)
            return -EAGAIN;
        int error = tasks_reserve(worker, index);
        if (error)
            return error;
        tasks->used++;
        struct slot *slot = waker_table_slot(worker->table, index);
        struct orr_task *task = tasks_at(tasks, index);
        *task = (struct orr_task){
            .worker = worker,
            .slot = index,
            .generation = slot_generation(atomic_load_explicit(&slot->state, memory_order_relaxed)),
            .reusable = slot_vacant(slot),
        };
        task_recycle(tasks, task);
    }
    return 0;
}

int task_new(struct worker *worker, const struct orr_spawn *what, struct orr_task **out)
{
    struct tasks *tasks = &worker->tasks;
    if (!tasks->free) {
        int error = tasks_extend(worker);
        if (error)
            return error;
    }
    char *name = NULL;
    if (what->name && !(name = alloc_copy(&worker->alloc, what->name)))
        return -ENOMEM;
    struct orr_task *task = tasks->free;
    tasks->free = task->next;
    /* Nothing waits for a FREE task, nor is below it: its lists are empty and their counts 0.  The rest is set one by
     * one, since clearing so large a struct as a whole costs more than all else here. */
    task->poll = what->poll;
    task->data = what->data;
    task->drop = what->drop;
    task->life = TASK_LIVE;
    task->opened = false;
    task->cancelled = false;
    task->child_failed = false;
    task->own = (struct orr_nest){ 0 };
    task->scope = NULL;
    task->name = name;
    task->name_lent = false;
    task->references = 0;
    task->depth = 0;
    task->settled = false;
    task->failed = false;
    task->by_child = false;
    task->own_error = false;
    task->cut = false;
    task->observed = false;
    task->in_order = false;
    task->running = false;
    task->failure = FAILURE_NONE;
    task->interrupted = false;
    task->late = false;
    task->share = &worker->shares.own;
    task->result = (struct orr_result){ 0 };
    counter_add(&tasks->live, 1);
    counter_add(&tasks->spawned, 1);
    *out = task;
    return 0;
}

void task_retire(struct worker *worker, struct orr_task *task)
{
    struct slot *slot = waker_table_slot(worker->table, task->slot);
    if (task->waits)
        waits_abandon(task);
    task->reusable = slot_vacate(slot, task->generation, task->opened);
    task->generation++;
    task->opened = false;
    task->life = TASK_ENDING;
    if (task->ios) {
        worker->tasks.io_ending++;
        io_cancel_all(task);
    }
}

void task_bury(struct worker *worker, struct orr_task *task)
{
    task->life = TASK_DONE;
    if (task->drop)
        task->drop(task->data);
    counter_subtract(&worker->tasks.live, 1);
}

void task_free(struct worker *worker, struct orr_task *task)
{
    if (worker->task_freed)
        worker->task_freed(task);
    task->life = TASK_FREE;
    if (task->name && !task->name_lent)
        alloc_free(&worker->alloc, task->name, strlen(task->name) + 1);
    task->name = NULL;
    task_recycle(&worker->tasks, task);
}

static void task_poll(struct worker *worker, struct orr_task *task)
{
    if (task->running)
        return; /* something inside its own poll turns the worker */
    if (task->opened) {
        task->opened = false;
        struct slot *slot = waker_table_slot(worker->table, task->slot);
        counter_add(&worker->wakes_coalesced, slot_acknowledge(slot, task->generation));
    }
    struct orr_task *outer = worker->polling;
    worker->polling = task;
    task->running = true;
    enum orr_poll answer = task->poll(task, task->data);
    task->running = false;
    worker->polling = outer;
    counter_add(&worker->polls, 1);
    if (answer == ORR_PENDING)
        return;
    if (answer != ORR_DONE)
        log_line(&worker->log, ORR_LOG_ERROR,
                 "a poll function answered %d, expected ORR_DONE or ORR_PENDING; its task was ended", (int)answer);
    scope_body_over(task);
}

void task_run_now(struct worker *worker, struct orr_task *task)
{
    task_poll(worker, task);
}

bool task_run(struct worker *worker, struct orr_task *task)
{
    bool live = task->life == TASK_LIVE;
    task->queued = false;
    if (live)
        task_poll(worker, task);
    else
        task_recycle(&worker->tasks, task);
    return live;
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
        counter_add(&worker->wakes_foreign, 1);
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

void tasks_close(struct tasks *tasks, const struct alloc *alloc)
{
    for (unsigned chunk = 0; chunk < CHUNK_COUNT; chunk++)
        alloc_free(alloc, tasks->chunks[chunk], chunk_length(chunk) * sizeof(struct orr_task));
}

struct orr_waker orr_task_waker(const struct orr_task *task)
{
    if (!task || task->life != TASK_LIVE)
        return (struct orr_waker){ 0 };
    return waker_make(task->worker->table_number, task->slot, task->generation);
}

enum orr_poll orr_task_yield(struct orr_task *task)
{
    if (task)
        orr_waker_wake(orr_task_waker(task));
    return ORR_PENDING;
}

unsigned orr_task_worker(const struct orr_task *task)
{
    return task ? task->worker->number : 0;
}

struct orr_runtime *orr_task_runtime(const struct orr_task *task)
{
    return task ? task->worker->runtime : NULL;
}

const char *orr_task_name(const struct orr_task *task)
{
    return task ? task->name : NULL;
}

struct orr_task *orr_task_current(void)
{
    return worker_current ? worker_current->polling : NULL;
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
