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

/*
 * The error of a task that the host keeps is a value of the state: a text takes its place.  A task
 * that failed because of a child has only borrowed the child's error.
 */
static void forget_error(const struct orr_isolate *iso, struct orr_task *task, bool borrowed)
{
    int error = task_error(task);
    struct kept_error *kept = error == -ESCRIPT || error == -ETIME ? task_value(task) : NULL;
    if (!kept || task_value_is_freed_by(task, kept_error_drop) == borrowed || kept->iso != iso)
        return;
    task_replace_result(task, (struct orr_result){
                                  .error = error,
                                  .message = error == -ETIME ? TIMEOUT_TEXT : "a Lua error, of a state that is closed",
                              });
    if (!borrowed)
        kept_error_drop(kept);
}

/* The next done task of the isolate's worker, from a slot on; NULL at the end. */
static struct orr_task *next_done(const struct orr_isolate *iso, uint32_t *slot)
{
    while (*slot < worker_slots(iso->worker)) {
        struct orr_task *task = worker_task_in(iso->worker, (*slot)++);
        if (orr_task_done(task))
            return task;
    }
    return NULL;
}

/* Errors that are borrowed come first: an error is freed with its owner. */
void task_set_forget_errors(struct orr_isolate *iso)
{
    struct orr_task *task;
    for (uint32_t slot = 0; (task = next_done(iso, &slot));)
        forget_error(iso, task, true);
    for (uint32_t slot = 0; (task = next_done(iso, &slot));) {
        forget_error(iso, task, false);
        struct ltask *handle = ltask_of(task);
        if (handle && handle->iso == iso)
            ltask_forget_handle(task, iso);
    }
}
