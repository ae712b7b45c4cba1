#include "lua/worker/snapshot.h"

#include "lua/isolate.h"
#include "lua/sandbox/bounded.h"
#include "lua/sandbox/sandbox.h"

#include <string.h>

/*
 * A snapshot is a userdata with an entry for each object, and a coroutine that never runs: its
 * stack is a list that C reads without a look-up.  It has SLOTS slots for each object: the object;
 * a copy of a table, or a list of the upvalues of a function; the metatable or false.  The copies
 * keep alive all that was in the objects.
 */
enum { OBJECT = 1, COPY, METATABLE, SLOTS = METATABLE };

enum {
    OBJECTS_MAX = 250000,   /* in a snapshot: the stack of a coroutine has a million slots */
    KEYS_TRACKED_MAX = 512, /* tables with more keys are not tracked */
    ARENA_MAX = 256 << 10,  /* bytes of all tracked tables together */
};

struct object {
    bool is_function;
    int tracked;           /* the number of a tracked table in `dirty`; -1 for others */
    size_t count;          /* of its keys or upvalues */
    const void *metatable; /* NULL for none */
};

struct snapshot {
    lua_State *store; /* the coroutine: the user value of the snapshot */
    struct dirty *dirty;
    size_t count;
    struct object objects[];
};

/* --- The store -------------------------------------------------------------------------------- */

static int slot_of(size_t number, int slot)
{
    return (int)number * SLOTS + slot;
}

/* Pushes what is in a slot of the store. */
static void fetch(lua_State *L, lua_State *store, int slot)
{
    lua_pushvalue(store, slot);
    lua_xmove(store, L, 1);
}

/* Pops a value into a slot of the store. */
static void keep(lua_State *L, lua_State *store, int slot)
{
    lua_xmove(L, store, 1);
    lua_replace(store, slot);
}

/* --- Finding ---------------------------------------------------------------------------------- */

/*
 * The stack while objects are sought: LIBRARY is a set, or nil while that set itself is made; SEEN
 * is a set.
 */
enum { LIBRARY = 1, SEEN, STORE, FIRST };

struct search {
    lua_State *store;
    size_t found;
    bool strange; /* something cannot be restored */
};

