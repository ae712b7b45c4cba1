#include "lua/estate.h"

#include "lua/charge.h"
#include "lua/reach.h"
#include "lua/task_parts.h"

#define ESTATE "orrery.estate"

static const char estates_key; /* in the registry: estates by handle, which are weak keys */

/* The handle is gone, or is about to be: then it comes back, to end in order. */
static int estate_gc(lua_State *L)
{
    struct estate *self = lua_touserdata(L, 1);
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *lost = self->lost;
    if (self->revived) {
        self->revived = false;
        luaL_setmetatable(L, ESTATE); /* to be finalized when it is gone */
        return 0;
    }
    if (lost && lost->task && lost->task->life == TASK_LIVE) {
        self->lost = NULL;
        luaL_setmetatable(L, ESTATE); /* to be finalized once more */
        lua_getiuservalue(L, 1, 1);
        reach_lost(L, lost);
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
    *self = (struct estate){ 0 };
    return 0;
}

void estate_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "__gc", estate_gc }, { NULL, NULL } };
    isolate_class(iso, L, ESTATE, methods);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &estates_key);
}

struct estate *estate_make(lua_State *L, struct ltask *self)
{
    if (self->estate)
        return self->estate;
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &estates_key);
    lua_pushvalue(L, -2);
    struct estate *estate = lua_newuserdatauv(L, sizeof *estate, 1);
    *estate = (struct estate){ 0 };
    lua_pushvalue(L, -2);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, ESTATE);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    self->estate = estate;
    return estate;
}

static int make_protected(lua_State *L)
{
    struct ltask *self = lua_touserdata(L, 1);
    isolate_push_anchored(self->iso, L, self->anchor);
    estate_make(L, self);
    return 0;
}

struct estate *estate_try(struct ltask *self)
{
    lua_State *L = self->iso->L;
    if (self->estate || !lua_checkstack(L, 4))
        return self->estate;
    lua_pushcfunction(L, make_protected);
    lua_pushlightuserdata(L, self);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        lua_pop(L, 1);
    return self->estate;
}

void estate_watch(struct ltask *self, bool weak)
{
    self->estate->lost = weak ? self : NULL;
}

/* What is to be finalized is taken out of weak keys a cycle later than out of weak values. */
void estate_revive(lua_State *L, struct ltask *self)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &estates_key);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_touserdata(L, -2) != self)
            continue;
        self->estate->revived = true;
        lua_pop(L, 1);
        lua_remove(L, -2);
        return;
    }
    lua_pushnil(L); /* [estates] [nil] */
    lua_remove(L, -2);
}
