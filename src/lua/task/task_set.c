#include "lua/task/task_set.h"

#include "lua/limits/grace_period.h"
#include "lua/limits/timeout_report.h"
#include "lua/task/script.h"
#include "lua/task/task.h"

void task_set_push_methods(const struct task_set *self, lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->methods);
}

void task_set_reset(struct task_set *self)
{
    self->on_empty = (struct orr_waker){ 0 };
    self->scheduled_failed = 0;
}

void task_set_check_room(struct orr_isolate *iso, lua_State *L, bool detached)
{
    if ((detached || !execution_task(&iso->execution)) && isolate_ends(iso) &&
        grace_period_refuses(iso, script_running(iso)))
        luaL_error(L, "async.run: %s", iso->closing ? "the isolate is closing" : "the script is being ended");
    if (ban_is_imposed(&iso->ban))
        luaL_error(L, "async.run: the script has been ended: %s", ban_reason(&iso->ban));
    if (iso->tasks.count >= iso->limits.max_tasks)
        luaL_error(L, "async.run: there are %d tasks already, and may be no more", (int)iso->limits.max_tasks);
}

void task_set_remove(struct task_set *self)
{
    if (!--self->count)
        orr_waker_wake(self->on_empty);
    for (const struct task_set_watch *at = self->watches; at; at = at->next)
        orr_waker_wake(at->waker);
}

void task_set_watch(struct task_set *self, struct task_set_watch *watch)
{
    watch->next = self->watches;
    self->watches = watch;
}

void task_set_unwatch(struct task_set *self, struct task_set_watch *watch)
{
    struct task_set_watch **at = &self->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
}

/* The error of a task that the host keeps is a value of the state: a text takes its place. */
static void forget_error(const struct orr_isolate *iso, struct orr_task *task)
{
    int error = task_error(task);
    const struct ltask *origin = error == -ESCRIPT || error == -ETIME ? task_value(task) : NULL;
    if (origin && origin->iso == iso)
        task_replace_result(task,
                            (struct orr_result){
                                .error = error,
                                .message = error == -ETIME ? TIMEOUT_TEXT : "a Lua error, of a state that is closed",
                            });
}

void task_set_forget_errors(struct orr_isolate *iso)
{
    for (uint32_t index = 0; index < worker_slots(iso->worker); index++) {
        struct orr_task *task = worker_task_in(iso->worker, index);
        if (!orr_task_done(task))
            continue;
        struct ltask *handle = ltask_of(task);
        if (handle && handle->iso == iso)
            ltask_forget_handle(task, iso);
        forget_error(iso, task);
    }
}
