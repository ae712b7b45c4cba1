#include "lua/task/task_finalizer.h"

#include "lua/isolate/charge.h"
#include "lua/task/orphans.h"
#include "lua/task/task_parts.h"

#define ESTATE "orrery.estate"

static const char task_finalizers_key; /* in the registry: task_finalizers by handle, which are weak keys */

/* The handle is gone, or is about to be: then it comes back, to end in order. */
static int task_finalizer_gc(lua_State *L)
{
    struct task_finalizer *self = lua_touserdata(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *lost = self->lost;
    if (self->revived) {
        self->revived = false;
        luaL_setmetatable(L, ESTATE); /* to be finalized when it is gone */
        return 0;
    }
    if (lost && lost->task && task_is_live(lost->task)) {
        self->lost = NULL;
        luaL_setmetatable(L, ESTATE); /* to be finalized once more */
        lua_getiuservalue(L, 1, 1);
        orphans_found(L, lost);
        return 0;
    }
    lua_getiuservalue(L, 1, 1);
    struct ltask *handle = lua_touserdata(L, -1);
    if (handle && handle->task == self->task)
        handle->task = NULL;
    if (self->task && !isolate_visit(iso)) {
        ltask_leave_core(self->task, iso); /* which had the handle */
        isolate_leave(iso);
    }
    charge_free_text(iso, &self->report);
    charge_free_text(iso, &self->created);
    *self = (struct task_finalizer){ 0 };
    return 0;
}

void task_finalizer_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "__gc", task_finalizer_gc }, { NULL, NULL } };
    isolate_class(iso, L, ESTATE, methods);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &task_finalizers_key);
}

struct task_finalizer *task_finalizer_make(lua_State *L, struct ltask *self)
{
    if (self->task_finalizer)
        return self->task_finalizer;
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &task_finalizers_key);
    lua_pushvalue(L, -2);
    struct task_finalizer *task_finalizer = lua_newuserdatauv(L, sizeof *task_finalizer, 1);
    *task_finalizer = (struct task_finalizer){ 0 };
    lua_pushvalue(L, -2);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, ESTATE);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    self->task_finalizer = task_finalizer;
    return task_finalizer;
}

static int make_protected(lua_State *L)
{
    struct ltask *self = lua_touserdata(L, 1);
    isolate_push_anchored(self->iso, L, self->anchor);
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

void task_finalizer_watch(struct ltask *self, bool weak)
{
    self->task_finalizer->lost = weak ? self : NULL;
}

/* What is to be finalized is taken out of weak keys a cycle later than out of weak values. */
void task_finalizer_revive(lua_State *L, struct ltask *self)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &task_finalizers_key);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_touserdata(L, -2) != self)
            continue;
        self->task_finalizer->revived = true;
        lua_pop(L, 1);
        lua_remove(L, -2);
        return;
    }
    lua_pushnil(L); /* [task_finalizers] [nil] */
    lua_remove(L, -2);
}
