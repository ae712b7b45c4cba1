#include "lua/worker/birth.h"

/*
 * What is remembered is a list, four entries for each thing: a table, its keys and values in the order of lua_next(), its metatable or
 * false, and how many keys; or a function, its upvalues, false, and how many.  As long as nothing has changed, comparing takes no
 * look-ups but those of lua_next() itself.
 */
enum { THING = 0, CONTENTS, METATABLE, COUNT, STRIDE };

/* --- Looking around ------------------------------------------------------------------------------------------------------ */

/* While it looks around, on the stack: `library` is a set, or nil if there is none yet; `strange`, whether something cannot be put back. */
enum { LIBRARY = 1, SCRIPT, MEMORY, SEEN, STRANGE, TODO, FIRST };

/* What a coroutine or an object holds, nobody can put back. */
static void note_strange(lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_pushboolean(L, true);
    lua_rawset(L, SEEN);
    if (lua_istable(L, LIBRARY) && lua_rawget(L, LIBRARY) == LUA_TNIL) {
        lua_pushboolean(L, true);
        lua_replace(L, STRANGE);
    }
    lua_pop(L, 1);
}

/* Puts the table or function at the top, taken off, on the list, if it is new. */
static void note(lua_State *L)
{
    if (lua_isthread(L, -1) || lua_type(L, -1) == LUA_TUSERDATA) {
        note_strange(L);
        return;
    }
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

/* [thing] [contents] [metatable] [count] -> [], at the end of the list. */
static void add(lua_State *L)
{
    lua_Integer at = (lua_Integer)lua_rawlen(L, MEMORY) + 1;
    for (int i = THING; i < STRIDE; i++) {
        lua_pushvalue(L, -STRIDE + i);
        lua_rawseti(L, MEMORY, at + i);
    }
    lua_pop(L, STRIDE);
}

/* What is held weakly is a cache, and no state. */
static bool is_weak(lua_State *L, int metatable)
{
    lua_pushliteral(L, "__mode");
    bool weak = lua_rawget(L, metatable) != LUA_TNIL;
    lua_pop(L, 1);
    return weak;
}

/* Writes a table's keys and values into `contents`; answers how many keys. */
static lua_Integer write_down(lua_State *L, int table, int contents)
{
    lua_Integer count = 0;
    for (lua_pushnil(L); lua_next(L, table); count++) {
        lua_rawseti(L, contents, 2 * count + 2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, contents, 2 * count + 1);
    }
    return count;
}

/* The table at the top, which is taken off. */
static void remember_table(lua_State *L)
{
    int table = lua_gettop(L);
    lua_newtable(L);
    if (!lua_getmetatable(L, table))
        lua_pushboolean(L, false);
    if (lua_istable(L, -1) && is_weak(L, table + METATABLE)) {
        lua_settop(L, table - 1);
        return;
    }
    lua_pushvalue(L, -1);
    note(L);
    lua_Integer count = write_down(L, table, table + CONTENTS);
    for (lua_Integer i = 1; i <= 2 * count; i++) {
        lua_rawgeti(L, table + CONTENTS, i);
        note(L);
    }
    lua_pushinteger(L, count);
    add(L);
}

/* The function at the top, which is taken off. */
static void remember_function(lua_State *L)
{
    int function = lua_gettop(L);
    lua_pushvalue(L, function);
    if (lua_isnil(L, LIBRARY) || lua_rawget(L, LIBRARY) != LUA_TNIL) {
        lua_settop(L, function - 1);
        return;
    }
    lua_settop(L, function);
    lua_newtable(L);
    lua_Integer count = 0;
    bool of_host = lua_iscfunction(L, function); /* its objects are its own business */
    for (; lua_getupvalue(L, function, (int)count + 1); count++) {
        lua_pushvalue(L, -1);
        if (of_host && lua_isuserdata(L, -1))
            lua_pop(L, 1);
        else
            note(L);
        lua_rawseti(L, function + CONTENTS, count + 1);
    }
    lua_pushboolean(L, false);
    lua_pushinteger(L, count);
    add(L);
}

/* What the registry has under numbers and addresses is the library's, and does its own housekeeping. */
static void note_registry(lua_State *L)
{
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX);) {
        if (lua_type(L, -2) == LUA_TSTRING)
            note(L);
        else
            lua_pop(L, 1);
    }
}

