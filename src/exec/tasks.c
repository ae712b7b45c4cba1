#include "exec/tasks.h"

#include "base/clear.h"

#include <errno.h>
#include <string.h>

void task_recycle(struct tasks *tasks, struct orr_task *task)
{
    /* Tested alone: combined with the next test, the read would be wider than the last store. */
    if (task->life != TASK_FREE)
        return;
    if (task->queued || task->interrupted || !task->reusable)
        return;
    task->reusable = false;
    task->next = tasks->free;
    tasks->free = task;
}

static int tasks_reserve(struct tasks *tasks, uint32_t index)
{
    unsigned chunk = chunk_position(index).chunk;
    if (!tasks->chunks[chunk]) {
        tasks->chunks[chunk] = alloc_new(tasks->alloc, chunk_length(chunk) * sizeof(struct orr_task));
        if (!tasks->chunks[chunk])
            return -ENOMEM;
    }
    return waker_table_reserve(tasks->table, index);
}

/*
 * Takes slots into use for the first time until one is free: the last holder of the waker table may
 * have left some that are not.
 */
static int tasks_extend(struct tasks *tasks)
{
    while (!tasks->free) {
        uint32_t index = tasks->used;
        if (index == ORR_TASKS_MAX)
            return -EAGAIN;
        int error = tasks_reserve(tasks, index);
        if (error)
            return error;
        tasks->used++;
        struct slot *slot = waker_table_slot(tasks->table, index);
        struct orr_task *task = tasks_at(tasks, index);
        clear_bytes(task, sizeof *task);
        task->worker = tasks->worker;
        task->slot = index;
        task->generation = slot_generation(atomic_load_explicit(&slot->state, memory_order_relaxed));
        task->reusable = slot_vacant(slot);
        task_recycle(tasks, task);
    }
    return 0;
}

int task_new(struct tasks *tasks, struct share *share, const struct orr_spawn *what, struct orr_task **out)
{
    if (!tasks->free) {
        int error = tasks_extend(tasks);
        if (error)
            return error;
    }
    char *name = NULL;
    if (what->name && !(name = alloc_copy(tasks->alloc, what->name)))
        return -ENOMEM;
    struct orr_task *task = tasks->free;
    tasks->free = task->next;
    /*
     * Nothing waits for a FREE task, and nothing is below it: its lists are empty and their counts
     * 0.  The other fields are set one by one: clearing the whole struct costs more than all else
     * here.
     */
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
    task->named = false;
    task->interrupted = false;
    task->late = false;
    task->share = share;
    task->result = (struct orr_result){ 0 };
    counter_add(&tasks->live, 1);
    counter_add(&tasks->spawned, 1);
    *out = task;
    return 0;
}

void task_retire(struct tasks *tasks, struct orr_task *task)
{
    struct slot *slot = waker_table_slot(tasks->table, task->slot);
    task->reusable = slot_vacate(slot, task->generation, task->opened);
    task->generation++;
    task->opened = false;
    task->life = TASK_ENDING;
}

void task_finish(struct tasks *tasks, struct orr_task *task)
{
    task->life = TASK_DONE;
    if (task->drop)
        task->drop(task->data);
    counter_subtract(&tasks->live, 1);
}

void task_free(struct tasks *tasks, struct orr_task *task)
{
    if (tasks->freed)
        tasks->freed(task);
    task->life = TASK_FREE;
    if (task->name && !task->name_lent)
        alloc_free(tasks->alloc, task->name, strlen(task->name) + 1);
    task->name = NULL;
    task_recycle(tasks, task);
}

void tasks_close(struct tasks *tasks)
{
    for (unsigned chunk = 0; chunk < CHUNK_COUNT; chunk++)
        alloc_free(tasks->alloc, tasks->chunks[chunk], chunk_length(chunk) * sizeof(struct orr_task));
}
