#include "lua/worker/birth.h"

#include <stdbool.h>

/*
 * While it looks around, the stack is [memory] [seen] [todo].  `memory` is a list of tables, each followed by a copy of it and by its
 * metatable or false; `seen` is the set of those in it, and of functions looked at; `todo` is a list of what is still to be looked at.
 */
enum { MEMORY = 1, SEEN, TODO, FIRST };

/* Puts the table or function at the top, taken off, on the list, if it is new. */
static void note(lua_State *L)
{
    if (!lua_istable(L, -1) && !lua_isfunction(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    lua_pushvalue(L, -1);
    bool is_new = lua_rawget(L, SEEN) == LUA_TNIL;
    lua_pop(L, 1);
    if (!is_new) {
        lua_pop(L, 1);
        return;
    }
    lua_pushvalue(L, -1);
    lua_pushboolean(L, true);
    lua_rawset(L, SEEN);
    lua_rawseti(L, TODO, (lua_Integer)lua_rawlen(L, TODO) + 1);
}

/* What is held weakly is a cache, and no state. */
static bool is_weak(lua_State *L, int metatable)
{
    lua_pushliteral(L, "__mode");
    bool weak = lua_rawget(L, metatable) != LUA_TNIL;
    lua_pop(L, 1);
    return weak;
}

/* The table at the top, which is taken off. */
static void remember_table(lua_State *L)
{
    int table = lua_gettop(L);
    if (!lua_getmetatable(L, table))
        lua_pushboolean(L, false);
    if (lua_istable(L, -1)) {
        if (is_weak(L, table + 1)) {
            lua_settop(L, table - 1);
            return;
        }
        lua_pushvalue(L, -1);
        note(L);
    }
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pushvalue(L, -2);
        note(L);
        lua_pushvalue(L, -1);
        note(L);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, table + 2);
    }
    lua_Integer next = (lua_Integer)lua_rawlen(L, MEMORY) + 1;
    lua_rotate(L, table, -1); /* metatable, copy, table */
    lua_rawseti(L, MEMORY, next);
    lua_rawseti(L, MEMORY, next + 1);
    lua_rawseti(L, MEMORY, next + 2);
}

static void look_into_function(lua_State *L)
{
    for (int i = 1; lua_getupvalue(L, -1, i); i++)
        note(L);
    lua_pop(L, 1);
}

/* What the registry has under numbers and addresses is the library's, and does its own housekeeping. */
static void note_registry(lua_State *L)
{
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX); ) {
        if (lua_type(L, -2) == LUA_TSTRING)
            note(L);
        else
            lua_pop(L, 1);
    }
}

/* [memory] -> [memory] */
static int remember(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushglobaltable(L);
    note(L);
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1))
        note(L);
    lua_pop(L, 1);
    note_registry(L);
    for (lua_Integer last; (last = (lua_Integer)lua_rawlen(L, TODO));) {
        lua_rawgeti(L, TODO, last);
        lua_pushnil(L);
        lua_rawseti(L, TODO, last);
        if (lua_istable(L, -1))
            remember_table(L);
        else
            look_into_function(L);
    }
    lua_settop(L, MEMORY);
    return 1;
}

void birth_remember(lua_State *L)
{
    lua_pushcfunction(L, remember);
    lua_newtable(L);
    lua_call(L, 1, 1);
}

/* Takes out what was not there, and puts back what is different.  Answers how many are as they were. */
static lua_Integer restore_present(lua_State *L, int table, int copy)
{
    lua_Integer same = 0;
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pushvalue(L, -2);
        lua_rawget(L, copy);
        if (lua_rawequal(L, -1, -2)) {
            lua_pop(L, 2);
            same++;
            continue;
        }
        same += !lua_isnil(L, -1);
        lua_pushvalue(L, -3);
        lua_insert(L, -2);
        lua_rawset(L, table); /* in its place: a traversal may go on */
        lua_pop(L, 1);
    }
    return same;
}

static void restore_absent(lua_State *L, int table, int copy)
{
    for (lua_pushnil(L); lua_next(L, copy);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, table);
    }
}

static lua_Integer count(lua_State *L, int table)
{
    lua_Integer entries = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        entries++;
    return entries;
}

static void restore_metatable(lua_State *L, int table, int metatable)
{
    if (!lua_getmetatable(L, table))
        lua_pushboolean(L, false);
    if (!lua_rawequal(L, -1, metatable)) {
        lua_pushvalue(L, metatable);
        if (!lua_istable(L, -1)) {
            lua_pop(L, 1);
            lua_pushnil(L);
        }
        lua_setmetatable(L, table);
    }
    lua_pop(L, 1);
}

void birth_restore(lua_State *L, int memory)
{
    memory = lua_absindex(L, memory);
    int table = lua_gettop(L) + 1;
    luaL_checkstack(L, 10, NULL);
    for (lua_Integer i = 1; lua_rawgeti(L, memory, i) == LUA_TTABLE; i += 3) {
        lua_rawgeti(L, memory, i + 1);
        lua_rawgeti(L, memory, i + 2);
        if (restore_present(L, table, table + 1) < count(L, table + 1))
            restore_absent(L, table, table + 1);
        restore_metatable(L, table, table + 2);
        lua_settop(L, table - 1);
    }
    lua_settop(L, table - 1);
}
