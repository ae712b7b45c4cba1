#include "exec/scope.h"

#include "exec/observer.h"
#include "exec/tasks.h"
#include "exec/wait.h"

/* --- The walk --------------------------------------------------------------------------------- */

/* The first child in this nest, or in the nests inside it. */
static struct orr_task *first_from(struct orr_nest *nest, bool shields)
{
    for (; nest; nest = nest_inner(nest)) {
        if (nest->children)
            return task_of_sibling(nest->children);
        struct orr_nest *inner = nest_inner(nest);
        if (shields && inner && inner->flags & NEST_SHIELD)
            break;
    }
    return NULL;
}

static struct orr_task *first_inside(struct orr_nest *nest, bool shields)
{
    struct orr_nest *inner = nest_inner(nest);
    return !inner || (shields && inner->flags & NEST_SHIELD) ? NULL : first_from(inner, shields);
}

struct orr_task *scope_walk_first(struct orr_nest *top, bool shields)
{
    return first_from(top, shields);
}

struct orr_task *scope_walk_next(struct orr_nest *top, struct orr_task *task, bool into, bool shields)
{
    struct orr_task *next = into ? first_from(&task->own, shields) : NULL;
    struct orr_task *end = nest_task(top);
    while (!next) {
        struct orr_nest *nest = task->parent;
        struct orr_link *sibling = ring_next(nest->children, &task->sibling);
        next = sibling ? task_of_sibling(sibling) : first_inside(nest, shields);
        if (next)
            break;
        task = nest_task(nest);
        if (!task || task == end)
            return NULL;
    }
    return next;
}

bool scope_each_child(const struct orr_nest *nest, bool (*each)(void *data, struct orr_task *task), void *data)
{
    for (struct orr_link *link = nest->children; link; link = ring_next(nest->children, link))
        if (!each(data, task_of_sibling(link)))
            return false;
    return true;
}

/* --- Down: cancellation ----------------------------------------------------------------------- */

static bool has_fresh(const struct orr_nest *nest)
{
    return nest->failures && task_of_sibling(nest->failures->prev)->failure == FAILURE_FRESH;
}

const char *scope_reason(struct orr_nest *nest)
{
    for (; nest; nest = nest->flags & NEST_SHIELD ? NULL : nest_outer(nest))
        if (nest->flags & NEST_CANCELLED)
            return nest->reason;
    return NULL;
}

/* Asks for all I/O of a task to be given up. */
static void cancel_ios(struct orr_task *task)
{
    for (struct orr_link *link = task->ios; link; link = ring_next(task->ios, link))
        reactor_cancel(task->worker->reactor, container_of(link, struct orr_io, in_task));
}

/* `by_failure`: the task goes before ready ones. */
static void refresh(struct orr_task *task, bool by_failure)
{
    if (task->life != TASK_LIVE)
        return;
    bool failed = false;
    for (struct orr_nest *nest = task_innermost(task); nest && !failed; nest = nest_outer(nest)) {
        failed = has_fresh(nest) && !(nest->flags & NEST_SUPERVISE);
        if (nest->flags & NEST_SHIELD)
            break;
    }
    bool was_cancelled = task->cancelled, had_failed = task->child_failed;
    task->cancelled = scope_reason(task_innermost(task));
    task->child_failed = failed;
    if (task->cancelled && !was_cancelled) {
        cancel_ios(task);
        waits_interrupt(task, by_failure);
    } else if (failed && !had_failed) {
        worker_ready_interrupted(task->worker, task);
    }
}

void scope_refresh(struct orr_task *task)
{
    refresh(task, false);
}

/* False if it was marked already: then the first reason stays. */
static bool mark_cancelled(struct orr_nest *nest, const char *reason)
{
    if (nest->flags & NEST_CANCELLED)
        return false;
    nest->flags |= NEST_CANCELLED;
    nest->reason = reason;
    return true;
}

