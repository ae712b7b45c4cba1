/*
 * The tasks of one worker: a table of them by slot, and the life of each.
 *
 * Life:   FREE -> LIVE -> (ENDING ->) FREE
 *
 * A task is LIVE from spawn until it is done or dropped.  Its generation goes up at that moment, so for every
 * waker it is gone; but while I/O of it is in flight its destructor waits, and it is ENDING.  Only then is it
 * FREE.  Its slot goes to the free list when nothing refers to it any more: not the ready queue (`queued`), and
 * not the inbox (`reusable` is set once the inbox has let go of it).
 *
 * All of it belongs to the worker's thread, and none of it is atomic.
 */
#ifndef ORR_EXEC_TASK_H
#define ORR_EXEC_TASK_H

#include "base/alloc.h"
#include "base/chunks.h"
#include "base/counter.h"
#include "exec/place.h"
#include "orrery.h"

#include <assert.h>

struct worker;

enum task_life {
    TASK_FREE,
    TASK_LIVE,
    TASK_ENDING,
};

struct orr_task {
    orr_poll_fn *poll;
    void *data;
    void (*drop)(void *data);
    struct worker *worker;
    struct orr_task *next; /* in a queue, or in the free list */
    struct orr_link ios;   /* in flight */
    uint32_t generation;
    uint32_t slot : WAKER_SLOT_BITS;
    uint32_t life : 2;
    uint32_t queued : 1;
    uint32_t opened : 1; /* taken from the inbox, not yet acknowledged */
    uint32_t reusable : 1;
};

static_assert(sizeof(struct orr_task) + sizeof(struct slot) <= 96, "what a task may cost");

/* First in, first out, linked through the tasks.  Zeroed is empty. */
struct queue {
    struct orr_task *first, *last;
};

static inline void queue_push(struct queue *queue, struct orr_task *task)
{
    task->next = NULL;
    if (queue->first)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
}

static inline struct orr_task *queue_pop(struct queue *queue)
{
    struct orr_task *task = queue->first;
    if (task)
        queue->first = task->next;
    return task;
}

/* Moves all of `from` behind all of `to`. */
static inline void queue_join(struct queue *to, struct queue *from)
{
    if (!from->first)
        return;
    if (to->first)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    from->first = NULL;
}

struct tasks {
    struct orr_task *chunks[CHUNK_COUNT];
    struct orr_task *free;
    uint32_t used; /* slots below this have been looked at by this worker */
    uint32_t limit;
    uint32_t ending;
    struct counter live; /* FREE no longer, or not yet again */
    struct counter spawned;
};

/* `index` is below `used`. */
static inline struct orr_task *tasks_at(const struct tasks *tasks, uint32_t index)
{
    struct chunk_place at = chunk_place(index);
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

/* Makes a live task, not yet queued.  -ENOMEM; -EAGAIN if there is not a slot left.  The limit is the caller's. */
int task_new(struct worker *worker, const struct orr_spawn *what, struct orr_task **out);

/* Polls a task that came off the ready queue.  False if it has ended meanwhile, and was not polled. */
bool task_run(struct worker *worker, struct orr_task *task);

/* Ends a live task: at once, or when its I/O is back. */
void task_end(struct worker *worker, struct orr_task *task);

/* A slot of this worker came out of the inbox. */
void task_notified(struct worker *worker, uint32_t index);

/* An operation of its task has finished. */
void task_io_done(struct worker *worker, struct orr_io *io);

/* Frees the table.  Every task must be FREE. */
void tasks_close(struct tasks *tasks, const struct alloc *alloc);

#endif
