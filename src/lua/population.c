/* All tasks of an isolate, or of one script in it. */
#include "lua/budget.h"
#include "lua/task.h"

typedef bool each_fn(struct ltask *task);

#define EVERY_SCRIPT UINT32_MAX

/* True if one of the live tasks of a script, or of all, answers true. */
static bool for_each(struct orr_isolate *iso, uint32_t script, each_fn *each)
{
    struct tasks *tasks = &iso->worker->tasks;
    bool any = false;
    for (uint32_t index = 0; index < tasks->used; index++) {
        struct orr_task *task = tasks_at(tasks, index);
        struct ltask *self = task->life == TASK_LIVE ? ltask_of(task) : NULL;
        if (self && self->iso == iso && (script == EVERY_SCRIPT || self->script == script))
            any |= each(self);
    }
    return any;
}

static bool cancel_one(struct ltask *self)
{
    scope_cancel(&self->task->own, "closed");
    return true;
}

static bool has_hopes(struct ltask *self)
{
    return self->task->queued || self->task->waits || self->task->ios;
}

static bool drop_one(struct ltask *self)
{
    if (!self->task->running)
        scope_drop_body(self->task);
    return true;
}

void ltask_cancel_all(struct orr_isolate *iso)
{
    for_each(iso, EVERY_SCRIPT, cancel_one);
}

bool ltask_any_hopes(struct orr_isolate *iso)
{
    return for_each(iso, EVERY_SCRIPT, has_hopes);
}

void ltask_drop_all(struct orr_isolate *iso)
{
    for_each(iso, EVERY_SCRIPT, drop_one);
}

static bool is_one(struct ltask *self)
{
    (void)self;
    return true;
}

void ltask_cancel_of(struct orr_isolate *iso, uint32_t script)
{
    for_each(iso, script, cancel_one);
}

bool ltask_any_of(struct orr_isolate *iso, uint32_t script, bool with_hopes)
{
    return for_each(iso, script, with_hopes ? has_hopes : is_one);
}

void ltask_drop_of(struct orr_isolate *iso, uint32_t script)
{
    for_each(iso, script, drop_one);
}

void ltask_forget_errors(struct orr_isolate *iso)
{
    struct tasks *tasks = &iso->worker->tasks;
    for (uint32_t index = 0; index < tasks->used; index++) {
        struct orr_task *task = tasks_at(tasks, index);
        int error = task->result.error;
        if (task->life != TASK_DONE || (error != -ESCRIPT && error != -ETIME))
            continue;
        struct ltask *origin = task->result.value;
        if (origin && origin->iso == iso)
            task->result = (struct orr_result){
                .error = error,
                .message = error == -ETIME ? TIMEOUT_TEXT : "a Lua error, of a state that is closed",
            };
    }
}
