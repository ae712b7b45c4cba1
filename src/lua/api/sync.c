/*
 * async.event, queue, semaphore, mutex, condition: the primitives of the core, each in a userdata and so in Lua's own memory.  Lua frees that
 * when the finalizer has ended the primitive; one that somebody waits for is finalized again later.  A wait is a function that
 * begins the core's wait, or goes on with it, and suspends while that says so; the primitive is at 1.
 */
#include "lua/api/sync.h"

#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"
#include "sync/embed.h"

#include <errno.h>
#include <string.h>

#define CHECK(type, L, name) ((struct type *)isolate_check((L), 1, OBJECT_##name, name))

/* Does something to a primitive that the core does on the worker's thread only. */
#define VISITED(iso, call) \
    __extension__({ \
        int answer_ = isolate_visit(iso); \
        if (!answer_) { \
            answer_ = (call); \
            isolate_leave(iso); \
        } \
        answer_; \
    })

static int raise_misuse(lua_State *L, const char *what, int error)
{
    return luaL_error(L, "%s: %s", what, strerror(-error));
}

/* Ends a primitive, in a finalizer.  If somebody waits for it yet, that is tried again after the next cycle. */
#define FINALIZE(L, class, end) \
    do { \
        if (VISITED(isolate_of(L), end) == -EBUSY) \
            luaL_setmetatable(L, class); \
        else \
            objects_gone(isolate_of(L)); \
        return 0; \
    } while (0)

static void *new_object(lua_State *L, const char *class, size_t size)
{
    objects_check(isolate_of(L), L);
    void *object = lua_newuserdatauv(L, size, 0);
    memset(object, 0, size); /* as if it were ended */
    luaL_setmetatable(L, class);
    objects_made(isolate_of(L));
    return object;
}

/* --- Event ------------------------------------------------------------------------------------------------------------ */

#define EVENT "orrery.event"

static int event_wait(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "event:wait");
    int error = orr_event_wait(self->task, &self->wait, CHECK(orr_event, L, EVENT));
    if (error == -EAGAIN)
        return suspend(L, event_wait, context);
    return error ? wait_raise(L, error) : 0;
}

static int lua_event_wait(lua_State *L)
{
    return event_wait(L, LUA_OK, 0);
}

/* With a number, at most so many are woken, and the event is set only if none is left waiting. */
static int lua_event_set(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct orr_event *event = CHECK(orr_event, L, EVENT);
    lua_Integer most = luaL_optinteger(L, 2, -1);
    int woken = most < 0 ? VISITED(iso, orr_event_set(event)) : VISITED(iso, orr_event_wake(event, (unsigned)most));
    if (most >= 0 && woken < most)
        VISITED(iso, orr_event_set(event));
    lua_pushinteger(L, woken < 0 ? 0 : woken);
    return 1;
}

static int lua_event_clear(lua_State *L)
{
    struct orr_event *event = CHECK(orr_event, L, EVENT);
    VISITED(isolate_of(L), orr_event_clear(event));
    return 0;
}

static int lua_event_is_set(lua_State *L)
{
    lua_pushboolean(L, orr_event_is_set(CHECK(orr_event, L, EVENT)));
    return 1;
}

static int event_gc(lua_State *L)
{
    FINALIZE(L, EVENT, event_end(lua_touserdata(L, 1)));
}

static int async_event(lua_State *L)
{
    struct orr_event *event = new_object(L, EVENT, event_size);
    int error = VISITED(isolate_of(L), event_init(event));
    return error ? raise_misuse(L, "async.event", error) : 1;
}

static const luaL_Reg event_methods[] = {
    { "wait", lua_event_wait },     { "set", lua_event_set }, { "clear", lua_event_clear },
    { "is_set", lua_event_is_set }, { "__gc", event_gc },     { NULL, NULL },
};

/* --- Semaphore --------------------------------------------------------------------------------------------------------- */

#define SEMAPHORE "orrery.semaphore"

static int semaphore_acquire(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "semaphore:acquire");
    int error = orr_semaphore_acquire(self->task, &self->wait, CHECK(orr_semaphore, L, SEMAPHORE));
    if (error == -EAGAIN)
        return suspend(L, semaphore_acquire, context);
    return error ? wait_raise(L, error) : 0;
}

static int lua_semaphore_acquire(lua_State *L)
{
    return semaphore_acquire(L, LUA_OK, 0);
}

static int lua_semaphore_try(lua_State *L)
{
    struct orr_semaphore *semaphore = CHECK(orr_semaphore, L, SEMAPHORE);
    lua_pushboolean(L, VISITED(isolate_of(L), orr_semaphore_try(semaphore)) == 0);
    return 1;
}

static int lua_semaphore_release(lua_State *L)
{
    struct orr_semaphore *semaphore = CHECK(orr_semaphore, L, SEMAPHORE);
    int error = VISITED(isolate_of(L), orr_semaphore_release(semaphore));
    if (error == -EOVERFLOW)
        return luaL_error(L, "semaphore:release: released more often than acquired");
    return error ? raise_misuse(L, "semaphore:release", error) : 0;
}

