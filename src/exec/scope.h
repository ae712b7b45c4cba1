/*
 * The tree of tasks: who owns whom, what goes up and what comes down.
 *
 * Children hang in a *nest*.  Every task has one of its own, every scope that a body has entered is
 * another, and each worker has one for those at the top.  A task's scopes are nested: `task->scope`
 * is the innermost, `outer` leads out to the task's own nest, `inner` leads in, and from the
 * innermost round to the outermost.  Since new children go to the innermost, the children of a task
 * are in the order of their creation when its nests are gone through from the outside in.
 *
 * Invariants
 *
 *   - A child is in its parent's nest until it is DONE, and `children` counts them.  A task is DONE
 *     only when it counts none.  So nothing outlives what it may borrow from: destructors run from
 *     the leaves up.
 *   - The tree holds a reference to every task in it, and a nest one to every failure in it.
 *   - A nest is cancelled for good.  A task that is cancelled by its parent has its own nest
 *     cancelled; so the reason is found by looking outwards inside one task, up to a shield, and
 *     `task->cancelled` remembers what was found.
 *   - Of the failures of a nest, those SEEN come before those FRESH.
 *
 * A failed child is kept as it is, in its parent's failures, in the order of failing: so nothing is
 * allocated for an error, the value is one and the same all the way up, and the way it took can be
 * read off.  `by_child` says that the first of them is what the parent failed with.
 *
 * Nothing here recurses, and nothing looks at siblings: walks go by the links, and what ends a
 * hundred thousand ancestors does so in a loop.
 */
#ifndef ORR_EXEC_SCOPE_H
#define ORR_EXEC_SCOPE_H

#include "base/ring.h"
#include "exec/worker.h"

enum {
    NEST_BLOCK = 1, /* of a scope */
    NEST_TOP = 2,   /* of a worker */
    NEST_SHIELD = 4,
    NEST_SUPERVISE = 8,
    NEST_MOVE_ON = 16,
    NEST_CANCELLED = 32,
    NEST_EXPIRED = 64, /* cancelled by its deadline */
    NEST_CUT = 128,    /* cancelled when the block was over and its children were not */
    NEST_OVER = 256,   /* the block is over, and has failed: its children are cancelled */
};

static inline struct orr_task *task_of_sibling(struct orr_link *link)
{
    return container_of(link, struct orr_task, sibling);
}

/* The task that a nest belongs to; NULL for a worker's. */
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

/* The next nest outwards; NULL for the task's own. */
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

/* Gives up the deadline of a scope, if it has one that has not come. */
static inline void scope_forget_deadline(struct orr_scope *scope)
{
    if (scope->word)
        shard_wake_early(scope->task->worker->shard, scope_sleeper(scope));
}

/* The first of a task's failures, if it failed with that; NULL otherwise. */
static inline struct orr_task *task_cause(const struct orr_task *task)
{
    return task->by_child && task->own.failures ? task_of_sibling(task->own.failures) : NULL;
}

/*
 * The result of a DONE task, as orr_task_result() gives it, but the result does not count as seen.
 */
const struct orr_result *outcome_of(struct orr_task *task);

/* Puts a new task into a nest; under a cancelled one it is born cancelled. */
void scope_adopt(struct orr_nest *nest, struct orr_task *task);

/* The body of a task is over, with the result that it has been given. */
void scope_body_over(struct orr_task *task);

/* The same, by force. */
void scope_drop_body(struct orr_task *task);

/*
 * Ends an ENDING task if nothing keeps it any more, and then those above it for which that is true.
 */
void scope_settle(struct orr_task *task);

/* The oldest fresh failure is told to the task, by -ECHILD. */
void scope_deliver(struct orr_task *task);

/*
 * The failures of a scope that is being left: with `news`, the first is told to the task, and the
 * others are kept behind it; without, all are kept behind what it was told before.
 */
void scope_tell_all(struct orr_task *task, struct orr_nest *nest, bool news);

/*
 * Looks at what is cancelled and what has failed around a live task, and interrupts it if need be.
 */
void scope_refresh(struct orr_task *task);

/* Cancels what is inside a nest: the block or body, then the children. */
void scope_cancel(struct orr_nest *nest, const char *reason);

/*
 * The same for the children alone, once, and for those that are yet to come, because something has
 * failed.
 */
void scope_end_children(struct orr_nest *nest, const char *reason);

/* Why what is inside a nest is cancelled; NULL if it is not. */
const char *scope_reason(struct orr_nest *nest);

/*
 * Whoever awaited the task, or looks at it, knows what it has come to: its failure goes no further.
 */
void scope_observe(struct orr_task *task);

/* One of those who wait for a task, or have done so, has looked, or will not look. */
void scope_unclaim(struct orr_task *task);

/* Moves a task that is not DONE to the top, where it belongs to nobody. */
void scope_detach(struct orr_task *task);

/*
 * Takes the failure of a DONE task from a parent that has not been told.  False if there is none to
 * take.
 */
bool scope_disown_failure(struct orr_task *task);

/* Gives up what references hold when the worker ends: there is nobody left to use them. */
void scope_forget_references(struct worker *worker);

/* The children in a nest, oldest first, until `each` answers false; then the answer is false. */
bool scope_each_child(const struct orr_nest *nest, bool (*each)(void *data, struct orr_task *task), void *data);

/*
 * The walk over all tasks in a nest and below, each before its children, those in order.  `into`:
 * how to go on from `task`: into what is below it, or past that.  With `shields`, what is shielded
 * is left out.
 */
struct orr_task *scope_walk_first(struct orr_nest *top, bool shields);
struct orr_task *scope_walk_next(struct orr_nest *top, struct orr_task *task, bool into, bool shields);

#endif
