/*
 * The door into exec for the layers above: src/lua, src/module and src/cli.
 *
 * A layer above touches no field of a task, a worker or a run queue.  It calls a function that says
 * what it wants: one of those below, one of spawn.h, await.h, scope.h, watch.h, grace.h, tree.h,
 * visit.h or shuffle.h, or one of the public API.  Of struct orr_runtime it may read `alloc` and
 * `log`, which never change.
 *
 * Exec knows nothing of the layers above.  It calls them by function pointer only:
 *
 *   - a task's poll function and destructor: see task_become();
 *   - `task_freed` of a worker, for each task that is freed: see worker_set_task_freed();
 *   - `on_close` of a pool thread, before its tasks are ended: see runtime_grow();
 *   - `free` of a runtime's extension, after all workers are closed: see runtime_extension();
 *   - idle work: see worker_add_idle_work().
 *
 * Every function here is for the thread that drives the worker (`worker_current`), unless its
 * comment says *any thread*.  None of them blocks; those that allocate or fail say so.
 */
#ifndef ORR_EXEC_EXTEND_H
#define ORR_EXEC_EXTEND_H

#include "exec/await.h"
#include "exec/drive.h"
#include "exec/open.h"
#include "exec/poll.h"
#include "exec/rest.h"
#include "exec/scope.h"
#include "exec/sink.h"
#include "exec/turn.h"
#include "exec/visit.h"

#include <string.h>

/* --- What a task is doing --------------------------------------------------------------------- */

/* Whether the task's body is not over.  False for a free slot, too. */
static inline bool task_is_live(const struct orr_task *task)
{
    return task->life == TASK_LIVE;
}

/* Whether the task, or a child of it, goes on.  False for a free slot, too. */
static inline bool task_is_unfinished(const struct orr_task *task)
{
    return task->life == TASK_LIVE || task->life == TASK_ENDING;
}

/* Whether the task is being polled, or polls another task inside its own poll. */
static inline bool task_is_running(const struct orr_task *task)
{
    return task->running;
}

/*
 * Whether anything that the runtime knows of will poll the task again: the run queue, a wait, or
 * I/O.
 */
static inline bool task_can_go_on(const struct orr_task *task)
{
    return task->queued || task->interrupted || task->waits || task->ios;
}

/* Whether the task's next wait answers -ECANCELED.  False inside a shield. */
static inline bool task_is_cancelled_here(const struct orr_task *task)
{
    return task->cancelled;
}

/* Whether the task as a whole is cancelled.  A shield does not hide that. */
static inline bool task_is_cancelled(const struct orr_task *task)
{
    return task->own.flags & NEST_CANCELLED;
}

/* Whether the task's next wait answers -ECHILD. */
static inline bool task_child_has_failed(const struct orr_task *task)
{
    return task->child_failed;
}

static inline bool task_has_children(const struct orr_task *task)
{
    return task->children;
}

/* How many children are not done. */
static inline uint32_t task_child_count(const struct orr_task *task)
{
    return task->children;
}

/* The parent; NULL for a task at the top, and for one that has left the tree. */
static inline struct orr_task *task_parent(const struct orr_task *task)
{
    return task->parent ? nest_task(task->parent) : NULL;
}

/* The innermost scope that the task's body is in; NULL for none. */
static inline struct orr_scope *task_scope(const struct orr_task *task)
{
    return task->scope;
}

/*
 * Walks over all tasks below `top`, each before its children, and leaves out those behind a shield.
 * `at` is the task of the last step, NULL for the first; answers NULL at the end.
 */
static inline struct orr_task *task_next_below(struct orr_task *top, struct orr_task *at)
{
    return at ? scope_walk_next(&top->own, at, true, true) : scope_walk_first(&top->own, true);
}

/*
 * Cancels the task and everything below it.  `reason` must live as long as the runtime; NULL for
 * "cancelled".
 */
static inline void task_cancel(struct orr_task *task, const char *reason)
{
    scope_cancel(&task->own, reason);
}

/*
 * Cancels a live task without children, whose body has nothing to do about that: it is over at
 * once, and is not polled again.  It must not be running.  `reason` as for task_cancel().
 */
static inline void task_end(struct orr_task *task, const char *reason)
{
    scope_end_body(task, reason);
}

/* --- Its result ------------------------------------------------------------------------------- */

/* The error that the task's result has so far; 0 for none. */
static inline int task_error(const struct orr_task *task)
{
    return task->result.error;
}

/* Whether the task counts as failed, by itself or by a child. */
static inline bool task_has_failed(const struct orr_task *task)
{
    return task->failed;
}

/* Whether the task keeps failures of its children. */
static inline bool task_has_failures(const struct orr_task *task)
{
    return task->own.failures;
}

