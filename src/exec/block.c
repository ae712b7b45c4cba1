/*
 * Scopes: blocks of a body that have children, a deadline or a shield of their own (see scope.h).
 *
 * A scope is left when its block is over and its children are done.  That wait cannot be
 * interrupted, because nothing may outlive its scope; an interruption shortens it by cancelling the
 * children.  A cancellation of the scope itself ends here: the block was cancelled, not the task.
 */
#include "exec/block.h"

#include "base/clear.h"
#include "base/clock.h"
#include "exec/await.h"
#include "exec/scope.h"

void scope_expire(struct sleeper *sleeper)
{
    struct orr_scope *scope = (struct orr_scope *)((char *)sleeper - offsetof(struct orr_scope, word));
    if (!(scope->nest.flags & NEST_CANCELLED))
        scope->nest.flags |= NEST_EXPIRED;
    orr_scope_cancel(scope, "timeout");
}

int orr_scope_enter(struct orr_task *task, struct orr_scope *scope, const struct orr_scope_options *options)
{
    static const struct orr_scope_options none;
    options = options ? options : &none;
    if (!task || !scope)
        return -EINVAL;
    if (!wait_allowed(task))
        return -EPERM;
    if (scope->task)
        return -EBUSY;
    struct orr_scope *outer = task->scope;
    uint32_t flags = NEST_BLOCK | (options->shield ? NEST_SHIELD : 0) | (options->supervise ? NEST_SUPERVISE : 0) |
                     (options->move_on ? NEST_MOVE_ON : 0);
    clear_bytes(scope, sizeof *scope);
    scope->nest.flags = flags;
    scope->task = task;
    scope->outer = outer;
    scope->nest.serial = ++task->worker->scopes;
    scope->inner = outer ? outer->inner : scope; /* the innermost leads to the outermost */
    if (outer)
        outer->inner = scope;
    task->scope = scope;
    if (options->shield)
        scope_refresh(task);
    if (options->timeout_ns) {
        struct worker *worker = task->worker;
        shard_sleep(worker->shard, scope_sleeper(scope), SLEEPER_OF_SCOPE,
                    clock_after(timers_now(worker->timers), options->timeout_ns));
    }
    return 0;
}

int orr_scope_cancel(struct orr_scope *scope, const char *reason)
{
    if (!scope || !scope->task)
        return -EINVAL;
    if (scope->task->worker != worker_current)
        return -EPERM;
    if (scope->leaving && scope->nest.children && !(scope->nest.flags & NEST_CANCELLED))
        scope->nest.flags |= NEST_CUT;
    scope_cancel(&scope->nest, reason);
    return 0;
}

/* --- Leaving ---------------------------------------------------------------------------------- */

static bool has_failed(const struct orr_scope *scope)
{
    return scope->error || (scope->nest.failures && !(scope->nest.flags & NEST_SUPERVISE));
}

static void leave_withdraw(struct orr_wait *wait, bool granted)
{
    (void)granted;
    ((struct orr_scope *)wait->source)->leaving = NULL;
}

/* Whether an interruption from outside the scope ends its children. */
static bool is_cut(const struct orr_scope *scope)
{
    return scope->nest.children && (scope->task->cancelled || scope->task->child_failed);
}

/* The children have been cancelled with the task, or are now.  The task still waits for them. */
static void leave_interrupt(struct orr_wait *wait)
{
    struct orr_scope *scope = wait->source;
    if (!is_cut(scope))
        return;
    if (!has_failed(scope))
        scope->nest.flags |= NEST_CUT;
    if (!scope->task->cancelled)
        scope_end_children(&scope->nest, "the parent is interrupted");
}

static bool leave_awaited(const struct orr_wait *wait, task_each_fn *each, void *data)
{
    return scope_each_child(&((struct orr_scope *)wait->source)->nest, each, data);
}

static const struct orr_wait_kind leave_kind = {
    .name = "its children",
    .ends_by_itself = true,
    .withdraw = leave_withdraw,
    .interrupt = leave_interrupt,
    .awaited = leave_awaited,
};

/*
 * The block is over: cancels the children that are left, if the block has failed or is interrupted.
 */
static void look_at_children(struct orr_scope *scope)
{
    if (has_failed(scope)) {
        scope_end_children(&scope->nest, "the scope has failed");
    } else if (is_cut(scope)) {
        scope->nest.flags |= NEST_CUT;
        scope_end_children(&scope->nest, "the parent is interrupted");
    }
}

/* Takes the scope out of its task. */
static void unlink_scope(struct orr_scope *scope)
{
    struct orr_task *task = scope->task;
    scope_forget_deadline(scope);
    /* This scope is the innermost: its `inner` is the outermost. */
    if (scope->outer)
        scope->outer->inner = scope->inner;
    task->scope = scope->outer;
    scope->task = NULL;
}

/* The answer of a scope whose children are done. */
static int verdict(struct orr_task *task, const struct orr_scope *scope, bool child_failed)
{
    int error = scope->error;
    uint32_t flags = scope->nest.flags;
    bool own = flags & NEST_CANCELLED && !scope_reason(task_innermost(task));
    if (!error && flags & NEST_CUT)
        error = -ECANCELED;
    if (error == -ECANCELED && own)
        error = flags & NEST_EXPIRED && !(flags & NEST_MOVE_ON) ? -ETIMEDOUT : 0;
    return !error && child_failed ? -ECHILD : error;
}

/* Leaves the scope.  Failures in it that were not seen are told now, or kept beside the error. */
static int leave(struct orr_task *task, struct orr_scope *scope)
{
    bool quiet = !(scope->nest.flags & (NEST_SHIELD | NEST_CANCELLED)) && !scope->nest.failures;
    unlink_scope(scope);
    int answer = verdict(task, scope, scope->nest.failures);
    if (quiet && !answer)
        return 0; /* nothing has changed for the task outside this scope */
    scope_refresh(task);
    bool cut = answer == -ECANCELED && !scope->error && !task->cancelled; /* by a failure outside */
    int outside = cut ? wait_interruption(task) : 0;
    if (cut)
        answer = outside || scope->nest.failures ? -ECHILD : 0;
    scope_tell_all(task, &scope->nest, answer == -ECHILD && !outside && scope->error != -ECHILD);
    return answer;
}

int orr_scope_leave(struct orr_task *task, struct orr_wait *wait, struct orr_scope *scope, int error)
{
    if (!task || !wait || !scope || task->scope != scope)
        return -EINVAL;
    if (!wait_allowed(task))
        return -EPERM;
    if (wait->state != WAIT_IDLE && (wait->source != scope || wait->kind != &leave_kind))
        return -EBUSY;
    if (wait->state == WAIT_WAITING) {
        leave_interrupt(wait);
        return -EAGAIN;
    }
    if (wait->state == WAIT_GRANTED)
        wait_pick_up(wait);
    else
        scope->error = error;
    if (!scope->nest.children)
        return leave(task, scope);
    look_at_children(scope);
    wait->grouped = false;
    scope->leaving = wait;
    return wait_begin(task, wait, scope, &leave_kind);
}
