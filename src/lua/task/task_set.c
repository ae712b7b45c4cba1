/* All tasks of an isolate. */
#include "lua/limits/timeout_report.h"
#include "lua/task/task_parts.h"

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
