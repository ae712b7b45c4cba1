/*
 * Spawning: a push on the thread's own worker, a letter to another.  A letter counts against the
 * receiver's limit from the moment it is sent.  So a sender hears at once that a worker is full,
 * and a spawn that was accepted is let in.
 */
#include "exec/spawn.h"

#include "exec/runtime.h"
#include "exec/scope.h"

#include <errno.h>
#include <string.h>

struct spawn_letter {
    struct mail mail;
    struct orr_spawn what;
    size_t size; /* bytes of the whole letter */
    char name[];
};

static void spawn_arrives(struct worker *worker, struct mail *mail)
{
    struct spawn_letter *letter = (struct spawn_letter *)mail; /* its first member */
    struct orr_spawn what = letter->what;
    worker->spawns_by_letter++;
    struct orr_task *task;
    int error = worker->phase == WORKER_CLOSING ? -ESHUTDOWN
                                                : task_new(&worker->tasks, &worker->shares.own, &what, &task);
    alloc_free(&worker->alloc, letter, letter->size);
    /*
     * After the task is counted as live: a sender counts it as one or the other.  Pairs with
     * spawn_by_letter().
     */
    atomic_fetch_sub_explicit(&worker->remote.expected_spawns, 1, memory_order_release);
    if (!error) {
        scope_adopt(&worker->top, task);
        task->own.flags |= what.supervise ? NEST_SUPERVISE : 0;
        worker_ready(worker, task);
        return;
    }
    if (worker->phase != WORKER_CLOSING)
        log_line(&worker->log, ORR_LOG_ERROR, "worker %u dropped a task sent to it: %s", worker->number,
                 error == -ENOMEM ? "out of memory" : "its table is full");
    if (what.drop)
        what.drop(what.data);
}

static int spawn_by_letter(struct worker *worker, const struct orr_spawn *what)
{
    struct orr_runtime *rt = worker->runtime;
    int error = -EAGAIN;
    uint64_t before = atomic_fetch_add_explicit(&worker->remote.expected_spawns, 1, memory_order_acquire);
    if (before + counter_read(&worker->tasks.live) >= worker->tasks.limit)
        goto unexpected;
    error = -ENOMEM;
    size_t name_size = what->name ? strlen(what->name) + 1 : 0;
    size_t size = sizeof(struct spawn_letter) + name_size;
    struct spawn_letter *letter = alloc_new(&worker->alloc, size);
    if (!letter)
        goto unexpected;
    *letter = (struct spawn_letter){ .mail.arrive = spawn_arrives, .what = *what, .size = size };
    if (what->name)
        letter->what.name = memcpy(letter->name, what->name, name_size);
    runtime_expect_spawn(rt);
    if (worker_post(worker, &letter->mail))
        return 0;
    runtime_finish_spawns(rt, 1);
    error = -ESHUTDOWN;
    alloc_free(&worker->alloc, letter, size);
unexpected:
    atomic_fetch_sub_explicit(&worker->remote.expected_spawns, 1, memory_order_relaxed);
    return error;
}

/* Where a new task belongs: under the task that is being polled, unless `what` says otherwise. */
static int choose_nest(struct worker *worker, const struct orr_spawn *what, struct orr_nest **nest,
                       struct share **share)
{
    struct orr_task *parent = what->detached ? NULL : what->parent ? what->parent : worker->polling;
    if (parent && (parent->life == TASK_DONE || parent->life == TASK_FREE))
        return -ESRCH;
    *nest = parent ? task_innermost(parent) : &worker->top;
    *share = parent ? parent->share : &worker->shares.own;
    return 0;
}

/* Makes a task in the parent's share, not yet queued. */
static int make(struct worker *worker, const struct orr_spawn *what, struct orr_task **out)
{
    struct orr_nest *nest;
    struct share *share;
    uint64_t expected = atomic_load_explicit(&worker->remote.expected_spawns, memory_order_relaxed);
    int error = choose_nest(worker, what, &nest, &share);
    if (error)
        return error;
    if (expected + counter_read(&worker->tasks.live) >= worker->tasks.limit)
        return -EAGAIN;
    error = task_new(&worker->tasks, share, what, out);
    if (error)
        return error;
    scope_adopt(nest, *out);
    (*out)->own.flags |= what->supervise ? NEST_SUPERVISE : 0;
    return 0;
}

int spawn_unqueued(struct worker *worker, struct share *share, const struct orr_spawn *what, struct orr_task **out)
{
    if (runtime_stopping(worker->runtime) && worker->phase != WORKER_GRACE)
        return -ESHUTDOWN;
    int error = make(worker, what, out);
    if (!error)
        (*out)->share = share;
    return error;
}

int spawn_for(struct worker *worker, struct share *share, const struct orr_spawn *what, struct orr_task **out)
{
    struct orr_task *task;
    if (runtime_stopping(worker->runtime) && !(worker->phase == WORKER_GRACE && worker->polling))
        return -ESHUTDOWN;
    int error = make(worker, what, &task);
    if (error)
        return error;
    task->share = share;
    worker_ready(worker, task);
    *out = task;
    return 0;
}

static int spawn_here(struct worker *worker, const struct orr_spawn *what)
{
    struct orr_task *task;
    int error = make(worker, what, &task);
    if (error)
        return error;
    worker_ready(worker, task);
    if (what->waker)
        *what->waker = orr_task_waker(task);
    if (what->task)
        *what->task = orr_task_ref(task);
    return 0;
}

int orr_spawn(struct orr_runtime *rt, const struct orr_spawn *what)
{
    if (!runtime_valid(rt) || !what || !what->poll || what->worker > rt->worker_count ||
        (what->parent && what->detached))
        return -EINVAL;
    struct worker *here = worker_current;
    bool own = here && here->runtime == rt && (what->worker == ORR_HERE || what->worker == here->number);
    if (runtime_stopping(rt) && !(own && here->phase == WORKER_GRACE && here->polling))
        return -ESHUTDOWN;
    if (own && (!what->parent || what->parent->worker == here))
        return spawn_here(here, what);
    if (what->waker || what->task || what->parent)
        return -EXDEV;
    return spawn_by_letter(runtime_worker(rt, what->worker == ORR_HERE ? 1 : what->worker), what);
}
