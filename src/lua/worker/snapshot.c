#include "lua/worker/snapshot.h"

#include "lua/sandbox/sandbox.h"

/*
 * What is remembered is a list, so many entries for each thing: a table, its keys and values in the order of lua_next(), its metatable
 * or false, how many keys, and a block with the addresses of its keys and values, in the same order; or a function, its upvalues, false,
 * how many, and false.
 *
 * This is done after every job, so it is to be quick where nothing has changed: a key or value that has an address is the same if that
 * is, for what is in the list keeps it from being anybody else's.
 */
enum { THING = 0, CONTENTS, METATABLE, COUNT, ADDRESSES, STRIDE };

struct address {
    const void *key, *value; /* NULL for what has none: a number, a boolean */
};

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

static bool has_field(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    bool has = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

/* Whether it was there at the first look around: this one, or that before. */
static bool is_of_library(lua_State *L, int index)
{
    if (lua_isnil(L, LIBRARY))
        return true;
    lua_pushvalue(L, index);
    bool is = lua_rawget(L, LIBRARY) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

/* What the library holds weakly is a cache, and no state. */
static bool is_cache(lua_State *L, int table, int metatable)
{
    return has_field(L, metatable, "__mode") && is_of_library(L, table);
}

/* A metatable of the library's that scripts cannot get hold of, they cannot change. */
static bool is_pooled(lua_State *L, int metatable)
{
    if (!has_field(L, metatable, "__metatable") || !is_of_library(L, metatable))
        return false;
    lua_pushvalue(L, metatable);
    lua_pushboolean(L, true);
    lua_rawset(L, SEEN);
    return true;
}

static lua_Integer count_keys(lua_State *L, int table)
{
    lua_Integer count = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        count++;
    return count;
}

/* Writes a table's keys and values into `contents`, and their addresses. */
static void write_down(lua_State *L, int table, int contents, struct address *address)
{
    lua_Integer at = 0;
    for (lua_pushnil(L); lua_next(L, table); at += 2, address++) {
        *address = (struct address){ lua_topointer(L, -2), lua_topointer(L, -1) };
        lua_rawseti(L, contents, at + 2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, contents, at + 1);
    }
}

/* The table at the top, which is taken off. */
static void remember_table(lua_State *L)
{
    int table = lua_gettop(L);
    lua_newtable(L);
    if (!lua_getmetatable(L, table))
        lua_pushboolean(L, false);
    if (lua_istable(L, -1) && is_cache(L, table, table + METATABLE)) {
        lua_settop(L, table - 1);
        return;
    }
    if (lua_istable(L, -1) && !is_pooled(L, table + METATABLE)) {
        lua_pushvalue(L, -1);
        note(L);
    }
    lua_Integer count = count_keys(L, table);
    lua_pushinteger(L, count);
    write_down(L, table, table + CONTENTS, lua_newuserdatauv(L, (size_t)count * sizeof(struct address), 0));
    for (lua_Integer i = 1; i <= 2 * count; i++) {
        lua_rawgeti(L, table + CONTENTS, i);
        note(L);
    }
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
    lua_pushboolean(L, false);
    add(L);
}

static void note_loaded(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    note(L);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    note(L);
}

/* Of the function at FIRST, which is taken off. */
static void note_upvalues(lua_State *L)
{
    for (int i = 1; lua_isfunction(L, FIRST) && lua_getupvalue(L, FIRST, i); i++)
        note(L);
    lua_settop(L, TODO);
}

/* `require` has, as upvalues, what is loaded; what it finds for untrusted scripts is elsewhere, and the API in its own loader. */
static void note_require(lua_State *L)
{
    lua_getglobal(L, "require");
    note_upvalues(L);
    sandbox_push_registered(L);
    note(L);
    if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE) == LUA_TTABLE) {
        lua_getfield(L, -1, "orrery");
        lua_remove(L, FIRST);
        note_upvalues(L);
    }
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
    note_loaded(L);
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

void snapshot_note_library(lua_State *L)
{
    lua_pushcfunction(L, look_around);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_call(L, 2, 2);
    lua_remove(L, -2);
}

bool snapshot_take(lua_State *L, int library, int script)
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

/* The value at the top and that in the list. */
static bool is_same_plain(lua_State *L, int value, int contents, lua_Integer at)
{
    lua_rawgeti(L, contents, at);
    bool same = lua_rawequal(L, -1, value - 1);
    lua_pop(L, 1);
    return same;
}

static bool is_unchanged(lua_State *L, int table, int contents, lua_Integer count, const struct address *address)
{
    lua_Integer at = 0;
    for (lua_pushnil(L); lua_next(L, table); at++, address++) {
        bool same = at < count && lua_topointer(L, -2) == address->key && lua_topointer(L, -1) == address->value &&
                    (address->key || is_same_plain(L, -2, contents, 2 * at + 1)) &&
                    (address->value || is_same_plain(L, -1, contents, 2 * at + 2));
        lua_pop(L, same ? 1 : 2);
        if (!same)
            return false;
    }
    return at == count;
}

static void put_back_table(lua_State *L, int table, int contents, lua_Integer count, struct address *addresses)
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
    write_down(L, table, contents, addresses); /* in the order that it has now */
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

void snapshot_restore(lua_State *L, int memory)
{
    memory = lua_absindex(L, memory);
    int thing = lua_gettop(L) + 1;
    luaL_checkstack(L, 12, NULL);
    for (lua_Integer at = 1; lua_rawgeti(L, memory, at) != LUA_TNIL; at += STRIDE) {
        lua_rawgeti(L, memory, at + CONTENTS);
        lua_rawgeti(L, memory, at + METATABLE);
        lua_rawgeti(L, memory, at + COUNT);
        lua_rawgeti(L, memory, at + ADDRESSES);
        lua_Integer count = lua_tointeger(L, -2);
        struct address *addresses = lua_touserdata(L, -1);
        if (!addresses) {
            put_back_function(L, thing, thing + CONTENTS, count);
        } else {
            if (!is_unchanged(L, thing, thing + CONTENTS, count, addresses))
                put_back_table(L, thing, thing + CONTENTS, count, addresses);
            put_back_metatable(L, thing, thing + METATABLE);
        }
        lua_settop(L, thing - 1);
    }
    lua_settop(L, thing - 1);
}
