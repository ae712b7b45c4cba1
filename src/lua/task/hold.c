#include "lua/task/hold.h"

#include "lua/task/script.h"
#include "lua/task/task.h"

static bool is_live(const struct ltask *self)
{
    return self->task && self->task->life == TASK_LIVE;
}

bool isolate_is_held(const struct orr_isolate *iso)
{
    if (iso->preemption.slicing)
        return false;
    for (const struct ltask *at = iso->hold.first; at; at = at->next)
        if (is_live(at))
            return true;
    return false;
}

void hold_push(struct orr_isolate *iso, struct ltask *task)
{
    task->held = HELD_READY;
    task->next = iso->hold.first;
    iso->hold.first = task;
}

struct ltask *hold_pop(struct orr_isolate *iso)
{
    struct ltask *top = iso->hold.first;
    iso->hold.first = top->next;
    top->held = HELD_NOT;
    return top;
}

void hold_push_all(struct orr_isolate *iso, struct ltask *first, struct ltask *paused)
{
    struct ltask *below = iso->hold.first;
    if (paused) {
        paused->next = below;
        paused->held = HELD_PAUSED;
        below = paused;
    }
    struct ltask *last = first;
    for (;; last = last->next) {
        last->held = HELD_READY;
        if (!last->next)
            break;
    }
    last->next = below;
    iso->hold.first = first;
}

void hold_pause_above(struct orr_isolate *iso, struct ltask *task, struct ltask *mark)
{
    struct ltask **at = &iso->hold.first;
    while (*at != mark)
        at = &(*at)->next;
    task->next = mark;
    task->held = HELD_PAUSED;
    *at = task;
}

void hold_run(struct orr_isolate *iso, const struct ltask *mark)
{
    while (iso->hold.first != mark && !iso->preemption.preempting) {
        struct ltask *next = hold_pop(iso);
        if (is_live(next))
            task_run_now(iso->worker, next->task); /* which may be its end */
        else
            ltask_release(next);
    }
}

void hold_park(struct orr_isolate *iso, struct orr_task *task, bool late)
{
    if (task->queued)
        return; /* it was interrupted, and is in a queue from before */
    task->queued = true;
    task->late = late;
    queue_push(late ? &iso->hold.parked_late : &iso->hold.parked, task);
}

/* Takes tasks that have ended off the top.  The first live task; NULL if there is none. */
static struct ltask *find_live(struct orr_isolate *iso)
{
    while (iso->hold.first && !is_live(iso->hold.first))
        ltask_release(hold_pop(iso));
    return iso->hold.first;
}

/* The parked tasks come before those that have become ready since. */
static void release(struct orr_isolate *iso)
{
    share_put_back(&iso->worker->shares, &iso->share, &iso->hold.parked, &iso->hold.parked_late);
    void (*call)(struct orr_isolate * iso) = iso->hold.on_release;
    if (call && !script_any_loading(&iso->scripts)) {
        iso->hold.on_release = NULL;
        call(iso);
    }
}

/* A task on the stack may have been woken or parked meanwhile: takes it out of every queue. */
static void unqueue(struct orr_isolate *iso, struct orr_task *task)
{
    if (task->queued && !queue_remove(&iso->hold.parked, task) && !queue_remove(&iso->hold.parked_late, task))
        worker_unqueue(iso->worker, task);
    task->queued = task->late = false;
}

void hold_settle(struct orr_isolate *iso, bool late)
{
    struct ltask *first = find_live(iso);
    if (!first) {
        release(iso);
        return;
    }
    unqueue(iso, first->task);
    if (late)
        worker_ready_late(iso->worker, first->task);
    else
        worker_ready_next(iso->worker, first->task);
}

void hold_release_if_over(struct orr_isolate *iso)
{
    if (iso->hold.first && !iso->preemption.slicing && !find_live(iso))
        release(iso);
}
