#include "lua/task/hold.h"

#include "lua/task/script.h"
#include "lua/task/task.h"

static bool is_live(const struct ltask *self)
{
    return self->task && task_is_live(self->task);
}

bool isolate_is_held(const struct orr_isolate *iso)
{
    if (execution_in_slice(&iso->execution))
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
    calm_end(&iso->calm);
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
    calm_end(&iso->calm);
}

void hold_pause_above(struct orr_isolate *iso, struct ltask *task, struct ltask *mark)
{
    struct ltask **at = &iso->hold.first;
    while (*at != mark)
        at = &(*at)->next;
    task->next = mark;
    task->held = HELD_PAUSED;
    *at = task;
    calm_end(&iso->calm);
}

void hold_run(struct orr_isolate *iso, const struct ltask *mark)
{
    while (iso->hold.first != mark && !execution_unwinds(&iso->execution)) {
        struct ltask *next = hold_pop(iso);
        if (is_live(next))
            task_run_now(iso->worker, next->task); /* which may be its end */
        else
            ltask_release(next);
    }
}

void hold_park(struct orr_isolate *iso, struct orr_task *task, bool late)
{
    held_push(&iso->hold.parked, task, late);
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
    worker_requeue_held(iso->worker, &iso->share, &iso->hold.parked);
    void (*call)(struct orr_isolate * iso) = iso->hold.on_release;
    if (call && !script_any_loading(&iso->scripts)) {
        iso->hold.on_release = NULL;
        call(iso);
    }
}

void hold_settle(struct orr_isolate *iso, bool late)
{
    struct ltask *first = find_live(iso);
    if (!first) {
        release(iso);
        return;
    }
    worker_unqueue_held(iso->worker, &iso->hold.parked, first->task);
    if (late)
        worker_ready_late(iso->worker, first->task);
    else
        worker_ready_next(iso->worker, first->task);
}

void hold_release_if_over(struct orr_isolate *iso)
{
    if (iso->hold.first && !execution_in_slice(&iso->execution) && !find_live(iso))
        release(iso);
}
