/*
 * A task, and queues of tasks.
 *
 * Life:   FREE -> LIVE -> ENDING -> DONE -> FREE
 *
 * A task is LIVE while its body is: from spawn until the body is over, or was dropped.  Its
 * generation goes up at that moment, so for every waker it is gone.  It is ENDING while children of
 * it are not done or I/O of it is in flight.  Then its destructor runs, and it is DONE, which lasts
 * while somebody holds a reference (see scope.h, which has the tree). Its slot goes to the free
 * list when nothing refers to it any more: not the ready queue (`queued`), not the queue of
 * interrupted tasks (`interrupted`), and not the inbox (`reusable` is set once the inbox has let go
 * of it).
 *
 * All of it belongs to the worker's thread, and none of it is atomic.
 */
#ifndef ORR_EXEC_TASK_H
#define ORR_EXEC_TASK_H

#include "exec/waker_table.h"
#include "orrery.h"

#include <assert.h>

struct share;
struct worker;

enum task_life {
    TASK_FREE,
    TASK_LIVE,
    TASK_ENDING,
    TASK_DONE,
};

/* Where the failure of a task is, as far as its parent goes. */
enum failure {
    FAILURE_NONE,
    FAILURE_FRESH,   /* among the parent's failures, and the parent has not been told */
    FAILURE_SEEN,    /* the same, and it has; or it came after another that it was told of */
    FAILURE_CLAIMED, /* with those who wait for the task, and have not looked yet */
};

struct orr_task {
    orr_poll_fn *poll;
    void *data;
    void (*drop)(void *data);
    struct worker *worker;
    struct orr_task *next; /* in a queue, or in the free list */
    struct orr_task *next_interrupted;
    uint32_t generation;
    uint32_t slot;

    /* Bytes, not bits: what is read wider than it was just written has to wait for the store. */
    uint8_t life;
    bool queued;
    bool opened; /* taken from the inbox, not yet acknowledged */
    bool reusable;
    bool cancelled;    /* the next wait has to answer -ECANCELED */
    bool child_failed; /* the next wait has to answer -ECHILD */

    uint8_t failure : 5;  /* so that all bits are named, and cleared by one store */
    bool interrupted : 1; /* in the share's queue of that name, perhaps besides another: see share.h */
    bool late : 1;        /* in the share's queue of that name */
    bool settled : 1;     /* from outside, by orr_task_complete() */
    bool failed : 1;      /* it is to count, or counts, as failed */
    bool by_child : 1;    /* and with the first of its failures, not by itself */
    bool own_error : 1;   /* that happened, and `result` is what the body came to afterwards */
    bool cut : 1;         /* cancelled when its body was over and its children were not */
    bool observed : 1;
    bool in_order : 1;  /* it keeps its place in the ready queue: see shuffle.h */
    bool running : 1;   /* it is being polled, or has another polled inside its own poll */
    bool name_lent : 1; /* and outlives the task */

    struct share *share; /* which it belongs to: see share.h */

    struct orr_link *ios;   /* in flight */
    struct orr_link *waits; /* begun and not picked up */

    /* The tree: scope.h. */
    struct orr_nest own;     /* the children that were made in no scope */
    struct orr_nest *parent; /* whose child it is, or whose failure; NULL once it is neither */
    struct orr_link sibling; /* among the parent's children, then perhaps its failures */
    struct orr_scope *scope; /* the innermost; NULL for none */
    char *name;
    uint32_t references;
    uint32_t children; /* in all scopes */
    union {
        uint32_t depth;     /* greater than that of every ancestor */
        uint32_t failed_as; /* a failure that is handed up: lower than those that came later */
    };

    uint32_t claims; /* how many wait for it, or have done so and have not looked yet */

    /* What it has come to. */
    struct orr_link *watchers; /* in order of arrival */
    struct orr_result result;
};

static_assert(sizeof(struct orr_task) + sizeof(struct slot) <= 232, "what a task may cost");

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

static inline void queue_push_front(struct queue *queue, struct orr_task *task)
{
    task->next = queue->first;
    if (!queue->first)
        queue->last = task;
    queue->first = task;
}

static inline struct orr_task *queue_pop(struct queue *queue)
{
    struct orr_task *task = queue->first;
    if (task)
        queue->first = task->next;
    return task;
}

/* Takes one out of the middle; false if it is not there. */
static inline bool queue_remove(struct queue *queue, struct orr_task *task)
{
    struct orr_task *before = NULL;
    for (struct orr_task *at = queue->first; at; before = at, at = at->next) {
        if (at != task)
            continue;
        if (before)
            before->next = task->next;
        else
            queue->first = task->next;
        if (queue->last == task)
            queue->last = before;
        return true;
    }
    return false;
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

/* Names a task that has no name, by a text that outlives it. */
static inline void task_lend_name(struct orr_task *task, const char *name)
{
    task->name = (char *)name;
    task->name_lent = true;
}

#endif
