#include "lua/isolate/registry.h"

#include "lua/isolate.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/settings.h"

#include <string.h>

void registry_open(struct orr_isolate *iso, lua_State *L)
{
    lua_createtable(L, 16, 0);
    iso->registry.anchors = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    iso->registry.coroutines = luaL_ref(L, LUA_REGISTRYINDEX);
}

void registry_push_weak_table(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
}

/* --- Registration ----------------------------------------------------------------------------- */

void isolate_register(struct orr_isolate *iso, lua_State *L, const luaL_Reg *functions)
{
    lua_pushlightuserdata(L, iso);
    luaL_setfuncs(L, functions, 1);
}

/* Watches the methods at the top, as those of "a task" for the class "orrery.task". */
static void watch_methods(lua_State *L, const char *class)
{
    const char *name = strrchr(class, '.') ? strrchr(class, '.') + 1 : class;
    lua_pushfstring(L, "%s %s", strchr("aeiou", *name) ? "an" : "a", name);
    lua_insert(L, -2);
    missing_watch(L, lua_tostring(L, -2));
    lua_remove(L, -2);
}

void isolate_class(struct orr_isolate *iso, lua_State *L, const char *name, const luaL_Reg *methods)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    for (const luaL_Reg *method = methods; method->name; method++) {
        const luaL_Reg one[] = { *method, { NULL, NULL } };
        bool special = !strncmp(method->name, "__", 2);
        lua_pushvalue(L, special ? -2 : -1);
        isolate_register(iso, L, one);
        lua_pop(L, 1);
    }
    watch_methods(L, name);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    if (isolate_is_sandboxed(iso) || iso->settings->for_jobs)
        lua_pushboolean(L, false); /* or one script or job could change them for all */
    else
        lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__metatable"); /* scripts see only the methods, not the finalizer */
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void isolate_push_methods(lua_State *L, const char *name)
{
    luaL_getmetatable(L, name);
    lua_getfield(L, -1, "methods");
    lua_remove(L, -2);
}

void isolate_object_class(struct orr_isolate *iso, lua_State *L, enum object_class which, const char *name,
                          const luaL_Reg *methods)
{
    isolate_class(iso, L, name, methods);
    if (iso->registry.identities[which])
        return; /* an attempt that has failed has made the metatable */
    luaL_getmetatable(L, name);
    const void *identity = lua_topointer(L, -1);
    iso->registry.classes[which] = luaL_ref(L, LUA_REGISTRYINDEX);
    iso->registry.identities[which] = identity;
}

void isolate_set_class(lua_State *L, enum object_class which)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, isolate_of(L)->registry.classes[which]);
    lua_setmetatable(L, -2);
}

void *isolate_test(lua_State *L, int index, enum object_class which)
{
    void *object = lua_touserdata(L, index);
    if (!object || !lua_getmetatable(L, index))
        return NULL;
    const void *identity = lua_topointer(L, -1);
    lua_pop(L, 1);
    return identity == isolate_of(L)->registry.identities[which] ? object : NULL;
}

void *isolate_check(lua_State *L, int index, enum object_class which, const char *name)
{
    void *object = isolate_test(L, index, which);
    return object ? object : luaL_checkudata(L, index, name); /* raises */
}

/* --- Anchors and coroutines ------------------------------------------------------------------- */

/* A few free anchors are in an array; the others form a list in the table itself. */
static int take_free_anchor(struct orr_isolate *iso, lua_State *L)
{
    if (iso->registry.spare_count)
        return iso->registry.spare_anchors[--iso->registry.spare_count];
    int index = iso->registry.free_anchor;
    if (!index)
        return 0;
    lua_rawgeti(L, -1, index);
    iso->registry.free_anchor = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return index;
}

int isolate_anchor(struct orr_isolate *iso, lua_State *L)
{
    registry_push_anchors(&iso->registry, L);
    int index = take_free_anchor(iso, L);
    bool grows = !index;
    if (grows)
        index = iso->registry.last_anchor + 1;
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, index); /* may raise when the table grows: then nothing has changed */
    if (grows)
        iso->registry.last_anchor = index;
    lua_pop(L, 1);
    return index;
}

void isolate_push_anchored(struct orr_isolate *iso, lua_State *L, int anchor)
{
    registry_push_anchors(&iso->registry, L);
    lua_rawgeti(L, -1, anchor);
    lua_remove(L, -2);
}

void isolate_unanchor(struct orr_isolate *iso, lua_State *L, int anchor)
{
    registry_push_anchors(&iso->registry, L);
    bool spare = iso->registry.spare_count < SPARE_ANCHORS;
    lua_pushinteger(L, spare ? 0 : iso->registry.free_anchor);
    lua_rawseti(L, -2, anchor); /* replaces the anchored value */
    lua_pop(L, 1);
    if (spare)
        iso->registry.spare_anchors[iso->registry.spare_count++] = anchor;
    else
        iso->registry.free_anchor = anchor;
}

void isolate_set_anchor(struct orr_isolate *iso, lua_State *L, int anchor, bool value)
{
    if (!value)
        lua_pushboolean(L, false);
    registry_push_anchors(&iso->registry, L);
    lua_insert(L, -2);
    lua_rawseti(L, -2, anchor);
    lua_pop(L, 1);
}

/* Makes room for one more spare coroutine.  May raise. */
static void add_place(struct registry *self, lua_State *L)
{
    if (self->coroutine_places == COROUTINES_MAX)
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, self->coroutines);
    lua_pushboolean(L, false);
    lua_rawseti(L, -2, self->coroutine_places + 1);
    lua_pop(L, 1);
    self->coroutine_places++;
}

lua_State *isolate_coroutine(struct orr_isolate *iso, lua_State *L)
{
    if (!iso->registry.coroutine_count) {
        add_place(&iso->registry, L);
        lua_State *co = lua_newthread(L);
        interrupt_made_coroutine(iso, L, co);
        return co;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->registry.coroutines);
    lua_rawgeti(L, -1, iso->registry.coroutine_count);
    lua_pushboolean(L, false);
    lua_rawseti(L, -3, iso->registry.coroutine_count--);
    lua_remove(L, -2);
    return lua_tothread(L, -1);
}

void isolate_recycle(struct orr_isolate *iso, lua_State *co)
{
    if (iso->registry.coroutine_count == iso->registry.coroutine_places || iso->closing)
        return;
    lua_settop(co, 0);
    if (lua_gethook(co))
        lua_sethook(co, NULL, 0, 0); /* a new task begins without a hook */
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->registry.coroutines);
    lua_pushthread(co);
    lua_rawseti(co, -2, ++iso->registry.coroutine_count);
    lua_settop(co, 0);
}
