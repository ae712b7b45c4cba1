/*
 * async.future: a result that is to come, of Lua values: an error, or nil, and the results.  And the same for the futures of
 * the core, which functions of the host hand out (host.c).
 *
 * A Lua future is an event, and the values on a coroutine, its user value.
 */
#include "lua/api/future.h"

#include "lua/isolate.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "sync/embed.h"

#include <errno.h>
#include <string.h>

#define FUTURE "orrery.future"

struct future_object {
    bool completed;
    void *event[]; /* a struct orr_event, aligned as pointers are */
};

static struct orr_event *event_of(struct future_object *self)
{
    return (struct orr_event *)self->event;
}

bool future_test(lua_State *L, int index)
{
    return isolate_test(L, index, OBJECT_FUTURE);
}

static struct future_object *future_check(lua_State *L)
{
    return isolate_check(L, 1, OBJECT_FUTURE, FUTURE);
}

/* Pushes the error, or nil, and the results of a completed future at 1; answers how many. */
static int push_values(lua_State *L)
{
    lua_getiuservalue(L, 1, 1);
    lua_State *values = lua_tothread(L, -1);
    int count = lua_gettop(values);
    luaL_checkstack(L, count + 1, "too many results");
    lua_pop(L, 1); /* the future keeps it */
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(values, i);
        lua_xmove(values, L, 1);
    }
    return count;
}

/* The wait of a future at 1 for its completion; -EAGAIN if the task is to be suspended.  Raises what interrupts it. */
static int poll_completion(lua_State *L)
{
    struct ltask *task = ltask_current(L, "await");
    int error = orr_event_wait(task->task, &task->wait, event_of(future_check(L)));
    return error && error != -EAGAIN ? wait_raise(L, error) : error;
}

int future_await(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    if (poll_completion(L))
        return suspend(L, future_await, context);
    lua_settop(L, 1);
    int count = push_values(L);
    if (count == 0)
        return 0;
    if (lua_isnil(L, 2))
        return count - 1;
    lua_settop(L, 2);
    return lua_error(L);
}

/* future:_wait(): until it is completed, with whatever; raises nothing but what interrupts the wait. */
static int wait_completed(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return poll_completion(L) ? suspend(L, wait_completed, context) : 0;
}

static int future_wait(lua_State *L)
{
    return wait_completed(L, LUA_OK, 0);
}

/* [future] [error or nil] [results...] */
static int future_complete(lua_State *L)
{
    struct future_object *self = future_check(L);
    struct orr_isolate *iso = isolate_of(L);
    if (self->completed)
        return luaL_error(L, "future:complete: the future is completed already");
    int count = lua_gettop(L) - 1;
    lua_State *values = lua_newthread(L);
    if (!lua_checkstack(values, count + 1))
        return luaL_error(L, "future:complete: too many values");
    lua_insert(L, 2);
    lua_xmove(L, values, count);
    lua_setiuservalue(L, 1, 1);
    self->completed = true;
    if (!isolate_visit(iso)) {
        orr_event_set(event_of(self));
        isolate_leave(iso);
    }
    return 0;
}

static int future_is_completed(lua_State *L)
{
    lua_pushboolean(L, future_check(L)->completed);
    return 1;
}

/* What `wait(callback)` needs: the values of a completed future. */
static int future_values(lua_State *L)
{
    luaL_argcheck(L, future_check(L)->completed, 1, "the future is not completed");
    lua_settop(L, 1);
    return push_values(L);
}

static int future_gc(lua_State *L)
{
    struct future_object *self = lua_touserdata(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    int error = isolate_visit(iso);
    if (!error) {
        error = event_end(event_of(self));
        isolate_leave(iso);
    }
    if (error == -EBUSY) /* somebody waits for it yet: after the next cycle */
        luaL_setmetatable(L, FUTURE);
    else
        objects_gone(iso);
    return 0;
}

static int async_future(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    size_t size = sizeof(struct future_object) + event_size;
    objects_check(iso, L);
    struct future_object *self = lua_newuserdatauv(L, size, 1);
    memset(self, 0, size);
    luaL_setmetatable(L, FUTURE);
    objects_made(iso);
    int error = isolate_visit(iso);
    if (!error) {
        error = event_init(event_of(self));
        isolate_leave(iso);
    }
    return error ? luaL_error(L, "async.future: %s", strerror(-error)) : 1;
}

void future_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "complete", future_complete }, { "is_completed", future_is_completed },
        { "_values", future_values },    { "_wait", future_wait },
        { "__gc", future_gc },           { NULL, NULL },
    };
    static const luaL_Reg functions[] = { { "future", async_future }, { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_FUTURE, FUTURE, methods);
    isolate_register(iso, L, functions);
}