static int semaphore_gc(lua_State *L)
{
    FINALIZE(L, SEMAPHORE, semaphore_end(lua_touserdata(L, 1)));
}

static int async_semaphore(lua_State *L)
{
    lua_Integer permits = luaL_checkinteger(L, 1);
    luaL_argcheck(L, permits >= 1 && permits <= UINT32_MAX, 1, "expected a number of permits, at least 1");
    struct orr_semaphore *semaphore = new_object(L, SEMAPHORE, semaphore_size);
    int error = VISITED(isolate_of(L), semaphore_init(semaphore, (uint32_t)permits));
    return error ? raise_misuse(L, "async.semaphore", error) : 1;
}

static const luaL_Reg semaphore_methods[] = {
    { "acquire", lua_semaphore_acquire },
    { "try_acquire", lua_semaphore_try },
    { "release", lua_semaphore_release },
    { "__close", lua_semaphore_release },
    { "__gc", semaphore_gc },
    { NULL, NULL },
};

/* --- Mutex ---------------------------------------------------------------------------------------------------------------- */

#define MUTEX "orrery.mutex"

static int mutex_lock(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "mutex:lock");
    int error = orr_mutex_lock(self->task, &self->wait, CHECK(orr_mutex, L, MUTEX));
    if (error == -EAGAIN)
        return suspend(L, mutex_lock, context);
    if (error == -EDEADLK)
        return luaL_error(L, "mutex:lock: this task has it already");
    if (error == -EOWNERDEAD)
        error = 0; /* its last owner ended without unlocking it; it is this task's now */
    return error ? wait_raise(L, error) : 0;
}

static int lua_mutex_lock(lua_State *L)
{
    return mutex_lock(L, LUA_OK, 0);
}

static int lua_mutex_try(lua_State *L)
{
    struct ltask *self = ltask_current(L, "mutex:try_lock");
    int error = orr_mutex_try(self->task, CHECK(orr_mutex, L, MUTEX));
    lua_pushboolean(L, error == 0 || error == -EOWNERDEAD);
    return 1;
}

static int lua_mutex_unlock(lua_State *L)
{
    struct ltask *self = ltask_current(L, "mutex:unlock");
    int error = orr_mutex_unlock(self->task, CHECK(orr_mutex, L, MUTEX));
    if (error == -EPERM)
        return luaL_error(L, "mutex:unlock: this task has not locked it");
    return error ? raise_misuse(L, "mutex:unlock", error) : 0;
}

static int lua_mutex_locked(lua_State *L)
{
    lua_pushboolean(L, orr_mutex_locked(CHECK(orr_mutex, L, MUTEX)));
    return 1;
}

static int mutex_gc(lua_State *L)
{
    FINALIZE(L, MUTEX, mutex_end(lua_touserdata(L, 1)));
}

static int async_mutex(lua_State *L)
{
    struct orr_mutex *mutex = new_object(L, MUTEX, mutex_size);
    int error = VISITED(isolate_of(L), mutex_init(mutex));
    return error ? raise_misuse(L, "async.mutex", error) : 1;
}

static const luaL_Reg mutex_methods[] = {
    { "lock", lua_mutex_lock },
    { "try_lock", lua_mutex_try },
    { "unlock", lua_mutex_unlock },
    { "is_locked", lua_mutex_locked },
    { "__close", lua_mutex_unlock },
    { "__gc", mutex_gc },
    { NULL, NULL },
};

/* --- Condition --------------------------------------------------------------------------------------------------------------- */

#define CONDITION "orrery.condition"

static int condition_wait(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "condition:wait");
    struct orr_mutex *mutex = isolate_check(L, 2, OBJECT_MUTEX, MUTEX);
    int error = orr_condition_wait(self->task, &self->wait, CHECK(orr_condition, L, CONDITION), mutex);
    if (error == -EAGAIN)
        return suspend(L, condition_wait, context);
    if (error == -EPERM)
        return luaL_error(L, "condition:wait: lock the mutex first");
    return error && error != -EOWNERDEAD ? wait_raise(L, error) : 0;
}

static int lua_condition_wait(lua_State *L)
{
    ltask_waiting(L, "condition:wait"); /* before the mutex is given up */
    return condition_wait(L, LUA_OK, 0);
}

static int lua_condition_notify(lua_State *L)
{
    struct orr_condition *condition = CHECK(orr_condition, L, CONDITION);
    lua_Integer most = luaL_optinteger(L, 2, 1);
    luaL_argcheck(L, most >= 0, 2, "expected how many, at least 0");
    lua_pushinteger(L, VISITED(isolate_of(L), orr_condition_notify(condition, (unsigned)most)));
    return 1;
}

static int lua_condition_notify_all(lua_State *L)
{
    struct orr_condition *condition = CHECK(orr_condition, L, CONDITION);
    lua_pushinteger(L, VISITED(isolate_of(L), orr_condition_notify(condition, UINT32_MAX)));
    return 1;
}

