/* All tasks of an isolate. */
#include "lua/limits/timeout_report.h"
#include "lua/task/task_parts.h"

void ltask_forget_errors(struct orr_isolate *iso)
{
    for (uint32_t index = 0; index < worker_slots(iso->worker); index++) {
        struct orr_task *task = worker_task_in(iso->worker, index);
        struct ltask *handle = orr_task_done(task) ? ltask_of(task) : NULL;
        if (handle && handle->iso == iso)
            ltask_forget_handle(task, iso);
        int error = task_error(task);
        if (!orr_task_done(task) || (error != -ESCRIPT && error != -ETIME))
            continue;
        struct ltask *origin = task_value(task);
        if (origin && origin->iso == iso)
            task_replace_result(
                task, (struct orr_result){
                          .error = error,
                          .message = error == -ETIME ? TIMEOUT_TEXT : "a Lua error, of a state that is closed",
                      });
    }
}