/* Whether somebody has seen how the task ended, or waits for that and will see it. */
static inline bool task_is_seen(const struct orr_task *task)
{
    return task->observed || task->claims;
}

/*
 * Says whether somebody has seen how the task ended: then its failure is reported no more.  Answers
 * what was said before.
 */
static inline bool task_set_seen(struct orr_task *task, bool seen)
{
    bool before = task->observed;
    task->observed = seen;
    return before;
}

/* The value of a DONE task's own result. */
static inline void *task_value(const struct orr_task *task)
{
    return task->result.value;
}

/* Whether a function frees the value of a DONE task's own result. */
static inline bool task_value_is_freed_by(const struct orr_task *task, void (*drop)(void *value))
{
    return task->result.drop == drop;
}

/*
 * Puts another result in place of a DONE task's own.  The old value is not dropped: the caller owns
 * it.
 */
static inline void task_replace_result(struct orr_task *task, struct orr_result result)
{
    task->result = result;
}

/*
 * Whether others than `known` holders have references to the task.  The tree is one holder until
 * the task is done.
 */
static inline bool task_is_shared(const struct orr_task *task, uint32_t known)
{
    return task->references > known;
}

/* --- What a task runs ------------------------------------------------------------------------- */

/*
 * The data of a task whose poll function is `poll`; NULL for other tasks.  So a layer recognises
 * its own tasks.
 */
static inline void *task_data_if(const struct orr_task *task, orr_poll_fn *poll)
{
    return task->poll == poll ? task->data : NULL;
}

/*
 * The data of a task whose destructor is `drop`; NULL for other tasks.  A destructor says what the
 * data is.
 */
static inline void *task_data_if_dropped_by(const struct orr_task *task, void (*drop)(void *data))
{
    return task->drop == drop ? task->data : NULL;
}

/*
 * The task runs something else from now on.  `drop` is called with `data` when the task is done;
 * not at all if it is already.
 */
static inline void task_become(struct orr_task *task, orr_poll_fn *poll, void *data, void (*drop)(void *data))
{
    task->poll = poll;
    task->data = data;
    task->drop = drop;
}

/* Replaces the destructor alone. */
static inline void task_set_drop(struct orr_task *task, void (*drop)(void *data))
{
    task->drop = drop;
}

/*
 * The task keeps its position in the run queue when ready tasks are taken at random: see shuffle.h.
 */
static inline void task_keep_order(struct orr_task *task)
{
    task->in_order = true;
}

/* Bytes allocated for the task's name; 0 if it has none, or a lent one (task_lend_name()). */
static inline size_t task_name_size(const struct orr_task *task)
{
    return task->name && !task->name_lent ? strlen(task->name) + 1 : 0;
}

/*
 * Replaces a lent name by a copy, before the lender frees it.  The task has no name if there is no
 * memory.  Answers task_name_size().
 */
static inline size_t task_copy_name(struct orr_task *task)
{
    task->name = alloc_copy(&task->worker->alloc, task->name);
    task->name_lent = false;
    return task_name_size(task);
}

/* --- Tasks that are held back ----------------------------------------------------------------- */

/*
 * Holds back a live task that was polled too early.  A task that is queued already keeps its
 * position.  `late`: it has used up its time slice.
 */
static inline void held_push(struct held_tasks *held, struct orr_task *task, bool late)
{
    if (task->queued)
        return;
    task->queued = true;
    task->late = late;
    queue_push(late ? &held->late : &held->ready, task);
}

static inline bool held_any(const struct held_tasks *held)
{
    return held->ready.first || held->late.first;
}

/*
 * Queues the tasks that were held back: before those of the share that have become ready since;
 * late ones behind other late ones.
 */
static inline void worker_requeue_held(struct worker *worker, struct share *share, struct held_tasks *held)
{
    share_put_back(&worker->shares, share, &held->ready, &held->late);
}

/*
 * Takes a task out of the run queue or out of `held`, wherever it is.  Takes as long as the queue
 * is.
 */
static inline void worker_unqueue_held(struct worker *worker, struct held_tasks *held, struct orr_task *task)
{
    if (task->queued && !queue_remove(&held->ready, task) && !queue_remove(&held->late, task))
        worker_unqueue(worker, task);
    task->queued = task->late = false;
}

/* --- The worker ------------------------------------------------------------------------------- */

/* Any thread. */
static inline struct orr_runtime *worker_runtime(const struct worker *worker)
{
    return worker->runtime;
}

/* The worker's number in its runtime, from 1.  Any thread. */
static inline unsigned worker_number(const struct worker *worker)
{
    return worker->number;
}

/* Any thread. */
static inline const struct alloc *worker_alloc(const struct worker *worker)
{
    return &worker->alloc;
}

