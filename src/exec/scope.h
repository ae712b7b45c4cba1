/*
 * The tree of tasks: who owns whom, what goes up and what comes down.
 *
 * Children are in a *nest*.  Every task has a nest of its own, every scope that a body has entered
 * is another, and each worker has one for the tasks at the top.  A task's scopes are nested:
 * `task->scope` is the innermost, `outer` leads out to the task's own nest, and `inner` leads in;
 * the innermost scope's `inner` is the outermost scope.  New children go to the innermost nest, so
 * the nests from the outside in list the children of a task in the order of their creation.
 *
 * Invariants
 *
 *   - A child is in its parent's nest until it is DONE, and `children` counts it.  A task is DONE
 *     only when it counts none.  So nothing outlives what it may borrow from: destructors run from
 *     the leaves up.
 *   - The tree holds a reference to every task in it, and a nest holds one to every failure in it.
 *   - A nest stays cancelled.  A task that is cancelled by its parent has its own nest cancelled;
 *     so the reason is found by looking outwards inside one task, up to a shield, and
 *     `task->cancelled` remembers what was found.
 *   - In the failures of a nest, SEEN ones come before FRESH ones.
 *
 * A failed child is kept as it is, in its parent's failures, in the order of failing.  So nothing
 * is allocated for an error, the value is the same all the way up, and the path of an error can be
 * read from the tree.  `by_child` says that the parent failed with the first of its failures.
 *
 * Nothing here recurses, and nothing searches among siblings: walks follow links, and a loop ends a
 * hundred thousand ancestors.
 */
#ifndef ORR_EXEC_SCOPE_H
#define ORR_EXEC_SCOPE_H

#include "base/ring.h"
#include "exec/worker.h"

enum {
    NEST_BLOCK = 1, /* the nest of a scope */
    NEST_TOP = 2,   /* the nest of a worker */
    NEST_SHIELD = 4,
    NEST_SUPERVISE = 8,
    NEST_MOVE_ON = 16,
    NEST_CANCELLED = 32,
    NEST_EXPIRED = 64, /* cancelled by its deadline */
    NEST_CUT = 128,    /* cancelled while only the block's children went on */
    NEST_OVER = 256,   /* the block has failed and is over: its children are cancelled */
};

static inline struct orr_task *task_of_sibling(struct orr_link *link)
{
    return container_of(link, struct orr_task, sibling);
}

/* The task that a nest belongs to; NULL for a worker's nest. */
static inline struct orr_task *nest_task(struct orr_nest *nest)
{
    if (nest->flags & NEST_BLOCK)
        return container_of(nest, struct orr_scope, nest)->task;
    return nest->flags & NEST_TOP ? NULL : container_of(nest, struct orr_task, own);
}

/* The next nest inwards of the same task; NULL for the innermost. */
static inline struct orr_nest *nest_inner(struct orr_nest *nest)
{
    struct orr_task *task = nest_task(nest);
    if (!task || !task->scope || nest == &task->scope->nest)
        return NULL;
    struct orr_scope *inner = nest->flags & NEST_BLOCK ? container_of(nest, struct orr_scope, nest)->inner
                                                       : task->scope->inner;
    return &inner->nest;
}

/* The next nest outwards; NULL for the task's own nest. */
static inline struct orr_nest *nest_outer(struct orr_nest *nest)
{
    if (!(nest->flags & NEST_BLOCK))
        return NULL;
    struct orr_scope *scope = container_of(nest, struct orr_scope, nest);
    return scope->outer ? &scope->outer->nest : &scope->task->own;
}

static inline struct orr_nest *task_innermost(struct orr_task *task)
{
    return task->scope ? &task->scope->nest : &task->own;
}

static_assert(offsetof(struct orr_scope, in_wheel) - offsetof(struct orr_scope, word) ==
                      offsetof(struct sleeper, entry.link) &&
                  offsetof(struct orr_scope, deadline) - offsetof(struct orr_scope, word) ==
                      offsetof(struct sleeper, entry.deadline),
              "a scope has room for a sleeper");

static inline struct sleeper *scope_sleeper(struct orr_scope *scope)
{
    return (struct sleeper *)&scope->word;
}

/* Gives up the deadline of a scope, if one is still to come. */
static inline void scope_forget_deadline(struct orr_scope *scope)
{
    if (scope->word)
        shard_wake_early(scope->task->worker->shard, scope_sleeper(scope));
}

/* The child whose failure a task failed with; NULL if it did not. */
static inline struct orr_task *task_cause(const struct orr_task *task)
{
    return task->by_child && task->own.failures ? task_of_sibling(task->own.failures) : NULL;
}

/*
 * The result of a DONE task, as orr_task_result() gives it, but the result does not count as seen.
 */
const struct orr_result *outcome_of(struct orr_task *task);

/* Puts a new task into a nest; in a cancelled nest the task is cancelled from the start. */
void scope_adopt(struct orr_nest *nest, struct orr_task *task);

/* The body of a task is over; its result is set. */
void scope_body_over(struct orr_task *task);

/* Ends the body of a live task by force. */
void scope_drop_body(struct orr_task *task);

/* Cancels a live task, and ends its body, which does not run.  The children are cancelled. */
void scope_end_body(struct orr_task *task, const char *reason);

/*
 * Ends an ENDING task if nothing keeps it any more, and then each ancestor for which that is true.
 */
void scope_settle(struct orr_task *task);

/* Tells the task of its oldest fresh failure, by -ECHILD. */
void scope_deliver(struct orr_task *task);

/*
 * Hands over the failures of a scope that is being left.  With `news`, the task is told of the
 * first, and the others are kept behind it; without, all are kept behind what the task was told
 * before.
 */
void scope_tell_all(struct orr_task *task, struct orr_nest *nest, bool news);

/*
 * Finds out what is cancelled and what has failed around a live task, and interrupts the task if
 * that is new.
 */
void scope_refresh(struct orr_task *task);

/* Cancels what is inside a nest: the block or body, then the children. */
void scope_cancel(struct orr_nest *nest, const char *reason);

/*
 * Cancels the children of a nest alone, once, and those that are still to come, because something
 * has failed.
 */
void scope_end_children(struct orr_nest *nest, const char *reason);

/* Why what is inside a nest is cancelled; NULL if it is not. */
const char *scope_reason(struct orr_nest *nest);

/* The task's result was seen: its failure goes no further. */
void scope_observe(struct orr_task *task);

/* One waiter of a task has looked at its result, or will never look. */
void scope_unclaim(struct orr_task *task);

/* Moves a task that is not DONE to the top: it has no parent any more. */
void scope_detach(struct orr_task *task);

/*
 * Takes the failure of a DONE task away from a parent that has not been told.  False if there is
 * none to take.
 */
bool scope_disown_failure(struct orr_task *task);

/* Gives up all references when the worker ends: nobody is left to use them. */
void scope_forget_references(struct worker *worker);

/*
 * Calls `each` for the children in a nest, oldest first, until it answers false.  False in that
 * case.
 */
bool scope_each_child(const struct orr_nest *nest, bool (*each)(void *data, struct orr_task *task), void *data);

/*
 * Walks over all tasks in a nest and below, each before its children, siblings in order.  `into`:
 * whether the walk goes on below `task`, or past it.  With `shields`, shielded tasks are left out.
 */
struct orr_task *scope_walk_first(struct orr_nest *top, bool shields);
struct orr_task *scope_walk_next(struct orr_nest *top, struct orr_task *task, bool into, bool shields);

#endif