/* False if the task was cancelled already, and all below it. */
static bool cancel_one(struct orr_task *task, const char *reason, bool by_failure)
{
    if (!mark_cancelled(&task->own, reason))
        return false;
    if (task->life == TASK_ENDING && !task->settled && !task->failed && task->children)
        task->cut = true;
    refresh(task, by_failure);
    return true;
}

/* Cancels the children of a nest, and all below them. */
static void cancel_below(struct orr_nest *nest, const char *reason, bool by_failure)
{
    struct orr_task *task = scope_walk_first(nest, true);
    while (task)
        task = scope_walk_next(nest, task, cancel_one(task, reason, by_failure), true);
}

void scope_end_children(struct orr_nest *nest, const char *reason)
{
    if (nest->flags & (NEST_OVER | NEST_CANCELLED))
        return;
    nest->flags |= NEST_OVER;
    nest->reason = reason;
    cancel_below(nest, reason, true);
}

void scope_cancel(struct orr_nest *nest, const char *reason)
{
    struct orr_task *task = nest_task(nest);
    reason = reason ? reason : "cancelled";
    bool body = task && nest == &task->own;
    if (!(body ? cancel_one(task, reason, false) : mark_cancelled(nest, reason)))
        return; /* all below is cancelled, too */
    if (task && !body)
        scope_refresh(task);
    cancel_below(nest, reason, false);
}

void scope_adopt(struct orr_nest *nest, struct orr_task *task)
{
    struct orr_task *parent = nest_task(nest);
    bool known = parent && parent->life == TASK_LIVE && nest == task_innermost(parent) && !parent->cancelled;
    const char *reason = nest->flags & NEST_OVER ? nest->reason : known ? NULL : scope_reason(nest);
    task->parent = nest;
    task->references++;
    ring_append(&nest->children, &task->sibling);
    if (parent) {
        parent->children++;
        task->depth = parent->depth + 1;
    }
    if (reason)
        task->cancelled = mark_cancelled(&task->own, reason);
}

/* --- Up: failure ------------------------------------------------------------------------------ */

/* Takes a failure out of its nest.  The caller owns the reference now. */
static void failure_take(struct orr_task *task)
{
    assert(task->parent);
    ring_remove(&task->parent->failures, &task->sibling);
    task->failure = FAILURE_NONE;
    task->parent = NULL;
}

static void failure_put(struct orr_nest *nest, struct orr_task *task, enum failure state)
{
    ring_append(&nest->failures, &task->sibling);
    task->failure = state;
    task->parent = nest;
}

/* Drops the failures that a body was told of and went on after. */
static void forget_seen(struct orr_nest *nest)
{
    while (nest->failures && task_of_sibling(nest->failures)->failure == FAILURE_SEEN) {
        struct orr_task *task = task_of_sibling(nest->failures);
        failure_take(task);
        orr_task_unref(task);
    }
}

/* The oldest fresh failure of a nest; NULL if there is none. */
static struct orr_task *oldest_fresh(const struct orr_nest *nest)
{
    if (!has_fresh(nest))
        return NULL;
    struct orr_link *link = nest->failures;
    while (task_of_sibling(link)->failure != FAILURE_FRESH)
        link = link->next;
    return task_of_sibling(link);
}

static struct orr_task *older_of(struct orr_task *one, struct orr_task *other)
{
    if (!one || !other)
        return one ? one : other;
    return (int32_t)(one->failed_as - other->failed_as) < 0 ? one : other;
}

void scope_deliver(struct orr_task *task)
{
    struct orr_task *child = NULL;
    for (struct orr_nest *nest = task_innermost(task); nest; nest = nest_outer(nest)) {
        if (!(nest->flags & NEST_SUPERVISE))
            child = older_of(child, oldest_fresh(nest));
        if (nest->flags & NEST_SHIELD)
            break;
    }
    assert(child);
    failure_take(child);
    child->observed = true;
    forget_seen(&task->own);
    ring_prepend(&task->own.failures, &child->sibling);
    child->failure = FAILURE_SEEN;
    child->parent = &task->own;
    scope_refresh(task);
}

