#include "lua/api/task_methods.h"

#include "lua/api/duration.h"
#include "lua/isolate.h"
#include "lua/task/cancellation.h"
#include "lua/task/create.h"
#include "lua/task/report.h"
#include "lua/task/result.h"
#include "lua/task/run.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

static int handle_status(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    const char *status = "completed";
    if (self->task && !orr_task_done(self->task))
        status = self == execution_task(&iso->execution)                    ? "running"
                 : task_is_running(self->task) || self->held == HELD_PAUSED ? "normal"
                                                                            : "awaiting";
    lua_pushstring(L, status);
    return 1;
}

static int return_handle(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    lua_settop(L, 1);
    return 1;
}

static int handle_close(lua_State *L)
{
    return ltask_close(L, ltask_check(L, 1), CANCELLATION_TEXT, return_handle, 0);
}

static int handle_detach(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    if (self->task && !isolate_visit(iso)) {
        orr_task_detach(self->task);
        isolate_leave(iso);
    }
    lua_settop(L, 1);
    return 1;
}

/* complete(...): the values become the results of the task.  [handle] [values...] */
static int handle_complete(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    int count = lua_gettop(L) - 1;
    if (!self->task || orr_task_done(self->task) || self->completed)
        return luaL_error(L, "task:complete: the task is completed already");
    lua_State *values = isolate_coroutine(iso, L); /* as if the body had returned them */
    if (!lua_checkstack(values, count + 1))
        return luaL_error(L, "task:complete: too many values for one coroutine");
    lua_insert(L, 2);
    lua_xmove(L, values, count);
    return ltask_complete(L, self);
}

/* --- Errors ----------------------------------------------------------------------------------- */

static int handle_traceback(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    const char *message = luaL_optstring(L, 2, NULL);
    report_push_traceback(L, self, message);
    return 1;
}

static void add_error(void *data, struct orr_task *origin, const struct orr_result *result)
{
    lua_State *L = data;
    (void)origin;
    push_error_of(L, isolate_of(L), result);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static int handle_errors(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    lua_settop(L, 1);
    lua_newtable(L);
    if (self->task) {
        orr_task_errors(self->task, add_error, L);
    } else if (self->phase == LTASK_FAILED) {
        lua_getiuservalue(L, 1, LTASK_VALUE);
        lua_rawseti(L, -2, 1);
    }
    return 1;
}

/* --- Observers -------------------------------------------------------------------------------- */

/* A userdata, anchored until the task is done.  Its user values are the function and the handle. */
struct watcher {
    struct orr_observer observer;
    struct orr_isolate *iso;
    int anchor;
};

/* Starts the function as a task of its own, with the result of the task: [watcher]. */
static int start_watcher(lua_State *L)
{
    struct watcher *self = lua_touserdata(L, 1);
    lua_getiuservalue(L, 1, 1);
    lua_getiuservalue(L, 1, LTASK_NAME);
    int count = ltask_push_results(L, lua_touserdata(L, -1), 3);
    lua_remove(L, 3);
    ltask_start_soon(self->iso, L, count,
                     &(struct ltask_options){
                         .name = "on_complete", .name_lasts = true, .detached = true, .entry = ORR_LUA_HANDLER });
    return 0;
}

static void watcher_told(struct orr_task *task, void *data)
{
    struct watcher *self = data;
    struct orr_isolate *iso = self->iso;
    lua_State *L = iso->L;
    (void)task;
    if (!iso->closing && lua_checkstack(L, 8)) {
        lua_pushcfunction(L, start_watcher);
        isolate_push_anchored(iso, L, self->anchor);
        if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
            log_line(&iso->log, ORR_LOG_ERROR, "task:on_complete: the function is not called: %s", lua_tostring(L, -1));
            lua_pop(L, 1);
        }
    }
    isolate_unanchor(iso, L, self->anchor);
}