static inline struct watch *worker_watch(const struct worker *worker)
{
    return worker->watch;
}

/* Whether a task of the worker is being polled. */
static inline bool worker_is_polling(const struct worker *worker)
{
    return worker->polling;
}

/* Whether any task is in the run queue.  Takes as long as there are shares. */
static inline bool worker_has_ready_tasks(const struct worker *worker)
{
    return shares_any_queued(&worker->shares);
}

/* The live task that a waker names; NULL if it is over, or not of this worker. */
static inline struct orr_task *worker_find_task(const struct worker *worker, struct orr_waker waker)
{
    return waker_table_number(waker) == worker->table_number ? tasks_find(&worker->tasks, waker) : NULL;
}

/* The number of the turn under way. */
static inline uint64_t worker_turn_number(const struct worker *worker)
{
    return counter_read(&worker->counters.turns);
}

/* The time by the runtime's clock. */
static inline uint64_t worker_now(const struct worker *worker)
{
    return timers_now(worker->timers);
}

/*
 * Whether a timer of the worker may be due.  The answer false is exact, except that the machine's
 * clock is not read: it may be as much as WORKER_LAG_NS later than when it was last read, which
 * turns and looks do far more often.
 */
#define WORKER_LAG_NS UINT64_C(16000000)
static inline bool worker_timer_may_be_due(const struct worker *worker)
{
    uint64_t now = worker->timers->clock == ORR_CLOCK_MONOTONIC ? worker->now + WORKER_LAG_NS
                                                                : timers_now(worker->timers);
    return shard_next(worker->shard) <= now || shard_has_news(worker->shard);
}

/* The time by the runtime's clock when the worker last read it: perhaps some short turns ago. */
static inline uint64_t worker_last_now(const struct worker *worker)
{
    return worker->now;
}

/*
 * Whether the runtime's clock is the machine's: else it stands still while there is anything to do.
 */
static inline bool worker_has_real_clock(const struct worker *worker)
{
    return worker->timers->clock == ORR_CLOCK_MONOTONIC;
}

/* How long cancelled tasks may clean up. */
static inline uint64_t worker_grace_ns(const struct worker *worker)
{
    return worker->grace.ns;
}

/*
 * When the tasks of a closing worker must have cleaned up, by the machine's clock; 0 while the
 * worker is not closing.
 */
static inline uint64_t worker_grace_end(const struct worker *worker)
{
    return worker->grace.end;
}

/* Whether the worker takes no more letters: a letter that arrives now is to be refused. */
static inline bool worker_refuses_letters(const struct worker *worker)
{
    return worker->phase == WORKER_CLOSING;
}

/* The worker's tasks are in slots numbered from 0 to one below this.  It only goes up. */
static inline uint32_t worker_slots(const struct worker *worker)
{
    return worker->tasks.used;
}

/* The task in a slot.  In a free slot, task_is_unfinished() and orr_task_done() are false. */
static inline struct orr_task *worker_task_in(const struct worker *worker, uint32_t slot)
{
    return tasks_at(&worker->tasks, slot);
}

/*
 * Whether a task is ready, and none of its share has become ready after it.  False if ready tasks
 * are taken at random.
 */
static inline bool worker_is_last_ready(const struct worker *worker, const struct orr_task *task)
{
    const struct queue *ready = &task->share->ready;
    return task->queued && ready->first && ready->last == task && !worker->shuffle;
}

/* Whether ready tasks are taken at random. */
static inline bool worker_shuffles(const struct worker *worker)
{
    return worker->shuffle;
}

/* Whether any task of a share is to be polled in this turn. */
static inline bool share_has_ready(const struct share *share)
{
    return share->ready.first || share->interrupted.first;
}

/* Whether an interrupted task of a share is to be polled before those that are ready. */
static inline bool share_has_interrupted(const struct share *share)
{
    return share->interrupted.first;
}

/* --- What a layer above hangs in -------------------------------------------------------------- */

/* Calls `freed` last of each task that is freed, when nothing refers to it any more. */
static inline void worker_set_task_freed(struct worker *worker, void (*freed)(struct orr_task *task))
{
    worker->tasks.freed = freed;
}

/* One pointer of the layer above; NULL at first. */
static inline void *worker_extension(const struct worker *worker)
{
    return worker->extension.data;
}

static inline void worker_set_extension(struct worker *worker, void *extension)
{
    worker->extension.data = extension;
}

/* Has orr_runtime_idle() do some work, until worker_remove_idle_work().  The caller owns `work`. */
static inline void worker_add_idle_work(struct worker *worker, struct idle_work *work)
{
    idle_add(&worker->idle, work);
}

static inline void worker_remove_idle_work(struct worker *worker, struct idle_work *work)
{
    idle_remove(&worker->idle, work);
}

#endif
