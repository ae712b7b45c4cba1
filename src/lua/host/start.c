#include "lua/host/start.h"

#include "lua/isolate.h"
#include "lua/task/create.h"
#include "lua/task/report.h"
#include "lua/task/script.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

/* --- Functions that scripts can await --------------------------------------------------------- */

#define HOST_FUTURE "orrery.host_future"

/* The second upvalue of the function that scripts call. */
struct host_function {
    orr_lua_start_fn *start;
    orr_lua_push_fn *push;
};

struct host_call {
    struct orr_future *future; /* a reference */
};

/* [call]: waits for the future, and pushes its result. */
static int wait_for_host(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct orr_future *future = ((struct host_call *)lua_touserdata(L, 1))->future;
    struct ltask *self = ltask_waiting(L, "await");
    const struct host_function *function = lua_touserdata(L, lua_upvalueindex(2));
    int error = orr_future_wait(self->task, &self->wait, future);
    if (error == -EAGAIN)
        return suspend(L, wait_for_host, context);
    if (error)
        return wait_raise(L, error);
    const struct orr_result *result = orr_future_result(future);
    if (function->push)
        return function->push(L, result);
    if (result->error)
        return luaL_error(L, "%s", result->message ? result->message : strerror(-result->error));
    return 0;
}

static int call_host(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *self = ltask_current(L, "await");
    const struct host_function *function = lua_touserdata(L, lua_upvalueindex(2));
    int error = orr_checkpoint(self->task);
    if (error)
        return wait_raise(L, error);
    struct host_call *call = lua_newuserdatauv(L, sizeof *call, 0);
    call->future = NULL;
    luaL_setmetatable(L, HOST_FUTURE);
    lua_insert(L, 1);
    error = orr_future_new(iso->rt, &(struct orr_future_options){ .foreign = true }, &call->future);
    if (error)
        return luaL_error(L, "cannot create a future: %s", strerror(-error));
    error = function->start(L, call->future, 2);
    if (error)
        return luaL_error(L, "%s", strerror(-error));
    lua_settop(L, 1);
    return wait_for_host(L, LUA_OK, 0);
}

static int host_future_gc(lua_State *L)
{
    struct host_call *call = lua_touserdata(L, 1);
    orr_future_unref(call->future);
    call->future = NULL;
    return 0;
}

/* [host_function] -> [function that scripts call] */
static int push_function(lua_State *L)
{
    const struct host_function *given = lua_touserdata(L, 1);
    if (luaL_newmetatable(L, HOST_FUTURE)) {
        lua_pushcfunction(L, host_future_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_pushlightuserdata(L, isolate_find(L));
    struct host_function *function = lua_newuserdatauv(L, sizeof *function, 0);
    *function = *given;
    lua_pushcclosure(L, call_host, 2);
    return 1;
}

/* Calls a function with one argument, a pointer; it pushes one value, or nothing on -ENOMEM. */
static int push_protected(lua_State *L, lua_CFunction function, void *argument)
{
    if (!lua_checkstack(L, 2))
        return -ENOMEM;
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, argument);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
        return 0;
    lua_pop(L, 1);
    return -ENOMEM;
}

int orr_lua_push_async(lua_State *L, orr_lua_start_fn *start, orr_lua_push_fn *push)
{
    struct host_function function = { .start = start, .push = push };
    if (!L || !isolate_find(L) || !start)
        return -EINVAL;
    return push_protected(L, push_function, &function);
}

/* --- Scripts ---------------------------------------------------------------------------------- */

/* [options] [function] [arguments...] -> [handle].  May raise. */
static int start_script(lua_State *L)
{
    struct orr_isolate *iso = isolate_find(L);
    struct ltask_options options = *(const struct ltask_options *)lua_touserdata(L, 1);
    options.script = script_of_chunk(L, 2);
    struct ltask *task = ltask_new(iso, L, lua_gettop(L) - 2, &options);
    if (!isolate_visit(iso)) {
        worker_ready(iso->worker, task->task);
        isolate_leave(iso);
    }
    return 1;
}

static int start(lua_State *L, int arguments, struct ltask_options *options, struct orr_task **out)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || arguments < 0 || lua_gettop(L) < arguments + 1 || !lua_isfunction(L, -arguments - 1))
        return -EINVAL;
    if (!lua_checkstack(L, 4))
        return -ENOMEM;
    lua_pushcfunction(L, start_script);
    lua_pushlightuserdata(L, options);
    lua_rotate(L, -arguments - 3, 2); /* below the function and its arguments */
    if (lua_pcall(L, arguments + 2, 1, 0) != LUA_OK) {
        log_line(&iso->log, ORR_LOG_ERROR, "cannot start a script: %s", lua_tostring(L, -1));
        lua_pop(L, 1);
        return -ENOMEM;
    }
    struct ltask *self = lua_touserdata(L, -1);
    if (out)
        *out = orr_task_ref(self->task);
    lua_pop(L, 1);
    return 0;
}

int orr_lua_start(lua_State *L, int arguments, const char *name, struct orr_task **out)
{
    struct ltask_options options = { .name = name, .detached = true, .entry = ORR_LUA_SCRIPT };
    return start(L, arguments, &options, out);
}

int script_start_steps(lua_State *L, const char *name, struct orr_task **out)
{
    struct ltask_options options = { .name = name, .detached = true, .entry = ORR_LUA_SCRIPT, .steps = true };
    return start(L, 0, &options, out);
}

/* --- Reports ---------------------------------------------------------------------------------- */

/* [task] -> [text] */
static int push_report(lua_State *L)
{
    report_push_failure(L, lua_touserdata(L, 1));
    return 1;
}

int orr_lua_push_report(lua_State *L, struct orr_task *task)
{
    if (!L || !task || !isolate_find(L) || !orr_task_done(task))
        return -EINVAL;
    return push_protected(L, push_report, task);
}

int orr_lua_set_deadline(struct orr_task *task, uint64_t deadline_ns)
{
    struct ltask *self = ltask_of(task);
    if (!self || !deadline_ns)
        return -EINVAL;
    if (!task_is_live(task))
        return -ESRCH;
    if (self->iso->limits.mode != ORR_LUA_SIGNAL)
        return -ENOTSUP;
    self->limit = deadline_ns == ORR_NEVER ? 0 : deadline_ns;
    return 0;
}
