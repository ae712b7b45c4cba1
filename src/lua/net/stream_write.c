/*
 * The parts of a write stay on the stack of the task while it waits, so the strings stay where they
 * are: [stream] [parts...].  Each poll lists them again.  More parts than PARTS_MAX are joined
 * first.
 */
#include "lua/net/stream_write.h"

#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>

enum {
    PARTS_MAX = 64,       /* of one vectored send */
    LIST_MAX = 64 * 1024, /* parts that are joined: it takes a short time */
};

static int write_parts(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "stream:write");
    struct stream_object *self = lua_touserdata(L, 1);
    struct iovec parts[PARTS_MAX];
    int count = lua_gettop(L) - 1;
    for (int i = 0; i < count; i++)
        parts[i].iov_base = (void *)lua_tolstring(L, i + 2, &parts[i].iov_len);
    int error = orr_stream_write(task->task, &task->wait, self->stream, parts, count, NULL);
    if (error == -EAGAIN)
        return suspend(L, write_parts, context);
    if (error)
        return stream_fail(L, task, self, "stream:write", error, NULL);
    lua_settop(L, 1);
    return 1;
}

/* Converts the value at an index in place.  Raises unless it is a string or a number. */
static void check_part(lua_State *L, int index, int argument, lua_Integer element)
{
    if (lua_type(L, index) == LUA_TSTRING)
        return;
    if (lua_type(L, index) == LUA_TNUMBER) {
        lua_tostring(L, index);
        return;
    }
    if (element)
        luaL_error(L, "bad argument #%d to 'write' (expected strings, got a list with a %s at %I)", argument,
                   luaL_typename(L, index), element);
    luaL_error(L, "bad argument #%d to 'write' (expected a string, a number or a list of strings, got %s)", argument,
               lua_isnone(L, index) ? "no value" : luaL_typename(L, index));
}

static void check_count(lua_State *L, lua_Integer count)
{
    if (count > LIST_MAX)
        luaL_error(L, "stream:write: %I parts are too many for one call (at most %d); write them in several calls",
                   count, LIST_MAX);
}

/* [stream] [list] -> [stream] [parts...] */
static void spread_list(lua_State *L)
{
    lua_Integer count = luaL_len(L, 2);
    check_count(L, count);
    if (count <= PARTS_MAX) {
        luaL_checkstack(L, (int)count, "too many parts");
        for (lua_Integer i = 1; i <= count; i++) {
            lua_geti(L, 2, i);
            check_part(L, -1, 1, i);
        }
        lua_remove(L, 2);
        return;
    }
    luaL_Buffer joined;
    luaL_buffinit(L, &joined);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_geti(L, 2, i);
        check_part(L, -1, 1, i);
        luaL_addvalue(&joined);
    }
    luaL_pushresult(&joined);
    lua_remove(L, 2);
}

int stream_write(lua_State *L)
{
    stream_object_check(L, 1);
    int count = lua_gettop(L) - 1;
    if (count == 1 && lua_istable(L, 2)) {
        spread_list(L);
    } else {
        check_count(L, count);
        for (int i = 1; i <= count; i++)
            check_part(L, i + 1, i, 0);
        if (count > PARTS_MAX)
            lua_concat(L, count);
    }
    return write_parts(L, LUA_OK, 0);
}