void scope_tell_all(struct orr_task *task, struct orr_nest *nest, bool news)
{
    struct orr_nest *own = &task->own;
    struct orr_link *told = NULL;
    if (news)
        forget_seen(own);
    while (own->failures && task_of_sibling(own->failures)->failure == FAILURE_SEEN)
        ring_append(&told, ring_pop(&own->failures));
    while (nest->failures) {
        struct orr_task *child = task_of_sibling(ring_pop(&nest->failures));
        child->observed = true;
        child->failure = FAILURE_SEEN;
        child->parent = own;
        ring_append(&told, &child->sibling);
    }
    ring_join(&told, &own->failures); /* before the fresh ones */
    own->failures = told;
}

/* The task needs its children no more, nor any that are still to come. */
static void cancel_children(struct orr_task *task, const char *reason)
{
    mark_cancelled(&task->own, reason);
    cancel_below(&task->own, reason, task->failed);
}

/* An ENDING task without an error of its own fails with the first failure of its children. */
static bool may_fail_by_child(const struct orr_task *task)
{
    return !task->failed && !task->settled && !task->cut && task->result.error != -ECANCELED &&
           !(task->own.flags & NEST_SUPERVISE);
}

/* A failed task that nobody awaits is handed to its parent. */
static void fail_up(struct orr_task *task, struct orr_nest *nest)
{
    static const char reason[] = "a sibling has failed";
    struct orr_task *parent = nest_task(nest);
    if (parent->life == TASK_ENDING)
        nest = &parent->own; /* nobody asks a scope that the body never left */
    failure_put(nest, task, FAILURE_FRESH);
    task->failed_as = task->worker->failures++;
    task->references++;
    if (parent->life == TASK_ENDING) {
        if (may_fail_by_child(parent)) {
            parent->failed = parent->by_child = true;
            cancel_children(parent, reason);
        }
        return;
    }
    if (nest->flags & NEST_BLOCK && container_of(nest, struct orr_scope, nest)->leaving &&
        !(nest->flags & NEST_SUPERVISE))
        scope_end_children(nest, reason);
    scope_refresh(parent);
}

/*
 * A waiter of a failed task has been told, and has not looked yet.  If it never looks, the parent
 * must hear of the failure after all; so the failure is kept until then.
 */
static void claim_up(struct orr_task *task, struct orr_task *parent, struct orr_nest *nest)
{
    task->failure = FAILURE_CLAIMED;
    task->parent = &orr_task_ref(parent)->own;
    /* Only compared, never followed: the nest may be gone by then, or another be at its address. */
    task->sibling.next = (struct orr_link *)nest;
    task->failed_as = nest->serial;
}

static struct orr_task *claim_back(struct orr_task *task)
{
    struct orr_task *parent = nest_task(task->parent);
    task->failure = FAILURE_NONE;
    task->parent = NULL;
    return parent;
}

void scope_observe(struct orr_task *task)
{
    task->observed = true;
    scope_disown_failure(task);
}

void scope_unclaim(struct orr_task *task)
{
    if (--task->claims || task->failure != FAILURE_CLAIMED)
        return;
    struct orr_task *parent = claim_back(task);
    struct orr_nest *nest = task_innermost(parent);
    while ((nest != (struct orr_nest *)task->sibling.next || nest->serial != task->failed_as) && nest != &parent->own)
        nest = nest_outer(nest);
    if (parent->life != TASK_DONE)
        fail_up(task, nest);
    orr_task_unref(parent);
}

/* Ends the wait for a scope that is being left, if its last child is gone. */
static void tell_leaver(struct orr_nest *nest)
{
    if (!(nest->flags & NEST_BLOCK) || nest->children)
        return;
    struct orr_scope *scope = container_of(nest, struct orr_scope, nest);
    if (scope->leaving)
        wait_grant(scope->leaving);
}

bool scope_disown_failure(struct orr_task *task)
{
    if (task->failure == FAILURE_CLAIMED) {
        orr_task_unref(claim_back(task));
        return true;
    }
    struct orr_task *parent = task->failure == FAILURE_FRESH ? nest_task(task->parent) : NULL;
    if (!parent || parent->life == TASK_DONE || parent->by_child)
        return false; /* the failure is the parent's own already, or kept with the parent */
    failure_take(task);
    scope_refresh(parent);
    orr_task_unref(task);
    return true;
}