/* Whether a value is the library's: it was there before the host and the modules added theirs. */
static bool is_of_library(lua_State *L, int index)
{
    if (lua_isnil(L, LIBRARY))
        return true;
    lua_pushvalue(L, index);
    bool is = lua_rawget(L, LIBRARY) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

/* Notes the value at an index as seen.  False if it was seen before. */
static bool see(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    lua_pushvalue(L, index);
    bool is_new = lua_rawget(L, SEEN) == LUA_TNIL;
    lua_pop(L, 1);
    if (!is_new)
        return false;
    lua_pushvalue(L, index);
    lua_pushboolean(L, true);
    lua_rawset(L, SEEN);
    return true;
}

/* Puts the table or function at the top, which is popped, into the store. */
static void store(lua_State *L, struct search *search)
{
    if (search->found == OBJECTS_MAX || !lua_checkstack(search->store, SLOTS + 2)) {
        search->strange = true;
        lua_pop(L, 1);
        return;
    }
    lua_xmove(L, search->store, 1);
    lua_settop(search->store, slot_of(++search->found, 0));
}

/*
 * Pops a value.  Puts a table or function into the store, if it is new.  A coroutine or userdata
 * cannot be restored.  Of the library, only tables have state.
 */
static void note(lua_State *L, struct search *search)
{
    int type = lua_type(L, -1);
    bool is_strange = type == LUA_TTHREAD || type == LUA_TUSERDATA;
    if (type == LUA_TTABLE && see(L, -1)) {
        store(L, search);
        return;
    }
    if ((type == LUA_TFUNCTION || is_strange) && is_of_library(L, lua_gettop(L))) {
        if (lua_isnil(L, LIBRARY))
            see(L, -1); /* the set of the library is being made */
    } else if (type == LUA_TFUNCTION && see(L, -1)) {
        store(L, search);
        return;
    } else if (is_strange) {
        search->strange = true;
    }
    lua_pop(L, 1);
}

/* A weak table of the library is a cache and no state. */
static bool is_cache(lua_State *L, int table, int metatable)
{
    return bounded_has_field(L, metatable, "__mode") && is_of_library(L, table);
}

/* Scripts cannot reach, and so cannot change, a protected metatable of the library. */
static bool is_out_of_reach(lua_State *L, int metatable)
{
    return bounded_has_field(L, metatable, "__metatable") && is_of_library(L, metatable);
}

/* Notes what the table at the top refers to.  False if the table is no state. */
static bool search_table(lua_State *L, struct search *search)
{
    int table = lua_gettop(L);
    if (lua_getmetatable(L, table)) {
        if (is_cache(L, table, table + 1))
            return false;
        if (is_out_of_reach(L, table + 1))
            see(L, table + 1);
        else
            note(L, search);
        lua_settop(L, table);
    }
    for (lua_pushnil(L); lua_next(L, table);) {
        note(L, search);
        lua_pushvalue(L, -1);
        note(L, search);
    }
    return true;
}

/* Notes what the function at the top refers to. */
static void search_function(lua_State *L, struct search *search)
{
    int function = lua_gettop(L);
    bool of_host = lua_iscfunction(L, function); /* the userdata that it uses are its own */
    for (int i = 1; lua_getupvalue(L, function, i); i++) {
        if (of_host && lua_isuserdata(L, -1))
            lua_pop(L, 1);
        else
            note(L, search);
    }
}

/* Notes the upvalues of the function at the top, which is popped. */
static void note_upvalues(lua_State *L, struct search *search)
{
    int function = lua_gettop(L);
    for (int i = 1; lua_isfunction(L, function) && lua_getupvalue(L, function, i); i++)
        note(L, search);
    lua_settop(L, function - 1);
}

/*
 * Notes what `require` can find.  The loaded modules are its upvalues; those of untrusted scripts
 * are in a table of the sandbox; the API is an upvalue of its loader.
 */
static void note_modules(lua_State *L, struct search *search)
{
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    note(L, search);
    lua_getglobal(L, "require");
    note_upvalues(L, search);
    sandbox_push_registered(L);
    note(L, search);
    if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE) == LUA_TTABLE) {
        lua_getfield(L, -1, "orrery");
        note_upvalues(L, search);
    }
    note(L, search);
}

static void note_roots(lua_State *L, struct search *search)
{
    lua_pushglobaltable(L);
    note(L, search);
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1))
        note(L, search);
    lua_pop(L, 1);
    note_modules(L, search);
}

/*
 * Finds all objects that scripts can reach.  The slots of those that are no state get nil.  The
 * stack is as described above.
 */
static struct search find_all(lua_State *L)
{
    enum { MANY = 512 }; /* objects of a usual state */
    lua_createtable(L, 0, MANY);
    lua_replace(L, SEEN);
    struct search search = { .store = lua_newthread(L) };
    lua_replace(L, STORE);
    note_roots(L, &search);
    for (size_t i = 0; i < search.found; i++) {
        fetch(L, search.store, slot_of(i, OBJECT));
        bool is_state = true;
        if (lua_istable(L, -1))
            is_state = search_table(L, &search);
        else
            search_function(L, &search);
        lua_settop(L, FIRST - 1);
        if (!is_state) {
            lua_pushnil(L);
            keep(L, search.store, slot_of(i, OBJECT));
        }
    }
    return search;
}

/* [] -> [seen] */
static int note_all(lua_State *L)
{
    lua_settop(L, FIRST - 1);
    find_all(L);
    lua_settop(L, SEEN);
    return 1;
}

