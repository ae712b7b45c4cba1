#include "lua/task/drop.h"

#include "lua/limits/notices.h"
#include "lua/limits/terminate.h"
#include "lua/task/body_watch.h"
#include "lua/task/handler.h"
#include "lua/task/hold.h"
#include "lua/task/orphans.h"
#include "lua/task/result.h"
#include "lua/task/script.h"
#include "lua/task/task.h"
#include "lua/task/task_finalizer.h"
#include "lua/task/task_pool.h"
#include "lua/task/task_set.h"
#include "lua/task/unhandled.h"

/* A body that was ended by force has not returned. */
static void close_body(struct ltask *self)
{
    if (!self->co || ltask_is_over(self))
        return;
    if (self->phase != LTASK_NEW)
        terminate_close_chain(self->iso, self->suspended, self->co, self->script);
    self->co = NULL;
    self->phase = LTASK_OVER;
    if (self->completed_with)
        result_keep_completed(self);
}

/*
 * The handle of a task that failed asks the core for its error, and has a reference; others let go
 * of the core.
 */
static struct task_finalizer *leave_core(struct ltask *self)
{
    struct orr_task *core = self->task;
    struct task_finalizer *finalizer = task_has_failed(core) || task_has_failures(core) ? task_finalizer_try(self)
                                                                                        : NULL;
    if (finalizer) {
        finalizer->task = core;
        return finalizer;
    }
    self->task = NULL;
    if (self->task_finalizer)
        self->task_finalizer->task = NULL;
    ltask_leave_core(core, self->iso);
    return NULL;
}

/* Whether others than the tree and the handle refer to a core task that ends, or may. */
static bool is_kept(const struct orr_task *core)
{
    return task_is_shared(core, 2) || task_has_failed(core) || task_has_failures(core);
}

/* The handler whose call the task is: the handle, which is anchored, holds it.  Never allocates. */
static struct handler *handler_of(struct ltask *self)
{
    lua_State *L = self->iso->L;
    ltask_push_handle(L, self);
    lua_getiuservalue(L, -1, LTASK_HANDLER);
    struct handler *handler = lua_touserdata(L, -1);
    lua_pop(L, 2);
    return handler;
}

static void drop(struct ltask *self)
{
    struct orr_isolate *iso = self->iso;
    struct orr_task *core = self->task;
    bool never_began = self->loading;
    if (self->reach == REACH_WEAK)
        orphans_anchor(self);
    if (self->watched)
        body_is_over(self);
    if (self->loading)
        script_body_began(self);
    close_body(self);
    int error = outcome_of(core)->error;
    self->phase = task_has_failed(core) ? LTASK_FAILED : error ? LTASK_CLOSED : LTASK_OK;
    self->apart.done_as = ++iso->tasks.done;
    iso->tasks.scheduled_failed += self->entry == ORR_LUA_SCHEDULED && task_has_failed(core);
    char verdict[HANDLER_TEXT];
    struct handler *handler = self->handles ? handler_of(self) : NULL;
    bool disabled = handler && handler_judge(handler, error, iso->limits.strikes, orr_task_name(core),
                                             error == -ETIME ? script_name(iso, self->script) : NULL, verdict);
    int64_t disabled_id = disabled ? handler->id : 0;
    task_set_remove(&iso->tasks);
    if (self->name_on_stack && is_kept(core))
        task_pool_copy_name(self);
    bool failed = leave_core(self);
    if (self->pooled && task_pool_keep(self))
        return;
    if (failed && self->solitary)
        task_set_seen(core, true); /* the parent is not told */
    if (failed && (self->solitary || !task_parent(core)))
        unhandled_report_soon(self);
    if (disabled)
        notices_add_disabled(iso, verdict, disabled_id);
    ltask_release(self);
    if ((self->held || (never_began && hold_has_caller(&iso->hold))) && !execution_in_slice(&iso->execution))
        hold_settle(iso, false);
}

void drop_open(struct orr_isolate *iso)
{
    iso->tasks.drop = drop;
}
