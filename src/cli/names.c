#include "cli/names.h"

#include <lauxlib.h>
#include <lua.h>

#include <stdbool.h>
#include <string.h>

struct names {
    lua_State *to; /* the table is on top of its stack */
    bool failed;   /* that state is out of memory: the rest is left out */
};

struct entry {
    const char *place, *name;
};

/* Runs on the other state, protected: [names] [entry] */
static int add_protected(lua_State *L)
{
    const struct entry *entry = lua_touserdata(L, 2);
    luaL_getsubtable(L, 1, entry->place);
    lua_pushstring(L, entry->name);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    return 0;
}

static void add(struct names *names, const char *place, const char *name)
{
    lua_State *L = names->to;
    struct entry entry = { place, name };
    lua_pushcfunction(L, add_protected);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, &entry);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
        lua_pop(L, 1);
        names->failed = true;
    }
}

/* Adds the fields of the table on top, raw; tables among them too, to the given depth. */
static void add_fields(lua_State *L, struct names *names, const char *place, int depth)
{
    for (lua_pushnil(L); lua_next(L, -2) && !names->failed; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            continue;
        const char *name = lua_tostring(L, -2);
        if (*name == '_')
            continue;
        add(names, place, name);
        if (depth > 0 && lua_istable(L, -1))
            add_fields(L, names, name, depth - 1);
    }
}

/* Adds the methods of the API's objects: Lua keeps their classes in the registry. */
static void add_methods(lua_State *L, struct names *names)
{
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX) && !names->failed; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1) || strncmp(lua_tostring(L, -2), "orrery.", 7) != 0)
            continue;
        if (lua_getfield(L, -1, "methods") == LUA_TTABLE)
            add_fields(L, names, ":", 0);
        lua_pop(L, 1);
    }
}

/* [names] */
static int collect(lua_State *L)
{
    struct names *names = lua_touserdata(L, 1);
    luaL_checkstack(L, 32, NULL);
    lua_pushglobaltable(L);
    add_fields(L, names, "", 2);
    add_methods(L, names);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    if (lua_getfield(L, -1, "orrery") == LUA_TFUNCTION) {
        lua_call(L, 0, 1);
        add_fields(L, names, "orrery", 1);
    }
    return 0;
}

void names_push(lua_State *from, lua_State *to)
{
    struct names names = { .to = to };
    lua_newtable(to);
    if (!from || !lua_checkstack(from, 4) || !lua_checkstack(to, 8))
        return;
    lua_pushcfunction(from, collect);
    lua_pushlightuserdata(from, &names);
    if (lua_pcall(from, 1, 0, 0) != LUA_OK)
        lua_pop(from, 1);
}
