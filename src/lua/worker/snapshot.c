#include "lua/worker/snapshot.h"

#include "lua/sandbox/bounded.h"
#include "lua/sandbox/sandbox.h"

/*
 * A snapshot is a list with STRIDE entries for each object: a table, a list of its keys and values
 * in the order of lua_next(), its metatable or false, how many keys, and a block with the addresses
 * of its keys and values in the same order; or a function, a list of its upvalues, false, how many,
 * and false.
 *
 * A state is restored after every job, so that must be quick where nothing has changed.  A key or
 * value with the same address is the same: the snapshot keeps it alive, so no other object can have
 * the address.
 */
enum { OBJECT = 0, CONTENTS, METATABLE, COUNT, ADDRESSES, STRIDE };

struct address {
    const void *key, *value; /* NULL for numbers and booleans, which have none */
};

/* --- Taking ----------------------------------------------------------------------------------- */

/*
 * The stack while a snapshot is taken: LIBRARY is a set, or nil while that set itself is made;
 * STRANGE is true if something cannot be restored; TODO is a list of objects to visit.
 */
enum { LIBRARY = 1, SCRIPT, SNAPSHOT, SEEN, STRANGE, TODO, FIRST };

/* Notes the coroutine or userdata at the top, which is popped: it cannot be restored. */
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

/* Pops a value.  Puts a table or function on the list of objects to visit, if it is new. */
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

/* [object] [contents] [metatable] [count] [addresses] -> []: appends them to the snapshot. */
static void add(lua_State *L)
{
    lua_Integer at = (lua_Integer)lua_rawlen(L, SNAPSHOT) + 1;
    for (int i = OBJECT; i < STRIDE; i++) {
        lua_pushvalue(L, -STRIDE + i);
        lua_rawseti(L, SNAPSHOT, at + i);
    }
    lua_pop(L, STRIDE);
}

/* Whether an object is the library's: it was there before the host and the modules added theirs. */
static bool is_of_library(lua_State *L, int index)
{
    if (lua_isnil(L, LIBRARY))
        return true;
    lua_pushvalue(L, index);
    bool is = lua_rawget(L, LIBRARY) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

/* A weak table of the library is a cache and no state. */
static bool is_cache(lua_State *L, int table, int metatable)
{
    return bounded_has_field(L, metatable, "__mode") && is_of_library(L, table);
}

/*
 * Scripts cannot reach, and so cannot change, a protected metatable of the library.  Marks it as
 * seen.
 */
static bool skip_protected(lua_State *L, int metatable)
{
    if (!bounded_has_field(L, metatable, "__metatable") || !is_of_library(L, metatable))
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

/* Writes a table's keys and values into `contents`, and their addresses into `address`. */
static void copy_contents(lua_State *L, int table, int contents, struct address *address)
{
    lua_Integer at = 0;
    for (lua_pushnil(L); lua_next(L, table); at += 2, address++) {
        *address = (struct address){ lua_topointer(L, -2), lua_topointer(L, -1) };
        lua_rawseti(L, contents, at + 2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, contents, at + 1);
    }
}

/* Adds the table at the top, which is popped. */
static void add_table(lua_State *L)
{
    int table = lua_gettop(L);
    lua_newtable(L);
    if (!lua_getmetatable(L, table))
        lua_pushboolean(L, false);
    if (lua_istable(L, -1) && is_cache(L, table, table + METATABLE)) {
        lua_settop(L, table - 1);
        return;
    }
    if (lua_istable(L, -1) && !skip_protected(L, table + METATABLE)) {
        lua_pushvalue(L, -1);
        note(L);
    }
    lua_Integer count = count_keys(L, table);
    lua_pushinteger(L, count);
    copy_contents(L, table, table + CONTENTS, lua_newuserdatauv(L, (size_t)count * sizeof(struct address), 0));
    for (lua_Integer i = 1; i <= 2 * count; i++) {
        lua_rawgeti(L, table + CONTENTS, i);
        note(L);
    }
    add(L);
}

/* Adds the function at the top, which is popped, unless it is the library's. */
static void add_function(lua_State *L)
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
    bool of_host = lua_iscfunction(L, function); /* the userdata that it uses are its own */
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

/* Notes the upvalues of the function at FIRST, which is popped. */
static void note_upvalues(lua_State *L)
{
    for (int i = 1; lua_isfunction(L, FIRST) && lua_getupvalue(L, FIRST, i); i++)
        note(L);
    lua_settop(L, TODO);
}

/*
 * Notes what `require` can find.  The loaded modules are its upvalues; those of untrusted scripts
 * are in a table of the sandbox; the API is an upvalue of its loader.
 */
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

/* [library or nil] [script or nil] -> [snapshot] [seen] [strange] */
static int take(lua_State *L)
{
    for (int i = SNAPSHOT; i <= TODO; i++)
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
            add_table(L);
        else
            add_function(L);
    }
    lua_settop(L, STRANGE);
    return 3;
}

void snapshot_note_library(lua_State *L)
{
    lua_pushcfunction(L, take);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_call(L, 2, 2);
    lua_remove(L, -2);
}

bool snapshot_take(lua_State *L, int library, int script)
{
    library = lua_absindex(L, library);
    script = lua_absindex(L, script);
    lua_pushcfunction(L, take);
    lua_pushvalue(L, library);
    lua_pushvalue(L, script);
    lua_call(L, 2, 3);
    bool strange = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return !strange;
}

/* --- Restoring -------------------------------------------------------------------------------- */

/* Compares a value without an address with the one in the list. */
static bool is_same_in_list(lua_State *L, int value, int contents, lua_Integer at)
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
                    (address->key || is_same_in_list(L, -2, contents, 2 * at + 1)) &&
                    (address->value || is_same_in_list(L, -1, contents, 2 * at + 2));
        lua_pop(L, same ? 1 : 2);
        if (!same)
            return false;
    }
    return at == count;
}

static void restore_table(lua_State *L, int table, int contents, lua_Integer count, struct address *addresses)
{
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, table); /* of an existing key: the traversal may go on */
    }
    for (lua_Integer i = 0; i < count; i++) {
        lua_rawgeti(L, contents, 2 * i + 1);
        lua_rawgeti(L, contents, 2 * i + 2);
        lua_rawset(L, table);
    }
    copy_contents(L, table, contents, addresses); /* in the order that lua_next() has now */
}

static void restore_metatable(lua_State *L, int table, int metatable)
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

static void restore_function(lua_State *L, int function, int contents, lua_Integer count)
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

void snapshot_restore(lua_State *L, int snapshot)
{
    snapshot = lua_absindex(L, snapshot);
    int object = lua_gettop(L) + 1;
    luaL_checkstack(L, 12, NULL);
    for (lua_Integer at = 1; lua_rawgeti(L, snapshot, at) != LUA_TNIL; at += STRIDE) {
        lua_rawgeti(L, snapshot, at + CONTENTS);
        lua_rawgeti(L, snapshot, at + METATABLE);
        lua_rawgeti(L, snapshot, at + COUNT);
        lua_rawgeti(L, snapshot, at + ADDRESSES);
        lua_Integer count = lua_tointeger(L, -2);
        struct address *addresses = lua_touserdata(L, -1);
        if (!addresses) {
            restore_function(L, object, object + CONTENTS, count);
        } else {
            if (!is_unchanged(L, object, object + CONTENTS, count, addresses))
                restore_table(L, object, object + CONTENTS, count, addresses);
            restore_metatable(L, object, object + METATABLE);
        }
        lua_settop(L, object - 1);
    }
    lua_settop(L, object - 1);
}