void snapshot_note_library(lua_State *L)
{
    lua_pushcfunction(L, note_all);
    lua_call(L, 0, 1);
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* Pushes a copy of the table at an index.  Counts its keys. */
static size_t copy_table(lua_State *L, int table, bool *has_integers)
{
    size_t count = 0;
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, table); count++) {
        *has_integers |= lua_isinteger(L, -2);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    return count;
}

/* Pushes a list of the upvalues of the function at an index.  Counts them. */
static size_t copy_upvalues(lua_State *L, int function)
{
    size_t count = 0;
    lua_newtable(L);
    for (; lua_getupvalue(L, function, (int)count + 1); count++)
        lua_rawseti(L, -2, (lua_Integer)count + 1);
    return count;
}

/* Copies an object.  Answers how many bytes tracking it takes; 0 if it cannot be tracked. */
static size_t copy_object(lua_State *L, const struct snapshot *self, size_t number, struct object *object)
{
    int top = lua_gettop(L) + 1;
    bool has_integers = false;
    fetch(L, self->store, slot_of(number, OBJECT));
    *object = (struct object){ .is_function = lua_isfunction(L, top), .tracked = -1 };
    object->count = object->is_function ? copy_upvalues(L, top) : copy_table(L, top, &has_integers);
    keep(L, self->store, slot_of(number, COPY));
    if (lua_istable(L, top) && lua_getmetatable(L, top))
        object->metatable = lua_topointer(L, -1);
    else
        lua_pushboolean(L, false);
    keep(L, self->store, slot_of(number, METATABLE));
    lua_settop(L, top - 1);
    bool can_be_tracked = !object->is_function && !has_integers && object->count <= KEYS_TRACKED_MAX;
    return can_be_tracked ? dirty_room(object->count) : 0;
}

/* Moves what is left of the store to its beginning: objects that are no state leave. */
static void compact(struct search *search)
{
    size_t left = 0;
    for (size_t i = 0; i < search->found; i++) {
        if (lua_isnil(search->store, slot_of(i, OBJECT)))
            continue;
        lua_copy(search->store, slot_of(i, OBJECT), slot_of(left++, OBJECT));
    }
    search->found = left;
    lua_settop(search->store, slot_of(left, 0));
}

/* Pushes a snapshot in which nothing is copied yet. */
static struct snapshot *new_snapshot(lua_State *L, const struct search *search, struct dirty *dirty)
{
    struct snapshot *self = lua_newuserdatauv(L, sizeof *self + search->found * sizeof *self->objects, 1);
    *self = (struct snapshot){ .store = search->store, .dirty = dirty, .count = search->found };
    lua_pushvalue(L, STORE);
    lua_setiuservalue(L, -2, 1);
    return self;
}

/* Copies all objects, and tracks the tables that can be tracked. */
static void copy_all(lua_State *L, struct snapshot *self)
{
    size_t bytes = 0;
    int tables = 0;
    for (size_t i = 0; i < self->count; i++) {
        size_t room = copy_object(L, self, i, &self->objects[i]);
        if (!room || room > ARENA_MAX - bytes)
            continue;
        bytes += room;
        self->objects[i].tracked = tables++;
    }
    dirty_open(self->dirty, isolate_find(L), L, (unsigned)tables, bytes);
    for (size_t i = 0; i < self->count; i++) {
        if (self->objects[i].tracked < 0)
            continue;
        fetch(L, self->store, slot_of(i, OBJECT));
        self->objects[i].tracked = dirty_track(self->dirty, L, -1);
        lua_pop(L, 1);
    }
}

/* [library] [dirty] -> [snapshot] [whether all can be restored] */
static int take(lua_State *L)
{
    struct dirty *dirty = lua_touserdata(L, 2);
    lua_settop(L, FIRST - 1);
    struct search search = find_all(L);
    compact(&search);
    /* Room for all metatables: see snapshot_restore(). */
    bool room = lua_checkstack(search.store, (int)search.found + 2);
    struct snapshot *self = new_snapshot(L, &search, dirty);
    copy_all(L, self);
    lua_pushboolean(L, room && !search.strange);
    return 2;
}