static int handle_on_complete(lua_State *L)
{
    struct ltask *task = ltask_check(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    struct watcher *self = lua_newuserdatauv(L, sizeof *self, 2);
    *self = (struct watcher){ .iso = iso, .observer = { .done = watcher_told, .data = self } };
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 2);
    self->anchor = isolate_anchor(iso, L);
    int error = isolate_visit(iso);
    if (error)
        return luaL_error(L, "task:on_complete: %s", strerror(-error));
    if (task->task && !orr_task_done(task->task))
        orr_task_observe(task->task, &self->observer);
    else
        watcher_told(NULL, self);
    isolate_leave(iso);
    lua_settop(L, 1);
    return 1;
}

/* --- Waiting outside of tasks ----------------------------------------------------------------- */

static bool is_done(void *data)
{
    struct ltask *self = data;
    return !self->task || orr_task_done(self->task);
}

/* Drives the loop until the task is done; false if the time is up.  Raises inside of tasks. */
static bool drive_until_done(lua_State *L, struct ltask *self, uint64_t timeout)
{
    struct orr_isolate *iso = isolate_of(L);
    if (is_done(self))
        return true;
    if (execution_level(&iso->execution) || worker_is_polling(iso->worker))
        luaL_error(
            L,
            "task:wait: a call from the host cannot wait, because the host waits for it; start a task, and wait there");
    int error = isolate_visit(iso);
    if (!error) {
        struct orr_task *core = orr_task_ref(self->task);
        bool seen = task_set_seen(core, true); /* its failure is ours to report, not the sink's */
        error = runtime_run_until(iso->rt, is_done, self, timeout);
        task_set_seen(core, seen || orr_task_done(core));
        orr_task_unref(core);
        isolate_leave(iso);
    }
    if (error && error != -ETIMEDOUT)
        luaL_error(L, "task:wait: %s",
                   error == -ECANCELED ? "interrupted: the runtime was stopped"
                   : error == -EDEADLK ? "deadlock: nothing can wake the task, so it would wait for ever"
                                       : strerror(-error));
    return !error;
}

/* _wait([ms]) -> true and the results, or false and the error or "timeout": see lua/async.lua. */
static int handle_wait_outside(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    uint64_t timeout = lua_isnoneornil(L, 2) ? ORR_NEVER : duration_check(L, 2);
    lua_settop(L, 1);
    if (!drive_until_done(L, self, timeout)) {
        lua_pushboolean(L, false);
        lua_pushliteral(L, "timeout");
        return 2;
    }
    return ltask_push_outcome(L, self, 1);
}

static int handle_name(lua_State *L)
{
    ltask_check(L, 1);
    lua_getiuservalue(L, 1, LTASK_NAME); /* nil if it has no name */
    return 1;
}

static int handle_tostring(lua_State *L)
{
    struct ltask *self = ltask_check(L, 1);
    lua_getiuservalue(L, 1, LTASK_NAME);
    const char *name = lua_tostring(L, -1);
    lua_pushfstring(L, "task%s%s: %p", name ? " " : "", name ? name : "", (void *)self);
    return 1;
}

/* __index: a method, or the field `name`. */
static int handle_index(lua_State *L)
{
    task_set_push_methods(&isolate_of(L)->tasks, L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TNIL)
        return 1;
    const char *key = lua_tostring(L, 2);
    if (key && !strcmp(key, "name"))
        return handle_name(L);
    missing_note(isolate_of(L), L, 3, 2);
    return 1;
}

void task_methods_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "status", handle_status },           { "close", handle_close },         { "detach", handle_detach },
        { "complete", handle_complete },       { "traceback", handle_traceback }, { "errors", handle_errors },
        { "on_complete", handle_on_complete }, { "_wait", handle_wait_outside },  { NULL, NULL },
    };
    static const luaL_Reg special[] = { { "__tostring", handle_tostring },
                                        { "__index", handle_index },
                                        { NULL, NULL } };
    isolate_push_methods(L, LTASK_CLASS);
    isolate_register(iso, L, methods);
    luaL_getmetatable(L, LTASK_CLASS);
    isolate_register(iso, L, special);
    lua_pop(L, 2);
}
