/*
 * The core's queue holds numbers.  The values are in a table, the object's user value, each at its
 * number. Free numbers form a list inside the table: the value at a free number is the next free
 * number, and 0 ends the list.  So the table stays an array, as long as the queue has ever been.
 */
#include "lua/api/queue.h"

#include "lua/api/primitive.h"
#include "lua/api/wait_step.h"
#include "lua/isolate/charge.h"
#include "sync/embed.h"

#define QUEUE_CLASS "orrery.queue"

struct queue_object {
    lua_Integer last; /* numbers from 1 to this are in use or free */
    lua_Integer free; /* the first free number; 0 for none */
    bool takes_nil;   /* it was made under the older name, where nil is an item like any other */
    void *queue[];    /* a struct orr_queue, aligned as pointers are */
};

static struct orr_queue *check_queue(lua_State *L)
{
    struct queue_object *object = isolate_check(L, 1, OBJECT_QUEUE, QUEUE_CLASS);
    return (struct orr_queue *)object->queue;
}

/* Frees a number: [queue] [...] -> [queue] [...] [table]. */
static void forget_item(lua_State *L, lua_Integer number)
{
    struct queue_object *object = lua_touserdata(L, 1);
    lua_getiuservalue(L, 1, 1);
    lua_pushinteger(L, object->free);
    lua_rawseti(L, -2, number);
    object->free = number;
}

/* [queue] [value] */
static int queue_put(lua_State *L, int status, lua_KContext number)
{
    (void)status;
    struct ltask *self = ltask_current(L, "queue:put");
    int error = orr_queue_put(self->task, &self->wait, check_queue(L), (void *)number);
    if (error && error != -EAGAIN)
        forget_item(L, number); /* it has not been put */
    if (error == -EPIPE)
        return luaL_error(L, "queue:put: the queue is closed");
    return wait_step(L, error, queue_put, number);
}

/* Keeps the value at 2 in the table, and returns its number: [queue] [value].  May raise. */
static lua_Integer keep_item(lua_State *L)
{
    struct queue_object *object = lua_touserdata(L, 1);
    lua_settop(L, 2);
    lua_getiuservalue(L, 1, 1);
    lua_Integer number = object->free;
    if (!number) {
        lua_pushvalue(L, 2);
        lua_rawseti(L, -2, object->last + 1); /* may raise: then nothing has changed */
        lua_settop(L, 2);
        return ++object->last;
    }
    lua_rawgeti(L, -1, number);
    object->free = lua_tointeger(L, -1);
    lua_pushvalue(L, 2);
    lua_rawseti(L, 3, number);
    lua_settop(L, 2);
    return number;
}

/* Refuses nil: who gets nil from a queue takes the queue for closed. */
static void check_item(lua_State *L, const char *what)
{
    if (lua_isnoneornil(L, 2) && !((struct queue_object *)lua_touserdata(L, 1))->takes_nil)
        luaL_error(L,
                   "%s: cannot put nil, which queue:get() returns when the queue is closed and empty; "
                   "put another value, or end the queue with queue:close()",
                   what);
}

static int lua_queue_put(lua_State *L)
{
    isolate_check(L, 1, OBJECT_QUEUE, QUEUE_CLASS);
    check_item(L, "queue:put");
    ltask_current(L, "queue:put");
    return queue_put(L, LUA_OK, (lua_KContext)keep_item(L));
}

static int lua_queue_put_nowait(lua_State *L)
{
    struct orr_queue *queue = check_queue(L);
    check_item(L, "queue:put_nowait");
    lua_Integer number = keep_item(L);
    int error = VISITED(isolate_of(L), orr_queue_try_put(queue, (void *)(intptr_t)number));
    if (error)
        forget_item(L, number);
    if (error == -EPIPE)
        return luaL_error(L, "queue:put_nowait: the queue is closed");
    if (error && error != -EAGAIN)
        return primitive_raise(L, "queue:put_nowait", error);
    lua_pushboolean(L, !error);
    return 1;
}

/* Pushes the value of an item, and frees its number. */
static int take_item(lua_State *L, void *item)
{
    lua_Integer number = (intptr_t)item;
    lua_getiuservalue(L, 1, 1);
    lua_rawgeti(L, -1, number);
    forget_item(L, number);
    lua_pop(L, 1);
    return 1;
}

static int queue_get(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "queue:get");
    void *item;
    int error = orr_queue_get(self->task, &self->wait, check_queue(L), &item);
    if (!error)
        return take_item(L, item);
    if (error != -EPIPE)
        return wait_step_simply(L, error, queue_get, context);
    lua_pushnil(L); /* the queue is closed and empty */
    return 1;
}

static int lua_queue_get(lua_State *L)
{
    return queue_get(L, LUA_OK, 0);
}

/* for item in queue:iter() do: the queue is its own iterator. */
static int lua_queue_iter(lua_State *L)
{
    check_queue(L);
    lua_settop(L, 1);
    return 1;
}

static int lua_queue_get_nowait(lua_State *L)
{
    struct orr_queue *queue = check_queue(L);
    void *item;
    int error = VISITED(isolate_of(L), orr_queue_try_get(queue, &item));
    if (!error)
        return take_item(L, item);
    lua_pushnil(L);
    lua_pushstring(L, error == -EPIPE ? "closed" : "empty");
    return 2;
}

static int lua_queue_close(lua_State *L)
{
    struct orr_queue *queue = check_queue(L);
    VISITED(isolate_of(L), orr_queue_close(queue));
    return 0;
}

static int lua_queue_len(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)orr_queue_length(check_queue(L)));
    return 1;
}

static int queue_gc(lua_State *L)
{
    struct queue_object *object = lua_touserdata(L, 1);
    return primitive_ended(L, QUEUE_CLASS, VISITED(isolate_of(L), queue_end((struct orr_queue *)object->queue)));
}

static int make_queue(lua_State *L, bool takes_nil)
{
    lua_Integer capacity = luaL_optinteger(L, 1, 0);
    luaL_argcheck(L, capacity >= (lua_isnoneornil(L, 1) ? 0 : 1), 1, "expected a capacity, at least 1");
    struct queue_object *object = primitive_new(L, QUEUE_CLASS, sizeof *object + queue_size, 1);
    object->takes_nil = takes_nil;
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    struct alloc alloc = charge_alloc(isolate_of(L));
    int error = VISITED(isolate_of(L), queue_init((struct orr_queue *)object->queue, (size_t)capacity, NULL, &alloc));
    return primitive_made(L, "async.queue", error);
}

static int async_queue(lua_State *L)
{
    return make_queue(L, false);
}

static int async_older_queue(lua_State *L)
{
    return make_queue(L, true);
}

static const luaL_Reg queue_methods[] = {
    { "put", lua_queue_put },
    { "put_nowait", lua_queue_put_nowait },
    { "get", lua_queue_get },
    { "get_nowait", lua_queue_get_nowait },
    { "iter", lua_queue_iter },
    { "close", lua_queue_close },
    { "size", lua_queue_len },
    { "__call", lua_queue_get }, /* for item in queue do: until it is closed and empty */
    { "__len", lua_queue_len },
    { "__gc", queue_gc },
    { NULL, NULL },
};

void queue_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "queue", async_queue }, { "_queue", async_older_queue }, { NULL, NULL } };
    isolate_object_class(iso, L, OBJECT_QUEUE, QUEUE_CLASS, queue_methods);
    isolate_register(iso, L, functions);
}
