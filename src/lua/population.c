/* All tasks of an isolate, or of one script in it. */
#include "lua/budget.h"
#include "lua/errand.h"
#include "lua/task_parts.h"

typedef bool each_fn(struct orr_task *task);

#define EVERY_SCRIPT UINT32_MAX

/* Whether a task is the isolate's, and a script's in it. */
static bool belongs(const struct orr_task *task, const struct orr_isolate *iso, uint32_t script)
{
    const struct ltask *self = ltask_of(task);
    const struct errand *errand = errand_of(task);
    if (self)
        return self->iso == iso && (script == EVERY_SCRIPT || self->script == script);
    return errand && errand->iso == iso && (script == EVERY_SCRIPT || errand->script == script);
}

/* True if one of the live tasks of a script, or of all, answers true. */
static bool for_each(struct orr_isolate *iso, uint32_t script, each_fn *each)
{
    struct tasks *tasks = &iso->worker->tasks;
    bool any = false;
    for (uint32_t index = 0; index < tasks->used; index++) {
        struct orr_task *task = tasks_at(tasks, index);
        if (task->life == TASK_LIVE && belongs(task, iso, script))
            any |= each(task);
    }
    return any;
}

static bool cancel_one(struct orr_task *task)
{
    scope_cancel(&task->own, "closed");
    return true;
}

static bool has_hopes(struct orr_task *task)
{
    return task->queued || task->waits || task->ios;
}

static bool drop_one(struct orr_task *task)
{
    if (!task->running)
        scope_drop_body(task);
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

static bool is_one(struct orr_task *task)
{
    (void)task;
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
        struct ltask *handle = task->life == TASK_DONE ? ltask_of(task) : NULL;
        if (handle && handle->iso == iso)
            ltask_forget_handle(task, iso);
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