bool snapshot_take(lua_State *L, int library, struct dirty *dirty)
{
    library = lua_absindex(L, library);
    lua_pushcfunction(L, take);
    lua_pushvalue(L, library);
    lua_pushlightuserdata(L, dirty);
    lua_call(L, 2, 2);
    bool can_be_restored = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return can_be_restored;
}

/* --- Restoring -------------------------------------------------------------------------------- */

/* Gives each key of the table the value that it has in the copy.  Answers how many the copy has. */
static size_t restore_present(lua_State *L, int table, int copy)
{
    size_t count = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        bool known = lua_rawget(L, copy) != LUA_TNIL; /* [key] [value] [value in the copy] */
        count += known;
        if (!lua_rawequal(L, -1, -2)) {
            lua_pushvalue(L, -3);
            lua_insert(L, -2);
            lua_rawset(L, table); /* to an existing key: the traversal may go on */
        } else {
            lua_pop(L, 1);
        }
    }
    return count;
}

/* Sets the keys of the copy that the table lacks. */
static void restore_missing(lua_State *L, int table, int copy)
{
    for (lua_pushnil(L); lua_next(L, copy);) {
        lua_pushvalue(L, -2);
        bool missing = lua_rawget(L, table) == LUA_TNIL; /* [key] [value] [value in the table] */
        lua_pop(L, 1);
        if (missing) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, table);
        } else {
            lua_pop(L, 1);
        }
    }
}

static void restore_entries(lua_State *L, struct snapshot *self, size_t number)
{
    struct object *object = &self->objects[number];
    int top = lua_gettop(L), table = top + 1, copy = top + 2;
    fetch(L, self->store, slot_of(number, OBJECT));
    fetch(L, self->store, slot_of(number, COPY));
    if (restore_present(L, table, copy) < object->count)
        restore_missing(L, table, copy);
    if (object->tracked >= 0)
        object->tracked = dirty_clean(self->dirty, L, table, object->tracked);
    lua_settop(L, top);
}

static void restore_metatable(lua_State *L, const struct snapshot *self, size_t number)
{
    fetch(L, self->store, slot_of(number, OBJECT));
    fetch(L, self->store, slot_of(number, METATABLE));
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

static void restore_upvalues(lua_State *L, const struct snapshot *self, size_t number)
{
    int top = lua_gettop(L), function = top + 1, copy = top + 2;
    fetch(L, self->store, slot_of(number, OBJECT));
    fetch(L, self->store, slot_of(number, COPY));
    for (size_t i = 1; i <= self->objects[number].count; i++) {
        lua_rawgeti(L, copy, (lua_Integer)i);
        lua_getupvalue(L, function, (int)i);
        bool same = lua_rawequal(L, -1, -2);
        lua_pop(L, 1);
        if (same)
            lua_pop(L, 1);
        else
            lua_setupvalue(L, function, (int)i);
    }
    lua_settop(L, top);
}

/* The metatable of an object, which is pushed to the store, if there is one; else NULL. */
static const void *metatable_of(lua_State *store, size_t number)
{
    return lua_getmetatable(store, slot_of(number, OBJECT)) ? lua_topointer(store, -1) : NULL;
}

void snapshot_restore(lua_State *L, int snapshot)
{
    struct snapshot *self = lua_touserdata(L, snapshot);
    luaL_checkstack(L, 8, NULL);
    bool any = dirty_any(self->dirty);
    for (size_t i = 0; i < self->count; i++) {
        const struct object *object = &self->objects[i];
        if (object->is_function) {
            restore_upvalues(L, self, i);
            continue;
        }
        if (object->tracked < 0 || (any && dirty_is(self->dirty, object->tracked)))
            restore_entries(L, self, i);
        if (metatable_of(self->store, i) != object->metatable)
            restore_metatable(L, self, i);
    }
    lua_settop(self->store, slot_of(self->count, 0)); /* without the metatables */
}
