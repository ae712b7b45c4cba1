/*
 * A task, and queues of tasks.
 *
 *   FREE -> LIVE -> ENDING -> DONE -> FREE
 *
 * A LIVE task that is used again and again may rest in between: rest.h.
 *
 * A task is LIVE from spawn until its body is over or was dropped.  At that moment its generation
 * goes up, so no waker finds it any more.  It is ENDING while it has children that are not done, or
 * I/O in flight.  Then its destructor runs, and it is DONE, for as long as somebody holds a
 * reference (scope.h has the tree).  Its slot goes to the free list when nothing refers to it any
 * more: not the run queue (`queued`), not the queue of interrupted tasks (`interrupted`), and not
 * the inbox (`reusable` is set once the inbox has let go of the slot).
 *
 * All of it belongs to the worker's owner, and none of it is atomic.
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
    TASK_RESTING, /* see rest.h */
};

/* Where the failure of a task is, seen from its parent. */
enum failure {
    FAILURE_NONE,
    FAILURE_FRESH,   /* among the parent's failures; the parent has not been told */
    FAILURE_SEEN,    /* among them; the parent has been told of it, or of one before it */
    FAILURE_CLAIMED, /* with those who wait for the task and have not looked yet */
};

struct orr_task {
    orr_poll_fn *poll;
    void *data;
    void (*drop)(void *data);
    struct worker *worker;
    struct orr_task *next; /* in a queue or the free list */
    struct orr_task *next_interrupted;
    uint32_t generation;
    uint32_t slot;

    /* Bytes, not bits: a read wider than the store just before it has to wait for that store. */
    uint8_t life;
    bool queued;
    bool opened; /* taken from the inbox, not yet acknowledged */
    bool reusable;
    bool cancelled;    /* the next wait answers -ECANCELED */
    bool child_failed; /* the next wait answers -ECHILD */

    /* Enum failure; four bits, so that all bits are named and one store clears them. */
    uint8_t failure : 4;
    bool named : 1;       /* a waker or a mutex may name it */
    bool interrupted : 1; /* in the share's queue of that name, perhaps in another, too */
    bool late : 1;        /* in the share's queue of that name */
    bool settled : 1;     /* its result was given from outside, by orr_task_complete() */
    bool failed : 1;      /* counts as failed, now or when it is done */
    bool by_child : 1;    /* failed with the first failure of its children */
    bool own_error : 1;   /* failed by a child, but `result` is the body's own, later error */
    bool cut : 1;         /* cancelled while only its children went on */
    bool observed : 1;
    bool in_order : 1;  /* keeps its position in the run queue: see shuffle.h */
    bool running : 1;   /* is being polled, or polls another task inside its own poll */
    bool name_lent : 1; /* the name is not a copy; it outlives the task */

    struct share *share; /* the share it belongs to */

    struct orr_link *ios;   /* operations in flight */
    struct orr_link *waits; /* waits that have begun and were not picked up */

    /* The tree: scope.h. */
    struct orr_nest own;     /* the children made outside all scopes */
    struct orr_nest *parent; /* the nest it is a child or a failure of; NULL once it is neither */
    struct orr_link sibling; /* in the parent's children, then perhaps in its failures */
    struct orr_scope *scope; /* the innermost scope; NULL for none */
    char *name;
    uint32_t references;
    uint32_t children; /* children in all scopes together */
    union {
        uint32_t depth;     /* greater than that of every ancestor */
        uint32_t failed_as; /* of a failure handed up: lower than those handed up later */
    };

    uint32_t claims; /* tasks that wait for it, or have waited and not looked yet */

    /* Its end. */
    struct orr_link *watchers; /* waits and observers, in order of arrival */
    struct orr_result result;
};

static_assert(sizeof(struct orr_task) + sizeof(struct slot) <= 232, "what a task may cost");

/* A queue, first in, first out, linked through the tasks.  Zeroed is empty. */
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

/* Takes a task out of the middle; false if it is not there. */
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

/* Names a task that has none, by a text that outlives it. */
static inline void task_lend_name(struct orr_task *task, const char *name)
{
    task->name = (char *)name;
    task->name_lent = true;
}

#endif
