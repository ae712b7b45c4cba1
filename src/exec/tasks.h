/*
 * The tasks of one worker: a table of them by slot.  A slot here belongs to the slot with the same
 * index in the worker's waker table.
 *
 * The table never shrinks, and tasks never move.  All of it belongs to the worker's owner.
 */
#ifndef ORR_EXEC_TASKS_H
#define ORR_EXEC_TASKS_H

#include "base/alloc.h"
#include "base/chunks.h"
#include "base/counter.h"
#include "exec/task.h"
#include "exec/waker_table.h"

struct tasks {
    struct orr_task *chunks[CHUNK_COUNT];
    struct orr_task *free;
    uint32_t used; /* slots below this have been looked at by this worker */
    uint32_t limit;
    uint32_t io_ending;  /* ENDING, with I/O in flight */
    struct counter live; /* LIVE or ENDING */
    struct counter spawned;
    struct worker *worker; /* whose tasks they are */
    struct waker_table *table;
    const struct alloc *alloc;
    void (*freed)(struct orr_task *task); /* called last of each freed task; or NULL */
};

/* `index` is below `used`. */
static inline struct orr_task *tasks_at(const struct tasks *tasks, uint32_t index)
{
    struct chunk_position at = chunk_position(index);
    return &tasks->chunks[at.chunk][at.offset];
}

/* The live task that a waker of this worker names; NULL if there is none. */
static inline struct orr_task *tasks_find(const struct tasks *tasks, struct orr_waker waker)
{
    uint32_t index = waker_slot(waker);
    if (index >= tasks->used)
        return NULL;
    struct orr_task *task = tasks_at(tasks, index);
    return task->generation == waker_generation(waker) && task->life == TASK_LIVE ? task : NULL;
}

/*
 * Makes a live task, not yet queued, and in no tree.  The caller checks the limit.  -ENOMEM;
 * -EAGAIN if no slot is left.
 */
int task_new(struct tasks *tasks, struct share *share, const struct orr_spawn *what, struct orr_task **out);

/*
 * LIVE becomes ENDING: the body is over, and no waker names the task any more.  Nothing may wait
 * for it.
 */
void task_retire(struct tasks *tasks, struct orr_task *task);

/* ENDING becomes DONE: the destructor runs.  The task has no children and no I/O. */
void task_finish(struct tasks *tasks, struct orr_task *task);

/* DONE becomes FREE. */
void task_free(struct tasks *tasks, struct orr_task *task);

/* Puts a slot into the free list, if its task is FREE and nothing refers to it any more. */
void task_recycle(struct tasks *tasks, struct orr_task *task);

/* Frees the table.  Every task must be FREE. */
void tasks_close(struct tasks *tasks);

#endif
