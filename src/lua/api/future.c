/* A future is an event of the core; the values are on a coroutine, the object's user value. */
#include "lua/api/future.h"

#include "lua/api/primitive.h"
#include "lua/api/wait_step.h"
#include "lua/task/suspend.h"
#include "sync/embed.h"

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
    return isolate_check(L, 1, OBJECT_FUTURE, FUTURE_CLASS);
}

/* Pushes the error, or nil, and the results of the completed future at 1; returns how many. */
static int push_values(lua_State *L)
{
    lua_getiuservalue(L, 1, 1);
    lua_State *values = lua_tothread(L, -1);
    int count = lua_gettop(values);
    luaL_checkstack(L, count + 1, "too many results");
    lua_pop(L, 1); /* the future still holds the coroutine */
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(values, i);
        lua_xmove(values, L, 1);
    }
    return count;
}

/* Polls the wait for the completion of the future at 1, as the wait functions of the core do. */
static int poll_completion(lua_State *L)
{
    struct ltask *task = ltask_current(L, "await");
    return orr_event_wait(task->task, &task->wait, event_of(future_check(L)));
}

int future_await(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    int error = poll_completion(L);
    if (error)
        return wait_step_simply(L, error, future_await, context);
    lua_settop(L, 1);
    int count = push_values(L);
    if (count == 0)
        return 0;
    if (lua_isnil(L, 2))
        return count - 1;
    lua_settop(L, 2);
    return lua_error(L);
}

/* future:_wait(): waits until it is completed, and does not raise its error. */
static int wait_completed(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    return wait_step(L, poll_completion(L), wait_completed, context);
}

static int future_wait(lua_State *L)
{
    return wait_completed(L, LUA_OK, 0);
}

/* [future] [error or nil] [results...] */
static int future_complete(lua_State *L)
{
    struct future_object *self = future_check(L);
    if (self->completed)
        return luaL_error(L, "future:complete: the future is completed already");
    int count = lua_gettop(L) - 1;
    lua_State *values = lua_newthread(L);
    if (!lua_checkstack(values, count + 1))
        return luaL_error(L, "future:complete: too many values for one coroutine");
    lua_insert(L, 2);
    lua_xmove(L, values, count);
    lua_setiuservalue(L, 1, 1);
    self->completed = true;
    VISITED(isolate_of(L), orr_event_set(event_of(self)));
    return 0;
}

static int future_is_completed(lua_State *L)
{
    lua_pushboolean(L, future_check(L)->completed);
    return 1;
}

/* future:_values(): the error, or nil, and the results of a completed future. */
static int future_values(lua_State *L)
{
    luaL_argcheck(L, future_check(L)->completed, 1, "the future is not completed");
    lua_settop(L, 1);
    return push_values(L);
}

static int future_gc(lua_State *L)
{
    struct future_object *self = lua_touserdata(L, 1);
    return primitive_ended(L, FUTURE_CLASS, VISITED(isolate_of(L), event_end(event_of(self))));
}

static int async_future(lua_State *L)
{
    struct future_object *self = primitive_new(L, FUTURE_CLASS, sizeof *self + event_size, 1);
    return primitive_made(L, "async.future", VISITED(isolate_of(L), event_init(event_of(self))));
}

void future_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "complete", future_complete }, { "is_completed", future_is_completed },
        { "_values", future_values },    { "_wait", future_wait },
        { "__gc", future_gc },           { NULL, NULL },
    };
    static const luaL_Reg functions[] = { { "future", async_future }, { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_FUTURE, FUTURE_CLASS, methods);
    isolate_register(iso, L, functions);
}