static int condition_gc(lua_State *L)
{
    FINALIZE(L, CONDITION, condition_end(lua_touserdata(L, 1)));
}

static int async_condition(lua_State *L)
{
    struct orr_condition *condition = new_object(L, CONDITION, condition_size);
    int error = VISITED(isolate_of(L), condition_init(condition));
    return error ? raise_misuse(L, "async.condition", error) : 1;
}

static const luaL_Reg condition_methods[] = {
    { "wait", lua_condition_wait },
    { "notify", lua_condition_notify },
    { "notify_all", lua_condition_notify_all },
    { "__gc", condition_gc },
    { NULL, NULL },
};

/* --- Queue ---------------------------------------------------------------------------------------------------------------------- */

/*
 * The core's items are numbers; the values are in a table, its user value, under those.  A number that is free again has the next
 * of a list of such in the table, so that the table stays an array, and is as long as the queue has been.
 */
#define QUEUE "orrery.queue"

struct queue_object {
    lua_Integer last; /* the numbers in use or free are from 1 to this */
    lua_Integer free; /* the first of the list; 0 for none */
    void *queue[];    /* a struct orr_queue, aligned as pointers are */
};

static struct orr_queue *check_queue(lua_State *L)
{
    struct queue_object *object = isolate_check(L, 1, OBJECT_QUEUE, QUEUE);
    return (struct orr_queue *)object->queue;
}

/* [queue] ...: pushes the table; the number is free. */
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
    if (error == -EAGAIN)
        return suspend(L, queue_put, number);
    if (!error)
        return 0;
    forget_item(L, number); /* it has not been put */
    return error == -EPIPE ? luaL_error(L, "queue:put: the queue is closed") : wait_raise(L, error);
}

/* Keeps the value at 2 for the queue; answers its number. */
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

static int lua_queue_put(lua_State *L)
{
    isolate_check(L, 1, OBJECT_QUEUE, QUEUE);
    ltask_current(L, "queue:put");
    return queue_put(L, LUA_OK, (lua_KContext)keep_item(L));
}

static int lua_queue_put_nowait(lua_State *L)
{
    struct orr_queue *queue = check_queue(L);
    lua_Integer number = keep_item(L);
    int error = VISITED(isolate_of(L), orr_queue_try_put(queue, (void *)(intptr_t)number));
    if (error)
        forget_item(L, number);
    if (error == -EPIPE)
        return luaL_error(L, "queue:put_nowait: the queue is closed");
    if (error && error != -EAGAIN)
        return raise_misuse(L, "queue:put_nowait", error);
    lua_pushboolean(L, !error);
    return 1;
}

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
    if (error == -EAGAIN)
        return suspend(L, queue_get, context);
    if (error && error != -EPIPE)
        return wait_raise(L, error);
    if (!error)
        return take_item(L, item);
    lua_pushnil(L); /* the end */
    return 1;
}

static int lua_queue_get(lua_State *L)
{
    return queue_get(L, LUA_OK, 0);
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
    FINALIZE(L, QUEUE, queue_end((struct orr_queue *)object->queue));
}

static int async_queue(lua_State *L)
{
    lua_Integer capacity = luaL_optinteger(L, 1, 0);
    luaL_argcheck(L, capacity >= (lua_isnoneornil(L, 1) ? 0 : 1), 1, "expected a capacity, at least 1");
    size_t size = sizeof(struct queue_object) + queue_size;
    objects_check(isolate_of(L), L);
    struct queue_object *object = lua_newuserdatauv(L, size, 1);
    memset(object, 0, size);
    luaL_setmetatable(L, QUEUE);
    objects_made(isolate_of(L));
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    struct alloc alloc = charge_alloc(isolate_of(L));
    int error = VISITED(isolate_of(L), queue_init((struct orr_queue *)object->queue, (size_t)capacity, NULL, &alloc));
    return error ? raise_misuse(L, "async.queue", error) : 1;
}

static const luaL_Reg queue_methods[] = {
    { "put", lua_queue_put },
    { "put_nowait", lua_queue_put_nowait },
    { "get", lua_queue_get },
    { "get_nowait", lua_queue_get_nowait },
    { "close", lua_queue_close },
    { "size", lua_queue_len },
    { "__len", lua_queue_len },
    { "__gc", queue_gc },
    { NULL, NULL },
};

void sync_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "event", async_event },         { "semaphore", async_semaphore }, { "mutex", async_mutex },
        { "condition", async_condition }, { "queue", async_queue },         { NULL, NULL },
    };
    isolate_object_class(iso, L, OBJECT_EVENT, EVENT, event_methods);
    isolate_object_class(iso, L, OBJECT_SEMAPHORE, SEMAPHORE, semaphore_methods);
    isolate_object_class(iso, L, OBJECT_MUTEX, MUTEX, mutex_methods);
    isolate_object_class(iso, L, OBJECT_CONDITION, CONDITION, condition_methods);
    isolate_object_class(iso, L, OBJECT_QUEUE, QUEUE, queue_methods);
    isolate_register(iso, L, functions);
}