void scope_detach(struct orr_task *task)
{
    struct orr_nest *nest = task->parent;
    struct orr_task *parent = nest_task(nest);
    if (!parent)
        return;
    ring_remove(&nest->children, &task->sibling);
    parent->children--;
    task->parent = &task->worker->top;
    ring_append(&task->worker->top.children, &task->sibling);
    tell_leaver(nest);
    scope_settle(parent);
}

/* --- The end ---------------------------------------------------------------------------------- */

/* Moves the failures of scopes that the body has not left to the task's own nest, oldest first. */
static void gather_failures(struct orr_task *task)
{
    if (!task->scope)
        return;
    struct orr_link *all = NULL;
    for (;;) {
        struct orr_task *oldest = NULL;
        for (struct orr_nest *nest = task_innermost(task); nest; nest = nest_outer(nest))
            oldest = older_of(oldest, oldest_fresh(nest));
        if (!oldest)
            break;
        failure_take(oldest);
        ring_append(&all, &oldest->sibling);
    }
    while (all)
        failure_put(&task->own, task_of_sibling(ring_pop(&all)), FAILURE_FRESH);
}

/* Decides whether the task has failed, from its body and the failures so far. */
static void judge(struct orr_task *task)
{
    struct orr_nest *own = &task->own;
    int error = task->result.error;
    bool told = own->failures && task_of_sibling(own->failures)->failure == FAILURE_SEEN;
    if (task->settled) {
        task->failed = error;
    } else if (error == -ECHILD && told) {
        task->failed = task->by_child = true;
    } else if (error == -ECANCELED && own->flags & NEST_CANCELLED) {
        return; /* ended on purpose: what failed meanwhile is kept, and fails nobody */
    } else if (has_fresh(own) && !(own->flags & NEST_SUPERVISE)) {
        forget_seen(own);
        task->failed = task->by_child = true; /* the child's failure came first */
    } else if (error) {
        task->failed = true;
    }
}

/* The body is over: nothing waits for it, no waker names it, and its I/O is being cancelled. */
static void retire(struct orr_task *task)
{
    for (struct orr_scope *scope = task->scope; scope; scope = scope->outer)
        scope_forget_deadline(scope);
    if (task->waits)
        waits_abandon(task);
    task_retire(&task->worker->tasks, task);
    if (task->ios) {
        task->worker->tasks.io_ending++;
        cancel_ios(task);
    }
}

void scope_body_over(struct orr_task *task)
{
    retire(task);
    gather_failures(task);
    judge(task);
    if (task->settled)
        cancel_children(task, "completed");
    else if (task->failed)
        cancel_children(task, "the parent has failed");
    else if (task->result.error)
        cancel_children(task, task->own.reason);
    else
        forget_seen(&task->own);
    scope_settle(task);
}

void scope_end_body(struct orr_task *task, const char *reason)
{
    mark_cancelled(&task->own, reason);
    if (!task->settled)
        task->result.error = -ECANCELED;
    scope_body_over(task);
}

void scope_drop_body(struct orr_task *task)
{
    scope_end_body(task, "dropped");
}

const struct orr_result *outcome_of(struct orr_task *task)
{
    while (task->own_error)
        task = task_cause(task);
    return &task->result;
}

static void drop_value(struct orr_task *task)
{
    struct orr_result result = task->result;
    task->result = (struct orr_result){ .error = result.error };
    if (result.drop)
        result.drop(result.value);
}

/* Tells waiters and observers, in the order in which they came. */
static void tell_watchers(struct orr_task *task, bool top)
{
    while (task->watchers) {
        struct orr_wait *wait = container_of(ring_pop(&task->watchers), struct orr_wait, in_source);
        if (wait->owner) {
            (task->failed ? wait_grant_failure : wait_grant)(wait);
            continue;
        }
        struct orr_observer *observer = container_of(wait, struct orr_observer, wait);
        wait->state = WAIT_IDLE;
        task->observed |= top && wait->kind == &observer_kind;
        observer->done(task, observer->data);
    }
}

