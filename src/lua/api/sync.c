/*
 * Each object holds a primitive of the core (primitive.h).  A method that waits calls a wait
 * function of the core, with the primitive at 1, and is its own continuation.
 */
#include "lua/api/sync.h"

#include "lua/api/primitive.h"
#include "lua/api/wait_step.h"
#include "lua/task/suspend.h"
#include "sync/embed.h"

#define EVENT_CLASS "orrery.event"
#define CONDITION_CLASS "orrery.condition"

#define CHECK(type, L, name) ((struct type *)isolate_check((L), 1, OBJECT_##name, name##_CLASS))

/* --- Event ------------------------------------------------------------------------------------ */

static int event_wait(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "event:wait");
    return wait_step_simply(L, orr_event_wait(self->task, &self->wait, CHECK(orr_event, L, EVENT)), event_wait,
                            context);
}

static int lua_event_wait(lua_State *L)
{
    return event_wait(L, LUA_OK, 0);
}

/* set([most]): wakes at most that many tasks, and sets the event only if none is left waiting. */
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
    return primitive_ended(L, EVENT_CLASS, VISITED(isolate_of(L), event_end(lua_touserdata(L, 1))));
}

static int async_event(lua_State *L)
{
    struct orr_event *event = primitive_new(L, EVENT_CLASS, event_size, 0);
    int error = VISITED(isolate_of(L), event_init(event));
    return primitive_made(L, "async.event", error);
}

static const luaL_Reg event_methods[] = {
    { "wait", lua_event_wait },     { "set", lua_event_set }, { "clear", lua_event_clear },
    { "is_set", lua_event_is_set }, { "__gc", event_gc },     { NULL, NULL },
};

/* --- Semaphore -------------------------------------------------------------------------------- */

static int semaphore_acquire(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "semaphore:acquire");
    return wait_step_simply(L, orr_semaphore_acquire(self->task, &self->wait, CHECK(orr_semaphore, L, SEMAPHORE)),
                            semaphore_acquire, context);
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
        return luaL_error(L, "semaphore:release: released more often than acquired; release it once for each acquire");
    return error ? primitive_raise(L, "semaphore:release", error) : 0;
}

static int semaphore_gc(lua_State *L)
{
    return primitive_ended(L, SEMAPHORE_CLASS, VISITED(isolate_of(L), semaphore_end(lua_touserdata(L, 1))));
}

static int async_semaphore(lua_State *L)
{
    lua_Integer permits = luaL_checkinteger(L, 1);
    luaL_argcheck(L, permits >= 0 && permits <= UINT32_MAX, 1, "expected a number of permits, at least 0");
    struct orr_semaphore *semaphore = primitive_new(L, SEMAPHORE_CLASS, semaphore_size, 0);
    int error = VISITED(isolate_of(L), semaphore_init(semaphore, (uint32_t)permits));
    return primitive_made(L, "async.semaphore", error);
}

static const luaL_Reg semaphore_methods[] = {
    { "acquire", lua_semaphore_acquire },
    { "try_acquire", lua_semaphore_try },
    { "release", lua_semaphore_release },
    { "__close", lua_semaphore_release },
    { "__gc", semaphore_gc },
    { NULL, NULL },
};

/* --- Mutex ------------------------------------------------------------------------------------ */

static int mutex_lock(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "mutex:lock");
    int error = orr_mutex_lock(self->task, &self->wait, CHECK(orr_mutex, L, MUTEX));
    if (error == -EDEADLK)
        return luaL_error(L, "mutex:lock: this task has locked it already; unlock it first");
    if (error == -EOWNERDEAD)
        return 0; /* its last owner ended without unlocking it; now it belongs to this task */
    return wait_step_simply(L, error, mutex_lock, context);
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
        return luaL_error(L, "mutex:unlock: this task has not locked it; only the task that locks it may unlock it");
    return error ? primitive_raise(L, "mutex:unlock", error) : 0;
}

static int lua_mutex_locked(lua_State *L)
{
    lua_pushboolean(L, orr_mutex_locked(CHECK(orr_mutex, L, MUTEX)));
    return 1;
}

static int mutex_gc(lua_State *L)
{
    return primitive_ended(L, MUTEX_CLASS, VISITED(isolate_of(L), mutex_end(lua_touserdata(L, 1))));
}

static int async_mutex(lua_State *L)
{
    struct orr_mutex *mutex = primitive_new(L, MUTEX_CLASS, mutex_size, 0);
    int error = VISITED(isolate_of(L), mutex_init(mutex));
    return primitive_made(L, "async.mutex", error);
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

/* --- Condition -------------------------------------------------------------------------------- */

static int condition_wait(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "condition:wait");
    struct orr_mutex *mutex = isolate_check(L, 2, OBJECT_MUTEX, MUTEX_CLASS);
    int error = orr_condition_wait(self->task, &self->wait, CHECK(orr_condition, L, CONDITION), mutex);
    if (error == -EPERM)
        return luaL_error(L, "condition:wait: lock the mutex first");
    if (error == -EOWNERDEAD)
        return 0; /* as for mutex:lock */
    return wait_step(L, error, condition_wait, context);
}

static int lua_condition_wait(lua_State *L)
{
    ltask_waiting(L, "condition:wait"); /* raises before the mutex is unlocked */
    return condition_wait(L, LUA_OK, 0);
}

static int lua_condition_notify(lua_State *L)
{
    struct orr_condition *condition = CHECK(orr_condition, L, CONDITION);
    lua_Integer most = luaL_optinteger(L, 2, 1);
    luaL_argcheck(L, most >= 0, 2, "expected a number of tasks to wake, at least 0");
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
    return primitive_ended(L, CONDITION_CLASS, VISITED(isolate_of(L), condition_end(lua_touserdata(L, 1))));
}

static int async_condition(lua_State *L)
{
    struct orr_condition *condition = primitive_new(L, CONDITION_CLASS, condition_size, 0);
    int error = VISITED(isolate_of(L), condition_init(condition));
    return primitive_made(L, "async.condition", error);
}

static const luaL_Reg condition_methods[] = {
    { "wait", lua_condition_wait },
    { "notify", lua_condition_notify },
    { "notify_all", lua_condition_notify_all },
    { "__gc", condition_gc },
    { NULL, NULL },
};

void sync_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "event", async_event }, { "semaphore", async_semaphore },
        { "mutex", async_mutex }, { "condition", async_condition },
        { NULL, NULL },
    };
    isolate_object_class(iso, L, OBJECT_EVENT, EVENT_CLASS, event_methods);
    isolate_object_class(iso, L, OBJECT_SEMAPHORE, SEMAPHORE_CLASS, semaphore_methods);
    isolate_object_class(iso, L, OBJECT_MUTEX, MUTEX_CLASS, mutex_methods);
    isolate_object_class(iso, L, OBJECT_CONDITION, CONDITION_CLASS, condition_methods);
    isolate_register(iso, L, functions);
}
