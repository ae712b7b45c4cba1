#include "lua/task/task.h"

#include "lua/isolate/charge.h"
#include "lua/isolate/life.h"
#include "lua/task/trace.h"

void ltask_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg none[] = { { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_TASK, LTASK_CLASS, none);
    luaL_getmetatable(L, LTASK_CLASS);
    iso->tasks.class = luaL_ref(L, LUA_REGISTRYINDEX);
    isolate_push_methods(L, LTASK_CLASS);
    iso->tasks.methods = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* A destructor says what a task's data is. */
struct ltask *ltask_of(const struct orr_task *task)
{
    return task ? task_data_if_dropped_by(task, ltask_drop) : NULL;
}

struct ltask *ltask_test(lua_State *L, int index)
{
    return isolate_test(L, index, OBJECT_TASK);
}

struct ltask *ltask_check(lua_State *L, int index)
{
    return isolate_check(L, index, OBJECT_TASK, LTASK_CLASS);
}

const char *ltask_starter(const struct orr_isolate *iso)
{
    return iso->tasks.starter ? iso->tasks.starter : "async.run(fn)";
}

void ltask_set_starter(struct orr_isolate *iso, const char *call)
{
    iso->tasks.starter = call;
}

struct ltask *ltask_current(lua_State *L, const char *what)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!execution_task(&iso->execution))
        luaL_error(L, "%s: not inside a task; start one with %s", what, ltask_starter(iso));
    return execution_task(&iso->execution);
}

void ltask_push(lua_State *L, struct ltask *self)
{
    ltask_push_handle(L, self);
    if (!self->pooled)
        return;
    const char *name = self->task ? orr_task_name(self->task) : NULL;
    if (name) {
        lua_pushstring(L, name);
        lua_setiuservalue(L, -2, LTASK_NAME);
    }
    self->pooled = false;
}

void ltask_settle(struct ltask *self)
{
    lua_State *L = self->creator;
    isolate_fill_anchor(self->iso, L, self->anchor, 1);
    execution_push_coroutine(L, self->co);
    lua_setiuservalue(L, 1, LTASK_VALUE);
    isolate_leave_seat(self->iso, L, self->seat);
    self->seat = 0;
    self->suspended = NULL;
}

void ltask_push_handle(lua_State *L, struct ltask *self)
{
    if (ltask_is_provisional(self))
        ltask_settle(self);
    isolate_push_anchored(self->iso, L, self->anchor);
}

void ltask_give_up(struct ltask *self)
{
    int anchor = self->anchor;
    self->anchor = 0;
    if (ltask_is_provisional(self)) {
        isolate_return_seat(self->iso, self->seat);
        isolate_unreserve_anchor(self->iso, anchor);
        self->seat = 0;
        self->suspended = self->co = NULL;
    } else {
        isolate_unanchor(self->iso, self->iso->L, anchor);
    }
}

/* The anchor of a handle becomes that of its error. */
static void anchor_error(struct ltask *self)
{
    lua_State *L = self->iso->L;
    struct kept_error *kept = self->error;
    isolate_push_anchored(self->iso, L, self->anchor);
    lua_getiuservalue(L, -1, LTASK_VALUE);
    isolate_set_anchor(self->iso, L, self->anchor, true);
    lua_pop(L, 1);
    kept->handle = NULL;
    kept->anchor = self->anchor;
    self->keeps_error = false;
    self->anchor = 0;
}

void ltask_release(struct ltask *self)
{
    if (!ltask_is_done(self) || self->held || self->unhandled || !self->anchor)
        return;
    if (self->keeps_error)
        anchor_error(self);
    else
        ltask_give_up(self);
}

void ltask_lower_limit(struct ltask *self, uint64_t limit)
{
    if (!self->keeps_error && (!self->limit || self->limit > limit))
        self->limit = limit;
}

/* --- Kept errors ------------------------------------------------------------------------------ */

struct kept_error *ltask_keep_error(struct ltask *self, struct trace *trace)
{
    struct orr_isolate *iso = self->iso;
    struct alloc alloc = charge_alloc(iso);
    bool before = charge_begin_report(&iso->charge);
    struct kept_error *kept = alloc_new(&alloc, sizeof *kept);
    charge_end_report(&iso->charge, before);
    if (!kept) {
        trace_free(iso, &trace);
        return NULL;
    }
    *kept = (struct kept_error){ .iso = iso, .handle = self, .trace = trace };
    self->error = kept;
    self->keeps_error = true;
    return kept;
}

void kept_error_drop(void *value)
{
    struct kept_error *self = value;
    struct orr_isolate *iso = self->iso;
    struct alloc alloc = charge_alloc(iso);
    if (self->handle) {
        self->handle->keeps_error = false;
        ltask_release(self->handle);
    } else if (iso->L) {
        isolate_unanchor(iso, iso->L, self->anchor);
    }
    trace_free(iso, &self->trace);
    alloc_free(&alloc, self, sizeof *self);
}

const struct kept_error *kept_error_of(struct orr_task *task)
{
    const struct orr_result *result = outcome_of(task);
    return result->drop == kept_error_drop ? result->value : NULL;
}

void kept_error_push(const struct kept_error *self, lua_State *L)
{
    isolate_push_anchored(self->iso, L, self->handle ? self->handle->anchor : self->anchor);
    if (self->handle) {
        lua_getiuservalue(L, -1, LTASK_VALUE);
        lua_remove(L, -2);
    }
}

/* --- The core's task -------------------------------------------------------------------------- */

void ltask_drop(void *data)
{
    struct ltask *self = data;
    self->iso->tasks.drop(self);
}

void ltask_bind(struct ltask *self, struct orr_task *core)
{
    isolate_ref(self->iso);
    self->task = orr_task_ref(core);
}

/* The poll function of a core task without a handle.  Never called: its body is over. */
static enum orr_poll gone_poll(struct orr_task *core, void *data)
{
    (void)data;
    return orr_task_fail(core, -ECANCELED);
}

void ltask_freed(struct orr_task *core)
{
    struct ltask *self = ltask_of(core);
    struct orr_isolate *iso = self ? self->iso : task_data_if(core, gone_poll);
    if (!iso)
        return;
    charge_give(iso, CHARGE_TASK + task_name_size(core));
    isolate_unref(iso);
}

void ltask_forget_handle(struct orr_task *core, struct orr_isolate *iso)
{
    task_become(core, gone_poll, iso, NULL);
}

void ltask_leave_core(struct orr_task *core, struct orr_isolate *iso)
{
    ltask_forget_handle(core, iso);
    orr_task_unref(core);
}
