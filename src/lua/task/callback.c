#include "lua/task/callback.h"

#include "base/log.h"
#include "lua/isolate/charge.h"
#include "lua/limits/grace_period.h"
#include "lua/task/body.h"
#include "lua/task/create.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/run.h"
#include "lua/task/task.h"
#include "lua/task/task_pool.h"
#include "lua/task/task_set.h"

#include <errno.h>
#include <string.h>

static void release(struct callback *self)
{
    if (!--self->pending)
        self->kind->let_go(self);
}

/* The destructor of a callback whose kind has been asked, and that has not become a Lua task. */
static void not_called(void *data)
{
    struct callback *self = data;
    struct orr_isolate *iso = self->iso;
    release(self);
    task_set_remove(&iso->tasks);
}

/* The destructor of a callback that has not begun. */
static void dropped(void *data)
{
    struct callback *self = data;
    if (self->kind->skip)
        self->kind->skip(self);
    not_called(self);
}

/*
 * Pushes what is to be called, on the coroutine of a handle from the pool.  Answers as kind->push()
 * does.
 */
static int prepare(struct callback *callback, struct ltask *self)
{
    self->entry = (uint8_t)callback->kind->entry;
    self->limit = ltask_limit(self->iso, callback->kind->entry, 0);
    self->script = callback->script;
    isolate_push_anchored(self->iso, self->co, callback->anchor);
    task_pool_push_base(self);
    return callback->kind->push(callback, self->co, self->stack_base);
}

/*
 * The first step is over.  Either that was all, and the handler need not be judged; or the task
 * goes on, and holds the handler, which the callback has held until now.
 */
static void settle_handler(struct callback *callback, struct ltask *self, const struct orr_task *task,
                           enum orr_poll answer)
{
    lua_State *L = callback->iso->L;
    if (answer == ORR_DONE && !task_error(task) && !task_has_children(task) && !task_has_failures(task)) {
        handler_clear(callback->handler);
    } else if (lua_checkstack(L, 4)) {
        isolate_push_anchored(callback->iso, L, self->anchor);
        isolate_push_anchored(callback->iso, L, callback->anchor);
        lua_setiuservalue(L, -2, LTASK_HANDLER);
        lua_pop(L, 1);
        self->handler = callback->handler;
    }
}

/* A core task becomes a Lua task, and runs for the first time. */
static enum orr_poll begin(struct callback *callback, struct orr_task *task, struct ltask *self)
{
    charge_force(callback->iso, CHARGE_TASK);
    ltask_bind(self, task);
    task_become(task, ltask_poll, self, ltask_drop);
    enum orr_poll answer = ltask_poll(task, self);
    if (callback->handler)
        settle_handler(callback, self, task, answer);
    release(callback);
    return answer;
}

/* The poll function of a callback that has not begun. */
static enum orr_poll callback_poll(struct orr_task *task, void *data)
{
    struct callback *callback = data;
    struct orr_isolate *iso = callback->iso;
    if (hold_first(&iso->hold))
        hold_release_if_over(iso);
    if (isolate_is_held(iso) && !execution_host_waits(&iso->execution)) {
        hold_park(iso, task, false);
        return ORR_PENDING;
    }
    if (task_is_cancelled_here(task) || (isolate_ends(iso) && grace_period_refuses(iso, callback->script)))
        return orr_task_fail(task, -ECANCELED); /* unloading starts nothing */
    struct ltask *self = task_pool_try_take(iso);
    if (!self)
        return orr_task_fail(task, -ENOMEM);
    task_set_drop(task, not_called);
    int arguments = prepare(callback, self);
    if (arguments >= 0) {
        self->arguments = arguments + BODY_BASE;
        return begin(callback, task, self);
    }
    if (!task_pool_give_back(self))
        ltask_give_up(self);
    return arguments == -ENOENT ? ORR_DONE : orr_task_fail(task, arguments);
}

int callback_start(struct callback *self)
{
    struct orr_isolate *iso = self->iso;
    struct orr_spawn what = { .poll = callback_poll, .data = self, .drop = dropped, .detached = true };
    struct orr_task *task;
    int error = task_set_count(&iso->tasks) >= iso->limits.max_tasks
                    ? -EAGAIN
                    : ltask_spawn_core(iso, &what, self->kind->name, &task);
    if (error) {
        log_line(&iso->log, ORR_LOG_ERROR, "%s: no task for its callback: %s", self->kind->name,
                 error == -EAGAIN ? "there may be no more of them" : strerror(-error));
        return error;
    }
    self->pending++;
    task_keep_order(task);
    worker_ready(iso->worker, task);
    return 0;
}

struct callback *callback_of(const struct orr_task *task)
{
    return task_data_if(task, callback_poll);
}
