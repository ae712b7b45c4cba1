/*
 * The public functions on one task: finishing it from inside; its result, cancellation and
 * completion from outside; observing and awaiting it.  The worker's owner, except where the public
 * header says otherwise.
 */
#include "exec/await.h"
#include "exec/observer.h"
#include "exec/scope.h"
#include "exec/share.h"

#include <string.h>

static bool on_its_thread(const struct orr_task *task)
{
    return task->worker == worker_current;
}

/* --- From inside ------------------------------------------------------------------------------ */

static void log_late_failure(const struct orr_task *task, const struct orr_result *result)
{
    struct log log = log_for(&task->worker->log, task->share->name);
    log_line(&log, ORR_LOG_WARNING, "task %s failed after it had been completed: %s",
             task->name ? task->name : "(unnamed)", result->message ? result->message : strerror(-result->error));
}

enum orr_poll orr_task_finish(struct orr_task *task, struct orr_result result)
{
    if (!task || !wait_allowed(task)) {
        if (result.drop)
            result.drop(result.value);
        return ORR_DONE;
    }
    if (!task->settled) {
        struct orr_result before = task->result; /* set if the body finished twice in one poll */
        task->result = result;
        if (before.drop)
            before.drop(before.value);
        return ORR_DONE;
    }
    if (result.error && result.error != -ECANCELED)
        log_late_failure(task, &result);
    if (result.drop)
        result.drop(result.value);
    return ORR_DONE;
}

enum orr_poll orr_task_fail(struct orr_task *task, int error)
{
    return orr_task_finish(task, (struct orr_result){ .error = error });
}

/* --- Who it is -------------------------------------------------------------------------------- */

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

/* --- From outside ----------------------------------------------------------------------------- */

bool orr_task_done(const struct orr_task *task)
{
    return task && task->life == TASK_DONE;
}

const struct orr_result *orr_task_result(struct orr_task *task)
{
    if (!orr_task_done(task))
        return NULL;
    scope_observe(task);
    return outcome_of(task);
}

struct orr_task *orr_task_cause(const struct orr_task *task)
{
    return orr_task_done(task) ? task_cause(task) : NULL;
}

struct orr_task *orr_task_failed_child(const struct orr_task *task)
{
    if (!task || task->life != TASK_LIVE || !task->own.failures)
        return NULL;
    struct orr_task *first = task_of_sibling(task->own.failures);
    return first->failure == FAILURE_SEEN ? first : NULL;
}

/* The next failure after `task` in the tree of failures below `top`, its own failures first. */
static struct orr_task *next_failure(const struct orr_task *top, struct orr_task *task)
{
    if (task->own.failures)
        return task_of_sibling(task->own.failures);
    while (task != top) {
        struct orr_nest *nest = task->parent;
        struct orr_link *sibling = ring_next(nest->failures, &task->sibling);
        if (sibling)
            return task_of_sibling(sibling);
        task = nest_task(nest);
    }
    return NULL;
}

void orr_task_errors(struct orr_task *task,
                     void (*each)(void *data, struct orr_task *origin, const struct orr_result *result), void *data)
{
    if (!task || !each)
        return;
    for (struct orr_task *at = task; at; at = next_failure(task, at))
        if (at->failed && at->life == TASK_DONE && !at->by_child)
            each(data, at, &at->result);
    /* Behind all those: the errors of bodies that came after a child's failure. */
    for (struct orr_task *at = task; at; at = next_failure(task, at))
        if (at->own_error)
            each(data, at, &at->result);
}

int orr_task_complete(struct orr_task *task, struct orr_result result)
{
    if (!task)
        return -EINVAL;
    if (!on_its_thread(task))
        return -EPERM;
    if (task->life == TASK_DONE || task->settled || task->failed)
        return -EALREADY;
    struct orr_result before = task->result;
    task->result = result;
    task->settled = true;
    task->failed = task->life == TASK_ENDING && result.error;
    scope_cancel(&task->own, "completed");
    if (before.drop)
        before.drop(before.value);
    return 0;
}

int orr_task_cancel(struct orr_task *task, const char *reason)
{
    if (!task)
        return -EINVAL;
    if (!on_its_thread(task))
        return -EPERM;
    if (task->life == TASK_DONE)
        return -ESRCH;
    scope_cancel(&task->own, reason);
    return 0;
}

const char *orr_task_cancelled(const struct orr_task *task)
{
    return task && task->life != TASK_DONE ? scope_reason(task_innermost((struct orr_task *)task)) : NULL;
}

int orr_task_detach(struct orr_task *task)
{
    if (!task)
        return -EINVAL;
    if (!on_its_thread(task))
        return -EPERM;
    if (task->life == TASK_DONE)
        return scope_disown_failure(task) ? 0 : -ESRCH;
    scope_detach(task);
    return 0;
}

/* --- Observers -------------------------------------------------------------------------------- */

int orr_task_observe(struct orr_task *task, struct orr_observer *observer)
{
    if (!task || !observer || !observer->done)
        return -EINVAL;
    if (!on_its_thread(task))
        return -EPERM;
    if (observer->wait.state != WAIT_IDLE)
        return -EBUSY;
    if (task->life == TASK_DONE)
        observer->done(task, observer->data);
    else
        observe(task, observer, &observer_kind);
    return 0;
}

void orr_task_unobserve(struct orr_observer *observer)
{
    if (observer && observer->wait.state == WAIT_WAITING)
        unobserve(observer);
}

/* --- Awaiting --------------------------------------------------------------------------------- */

/* A waiter holds a reference to the task and a claim on its failure; both end here. */
static void await_over(struct orr_task *other)
{
    scope_unclaim(other);
    orr_task_unref(other);
}

static void await_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_task *other = wait->source;
    if (!granted)
        ring_remove(&other->watchers, &wait->in_source);
    await_over(other);
}

static bool await_awaited(const struct orr_wait *wait, task_each_fn *each, void *data)
{
    return each(data, wait->source);
}

static const struct orr_wait_kind await_kind = { .name = "a task",
                                                 .withdraw = await_withdraw,
                                                 .awaited = await_awaited };

/* Whether `other` is `task` or an ancestor, and so cannot be done before it. */
static bool is_above(const struct orr_task *other, struct orr_task *task)
{
    while (task && task != other && task->depth > other->depth)
        task = nest_task(task->parent);
    return task == other;
}

/*
 * Whether the task begins to await a failed child whose failure it has not been told of: then the
 * wait tells it of this failure, and of no other.
 */
static bool awaits_own_failure(const struct orr_task *task, const struct orr_wait *wait, const struct orr_task *other)
{
    return task && wait && other && wait->state == WAIT_IDLE && wait_allowed(task) && !task->cancelled &&
           other->failure == FAILURE_FRESH && nest_task(other->parent) == task;
}

int orr_task_await(struct orr_task *task, struct orr_wait *wait, struct orr_task *other)
{
    bool granted = wait && wait->state == WAIT_GRANTED;
    if (awaits_own_failure(task, wait, other)) {
        scope_observe(other);
        return wait_at_once(wait);
    }
    int answer = wait_poll(task, wait, other, &await_kind);
    if (answer == 0 && granted) {
        scope_observe(other);
        await_over(other);
    }
    if (answer != 1)
        return answer;
    if (!on_its_thread(other))
        return wait_refuse(wait, -EPERM);
    if (other->life == TASK_DONE) {
        scope_observe(other);
        return wait_at_once(wait);
    }
    if (is_above(other, task))
        return wait_refuse(wait, -EDEADLK);
    orr_task_ref(other)->claims++;
    return wait_in_line(task, wait, other, &await_kind, &other->watchers);
}
