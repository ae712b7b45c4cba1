/*
 * orr_lua_set_async(): functions of the host that take time, with values.  The script's call makes
 * a reply, lets the host begin, and waits for the reply's future.
 *
 * While it waits, the first value on its stack is a handle that holds the reply.  The handle is
 * closed however the call ends: when it returns, raises, or its coroutine is closed.  If Lua closes
 * the whole state, it is finalized.
 */
#include "lua/host/global_path.h"
#include "lua/host/host_call.h"
#include "lua/host/reply.h"
#include "lua/host/value.h"
#include "lua/isolate.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define FUNCTION_CLASS "orrery.async_function"
#define CALL_CLASS "orrery.async_call"

static struct async_function *function_of(lua_State *L)
{
    return *(struct async_function **)lua_touserdata(L, lua_upvalueindex(2));
}

/* --- The call --------------------------------------------------------------------------------- */

/* [handle]: its __close and __gc. */
static int call_over(lua_State *L)
{
    struct orr_reply **handle = lua_touserdata(L, 1);
    struct orr_reply *reply = *handle;
    *handle = NULL;
    if (reply)
        reply_leave(reply);
    return 0;
}

/* [handle] -> [results...] */
static int push_outcome(lua_State *L, const struct orr_reply *reply)
{
    const char *path = reply->function->path;
    if (reply->error)
        return luaL_error(L, "%s: %s", path, *reply->message ? reply->message : strerror(-reply->error));
    if (reply->count > INT_MAX - 8)
        return luaL_error(L, "%s: too many results", path);
    int error = value_push_all(isolate_of(L), L, reply->values, reply->count);
    if (error) /* the reply has been checked: only the stack can be too small */
        return luaL_error(L, "%s: %s", path, strerror(-error));
    return (int)reply->count;
}

/* [handle] */
static int wait_for_reply(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    const struct orr_reply *reply = *(struct orr_reply **)lua_touserdata(L, 1);
    struct ltask *self = ltask_waiting(L, function_of(L)->path);
    int error = orr_future_wait(self->task, &self->wait, reply->future);
    if (error == -EAGAIN)
        return suspend(L, wait_for_reply, context);
    return error ? wait_raise(L, error) : push_outcome(L, reply);
}

/* Lets the host begin, while the arguments are there. */
static int start_work(void *data, struct orr_isolate *iso, lua_State *L, struct orr_call *call)
{
    struct orr_reply *reply = data;
    (void)iso;
    (void)L;
    int error = reply->function->what.start(reply->function->what.data, call, reply);
    if (call->drop)
        call->drop(call->drop_data);
    return error;
}

static int refuse(lua_State *L, const struct async_function *function, int error)
{
    if (error != -EAGAIN)
        return luaL_error(L, "%s: %s", function->path, strerror(-error));
    return luaL_error(L, "%s: the host has yet to reply to %d earlier calls", function->path,
                      (int)function->what.max_calls);
}

/* [arguments...] -> [results...] */
static int call_host(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct async_function *function = function_of(L);
    struct ltask *self = ltask_waiting(L, function->path);
    int error = orr_checkpoint(self->task);
    if (error)
        return wait_raise(L, error);
    struct orr_reply **handle = lua_newuserdatauv(L, sizeof *handle, 0);
    *handle = NULL;
    luaL_setmetatable(L, CALL_CLASS);
    lua_insert(L, 1);
    lua_toclose(L, 1);
    error = reply_new(iso->rt, function, handle);
    if (error)
        return refuse(L, function, error);
    struct orr_call call = { .L = L };
    struct orr_reply *reply = *handle;
    error = host_call_run(iso, L, 2, &call, start_work, reply);
    if (error) {
        reply_refuse(reply);
        return host_call_raise(L, function->path, &call, error);
    }
    lua_settop(L, 1);
    return wait_for_reply(L, LUA_OK, 0);
}

/* --- The function ----------------------------------------------------------------------------- */

static int function_gc(lua_State *L)
{
    struct async_function **function = lua_touserdata(L, 1);
    if (*function)
        async_function_unref(*function, true);
    *function = NULL;
    return 0;
}

static void make_classes(lua_State *L)
{
    if (luaL_newmetatable(L, FUNCTION_CLASS)) {
        lua_pushcfunction(L, function_gc);
        lua_setfield(L, -2, "__gc");
    }
    if (luaL_newmetatable(L, CALL_CLASS)) {
        lua_pushcfunction(L, call_over);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, call_over);
        lua_setfield(L, -2, "__close");
    }
    lua_pop(L, 2);
}

struct setting {
    struct orr_isolate *iso;
    struct async_function **held; /* where Lua holds the function */
};

/* Lua holds nothing yet: it gets the function when nothing can fail any more. */
static void push_function(lua_State *L, void *data)
{
    struct setting *setting = data;
    luaL_checkstack(L, 8, NULL);
    make_classes(L);
    lua_pushlightuserdata(L, setting->iso);
    setting->held = lua_newuserdatauv(L, sizeof *setting->held, 0);
    *setting->held = NULL;
    luaL_setmetatable(L, FUNCTION_CLASS);
    lua_pushcclosure(L, call_host, 2);
}

int orr_lua_set_async(lua_State *L, const char *path, const struct orr_async *function)
{
    if (!function || !function->start || !global_path_is_valid(path))
        return -EINVAL;
    int error;
    struct setting setting = { .iso = value_visit(L, &error) };
    if (!setting.iso)
        return error;
    struct async_function *made = async_function_new(&setting.iso->alloc, path, function);
    error = made ? global_path_set(L, path, push_function, &setting) : -ENOMEM;
    if (!error)
        *setting.held = made;
    else if (made)
        async_function_unref(made, false);
    isolate_leave(setting.iso);
    return error;
}
