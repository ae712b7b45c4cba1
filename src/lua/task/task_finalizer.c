#include "lua/task/task_finalizer.h"

#include "lua/isolate/charge.h"

#define TASK_FINALIZER "orrery.task_finalizer"

static const char finalizers_key; /* in the registry: finalizers by handle, a weak key */

/* Lua calls a finalizer once: it is to be called again. */
static void finalize_again(lua_State *L)
{
    luaL_setmetatable(L, TASK_FINALIZER);
}

/* The handle is gone. */
static void settle(struct task_finalizer *self, struct orr_isolate *iso, struct ltask *handle)
{
    if (handle && handle->task == self->task)
        handle->task = NULL;
    if (self->task && !isolate_visit(iso)) {
        ltask_leave_core(self->task, iso); /* which had the handle */
        isolate_leave(iso);
    }
    trace_free(iso, &self->trace);
    charge_free_text(iso, &self->created);
    *self = (struct task_finalizer){ 0 };
}

/*
 * [finalizer]: its handle is gone; or it was lost while its task lives, and comes back, to end in
 * order.
 */
static int task_finalizer_gc(lua_State *L)
{
    struct task_finalizer *self = lua_touserdata(L, 1);
    if (self->revived) {
        self->revived = false;
        finalize_again(L);
        return 0;
    }
    lua_getiuservalue(L, 1, 1);
    struct ltask *handle = lua_touserdata(L, -1);
    task_lost_fn *on_lost = self->on_lost;
    if (on_lost && handle && handle->task && task_is_live(handle->task)) {
        self->on_lost = NULL;
        lua_pushvalue(L, 1);
        finalize_again(L);
        lua_pop(L, 1);
        on_lost(L, handle);
        return 0;
    }
    settle(self, isolate_of(L), handle);
    return 0;
}

void task_finalizer_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "__gc", task_finalizer_gc }, { NULL, NULL } };
    isolate_class(iso, L, TASK_FINALIZER, methods);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &finalizers_key);
}

struct task_finalizer *task_finalizer_make(lua_State *L, struct ltask *self)
{
    if (self->task_finalizer)
        return self->task_finalizer;
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &finalizers_key);
    lua_pushvalue(L, -2);
    struct task_finalizer *made = lua_newuserdatauv(L, sizeof *made, 1);
    *made = (struct task_finalizer){ 0 };
    lua_pushvalue(L, -2);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, TASK_FINALIZER);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    self->task_finalizer = made;
    return made;
}

static int make_protected(lua_State *L)
{
    struct ltask *self = lua_touserdata(L, 1);
    ltask_push_handle(L, self);
    task_finalizer_make(L, self);
    return 0;
}

struct task_finalizer *task_finalizer_try(struct ltask *self)
{
    lua_State *L = self->iso->L;
    if (self->task_finalizer || !lua_checkstack(L, 4))
        return self->task_finalizer;
    lua_pushcfunction(L, make_protected);
    lua_pushlightuserdata(L, self);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
    return self->task_finalizer;
}

void task_finalizer_watch(struct ltask *self, task_lost_fn *on_lost)
{
    self->task_finalizer->on_lost = on_lost;
}

/*
 * Lua takes an object that is to be finalized out of weak keys a cycle later than out of weak
 * values.
 */
void task_finalizer_revive(lua_State *L, struct ltask *self)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &finalizers_key);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_touserdata(L, -2) != self)
            continue;
        self->task_finalizer->revived = true;
        lua_pop(L, 1);
        lua_remove(L, -2);
        return;
    }
    lua_pushnil(L); /* [finalizers] [nil] */
    lua_remove(L, -2);
}
