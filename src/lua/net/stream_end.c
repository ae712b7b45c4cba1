#include "lua/net/stream_end.h"

#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>

/* [stream] */
static int shut_down(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:shutdown");
    struct stream_object *self = lua_touserdata(L, 1);
    int error = orr_stream_shutdown(task->task, &task->wait, self->stream);
    if (error == -EAGAIN)
        return suspend(L, shut_down, context);
    return error ? stream_fail(L, task, self, "stream:shutdown", error, NULL) : 1;
}

int stream_shutdown(lua_State *L)
{
    stream_object_check(L, 1);
    lua_settop(L, 1);
    return shut_down(L, LUA_OK, 0);
}

/* [stream] */
static int finish(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:finish");
    struct stream_object *self = lua_touserdata(L, 1);
    int error = orr_stream_finish(task->task, &task->wait, self->stream);
    if (error == -EAGAIN)
        return suspend(L, finish, context);
    return error ? stream_fail(L, task, self, "stream:finish", error, NULL) : 1;
}

int stream_finish(lua_State *L)
{
    stream_object_check(L, 1);
    lua_settop(L, 1);
    return finish(L, LUA_OK, 0);
}

int stream_finish_now(lua_State *L)
{
    const struct stream_object *self = stream_object_check(L, 1);
    struct ltask *task = ltask_current(L, "stream:finish");
    int error = orr_stream_finish(task->task, &task->wait, self->stream);
    if (error == -EAGAIN)
        orr_wait_withdraw(&task->wait);
    lua_pushboolean(L, error != -EAGAIN);
    return 1;
}