/*
 * The task ends with the failure of its child, unless it has an error of its own: then outcome_of()
 * finds the child's.
 */
static void take_over_result(struct orr_task *task)
{
    task->own_error = task->result.error && task->result.error != -ECHILD;
    if (task->own_error)
        return;
    drop_value(task);
    task->result = *outcome_of(task_of_sibling(task->own.failures));
    task->result.drop = NULL; /* the value is the child's, which is kept as long */
}

static void conclude(struct orr_task *task)
{
    if (task->cut && !task->failed && !task->settled) {
        drop_value(task);
        task->result.error = -ECANCELED;
    }
    if (task->own.failures && !task->failed && !task->settled && !task->result.error)
        task->failed = task->by_child = true; /* a supervisor fails only at its end */
    if (task->by_child)
        take_over_result(task);
}

/* After the watchers were told, the parent must not be touched: they may end it. */
static void complete(struct orr_task *task)
{
    struct orr_nest *nest = task->parent;
    struct orr_task *parent = nest_task(nest);
    conclude(task);
    task_finish(&task->worker->tasks, task);
    ring_remove(&nest->children, &task->sibling);
    task->parent = NULL;
    if (parent) {
        parent->children--;
        if (task->failed && !task->observed && task->claims)
            claim_up(task, parent, nest);
        else if (task->failed && !task->observed)
            fail_up(task, nest);
        tell_leaver(nest);
    }
    tell_watchers(task, !parent);
    orr_task_unref(task);
}

void scope_settle(struct orr_task *task)
{
    while (task && task->life == TASK_ENDING && !task->children && !task->ios) {
        struct orr_task *parent = orr_task_ref(nest_task(task->parent));
        complete(task);
        bool gone = parent && parent->references == 1;
        orr_task_unref(parent);
        task = gone ? NULL : parent;
    }
}

/* --- References ------------------------------------------------------------------------------- */

struct orr_task *orr_task_ref(struct orr_task *task)
{
    if (task)
        task->references++;
    return task;
}

/* Whether the task has an error that nobody has seen, and that no nest keeps. */
static bool unseen(const struct orr_task *task)
{
    return !task->observed && task->failure == FAILURE_NONE && (task->failed || task->own.failures);
}

/*
 * Frees tasks whose last reference is gone.  They are linked by `sibling`, so a long chain of
 * causes is freed in a loop.
 */
static void release(struct orr_task *task)
{
    struct worker *worker = task->worker;
    struct orr_link *gone = NULL;
    ring_append(&gone, &task->sibling);
    while (gone) {
        task = task_of_sibling(ring_pop(&gone));
        task->references = 1; /* for the sink to use */
        if (unseen(task))
            worker->report_unseen(task);
        if (task->references > 1) { /* the sink keeps it */
            task->references--;
            continue;
        }
        drop_value(task);
        while (task->own.failures) {
            struct orr_task *child = task_of_sibling(task->own.failures);
            failure_take(child);
            child->observed = true; /* its parent was seen, or the sink was told */
            if (!--child->references)
                ring_append(&gone, &child->sibling);
        }
        if (!--task->references)
            task_free(&worker->tasks, task);
    }
}

void orr_task_unref(struct orr_task *task)
{
    if (!task || --task->references)
        return;
    if (!task->failed && !task->own.failures && !task->result.drop)
        task_free(&task->worker->tasks, task); /* nothing that anybody must be told */
    else
        release(task);
}

void scope_forget_references(struct worker *worker)
{
    for (uint32_t index = 0; index < worker->tasks.used; index++)
        tasks_at(&worker->tasks, index)->references = 1;
    for (uint32_t index = 0; index < worker->tasks.used; index++) {
        struct orr_task *task = tasks_at(&worker->tasks, index);
        if (task->life == TASK_DONE && task->failure == FAILURE_NONE)
            orr_task_unref(task);
    }
}
