#include "lua/net/stream_copy.h"

#include "io/copy.h"
#include "lua/net/address_argument.h"
#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>

/*
 * The copy is a userdata on the stack of the task.  Its memory outlives the wait: a task that is
 * dropped withdraws its waits before its coroutine is collected.
 */
enum { FROM = 1, TO, COPY };

static int copy_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "net.copy");
    struct stream_object *from = lua_touserdata(L, FROM), *to = lua_touserdata(L, TO);
    struct orr_copy *copy = lua_touserdata(L, COPY);
    int error = orr_stream_copy(task->task, copy, from->stream, to->stream);
    if (error == -EAGAIN)
        return suspend(L, copy_on, context);
    if (!error) {
        lua_pushinteger(L, (lua_Integer)copy->bytes);
        return 1;
    }
    if (error == -EBUSY)
        return argument_raise(L, "net.copy: another task reads from the first stream, or writes to the second");
    char peer[ORR_ADDRESS_TEXT];
    const struct orr_stream *culprit = copy_culprit(from->stream, to->stream, error);
    bool known = culprit && orr_stream_describe(culprit, ORR_PEER, peer, sizeof peer) > 0;
    struct io_failure failure = { .error = error, .operation = "copy", .address = known ? peer : NULL };
    io_error_end(L, task, &failure);
    lua_pushinteger(L, (lua_Integer)copy->bytes);
    return 3;
}

/* copy(from, to) -> how many bytes; or nil, an error, and how many bytes went through */
static int net_copy(lua_State *L)
{
    for (int i = FROM; i <= TO; i++)
        if (!isolate_test(L, i, OBJECT_STREAM))
            return argument_raise(L, "net.copy: expected two streams, got %s as argument %d", luaL_typename(L, i), i);
    ltask_waiting(L, "net.copy");
    lua_settop(L, TO);
    struct orr_copy *copy = lua_newuserdatauv(L, sizeof *copy, 0);
    *copy = (struct orr_copy){ 0 };
    return copy_on(L, LUA_OK, 0);
}

void stream_copy_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "copy", net_copy }, { NULL, NULL } };
    isolate_register(iso, L, functions);
}