/* `require` has, as upvalues, what is loaded. */
static void note_require(lua_State *L)
{
    if (lua_getglobal(L, "require") == LUA_TFUNCTION)
        for (int i = 1; lua_getupvalue(L, FIRST, i); i++)
            note(L);
    lua_settop(L, TODO);
}

/* [library or nil] [script or nil] -> [memory] [seen] [strange] */
static int look_around(lua_State *L)
{
    for (int i = MEMORY; i <= TODO; i++)
        lua_newtable(L);
    lua_pushboolean(L, false);
    lua_replace(L, STRANGE);
    lua_pushvalue(L, SCRIPT);
    note(L);
    lua_pushglobaltable(L);
    note(L);
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1))
        note(L);
    lua_pop(L, 1);
    note_registry(L);
    note_require(L);
    for (lua_Integer last; (last = (lua_Integer)lua_rawlen(L, TODO));) {
        lua_rawgeti(L, TODO, last);
        lua_pushnil(L);
        lua_rawseti(L, TODO, last);
        if (lua_istable(L, -1))
            remember_table(L);
        else
            remember_function(L);
    }
    lua_settop(L, STRANGE);
    return 3;
}

void birth_note_library(lua_State *L)
{
    lua_pushcfunction(L, look_around);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_call(L, 2, 2);
    lua_remove(L, -2);
}

bool birth_remember(lua_State *L, int library, int script)
{
    library = lua_absindex(L, library);
    script = lua_absindex(L, script);
    lua_pushcfunction(L, look_around);
    lua_pushvalue(L, library);
    lua_pushvalue(L, script);
    lua_call(L, 2, 3);
    bool strange = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return !strange;
}

/* --- Putting back ------------------------------------------------------------------------------------------------------------ */

static bool is_unchanged(lua_State *L, int table, int contents, lua_Integer count)
{
    lua_Integer at = 0;
    for (lua_pushnil(L); lua_next(L, table); at++) {
        lua_rawgeti(L, contents, 2 * at + 1);
        lua_rawgeti(L, contents, 2 * at + 2);
        bool same = at < count && lua_rawequal(L, -1, -3) && lua_rawequal(L, -2, -4);
        lua_pop(L, same ? 3 : 4);
        if (!same)
            return false;
    }
    return at == count;
}

static void put_back_table(lua_State *L, int table, int contents, lua_Integer count)
{
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, table); /* of what is there: a traversal may go on */
    }
    for (lua_Integer i = 0; i < count; i++) {
        lua_rawgeti(L, contents, 2 * i + 1);
        lua_rawgeti(L, contents, 2 * i + 2);
        lua_rawset(L, table);
    }
    write_down(L, table, contents); /* in the order that it has now */
}

static void put_back_metatable(lua_State *L, int table, int metatable)
{
    if (!lua_getmetatable(L, table))
        lua_pushboolean(L, false);
    if (!lua_rawequal(L, -1, metatable)) {
        if (lua_istable(L, metatable))
            lua_pushvalue(L, metatable);
        else
            lua_pushnil(L);
        lua_setmetatable(L, table);
    }
    lua_pop(L, 1);
}

static void put_back_function(lua_State *L, int function, int contents, lua_Integer count)
{
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, contents, i);
        lua_getupvalue(L, function, i);
        bool same = lua_rawequal(L, -1, -2);
        lua_pop(L, 1);
        if (same)
            lua_pop(L, 1);
        else
            lua_setupvalue(L, function, i);
    }
}

void birth_restore(lua_State *L, int memory)
{
    memory = lua_absindex(L, memory);
    int thing = lua_gettop(L) + 1;
    luaL_checkstack(L, 12, NULL);
    for (lua_Integer at = 1; lua_rawgeti(L, memory, at) != LUA_TNIL; at += STRIDE) {
        lua_rawgeti(L, memory, at + CONTENTS);
        lua_rawgeti(L, memory, at + METATABLE);
        lua_rawgeti(L, memory, at + COUNT);
        lua_Integer count = lua_tointeger(L, -1);
        if (lua_isfunction(L, thing)) {
            put_back_function(L, thing, thing + CONTENTS, count);
        } else {
            if (!is_unchanged(L, thing, thing + CONTENTS, count))
                put_back_table(L, thing, thing + CONTENTS, count);
            put_back_metatable(L, thing, thing + METATABLE);
        }
        lua_settop(L, thing - 1);
    }
    lua_settop(L, thing - 1);
}
