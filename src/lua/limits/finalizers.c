#include "lua/limits/finalizers.h"

#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/registry.h"
#include "lua/isolate/visit.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/level.h"
#include "lua/limits/slice.h"

static const char noted_key; /* in the registry: metatables with a finalizer, as weak keys */

/* --- Recording metatables --------------------------------------------------------------------- */

/* Pushes the `__gc` field of the table at `index`, and returns its type. */
static int push_finalizer(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    lua_pushliteral(L, "__gc");
    return lua_rawget(L, index);
}

/* Records the metatable at index 2, if it has a finalizer. */
static void note(lua_State *L)
{
    bool finalizes = lua_istable(L, 2) && push_finalizer(L, 2) != LUA_TNIL;
    lua_settop(L, 2);
    if (!finalizes)
        return;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &noted_key);
    lua_pushvalue(L, 2);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_settop(L, 2);
}

static void check_metatable(lua_State *L)
{
    int type = lua_type(L, 2);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
}

/* setmetatable.  It has no upvalues, because worker/library.c calls it as a C function. */
static int set_metatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    check_metatable(L);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    note(L);
    lua_setmetatable(L, 1);
    return 1;
}

/* debug.setmetatable. */
static int set_any_metatable(lua_State *L)
{
    check_metatable(L);
    note(L);
    lua_setmetatable(L, 1);
    return 1;
}

void finalizers_open(lua_State *L)
{
    registry_push_weak_table(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &noted_key);
    lua_pushcfunction(L, set_metatable);
    lua_setglobal(L, "setmetatable");
    if (lua_getglobal(L, LUA_DBLIBNAME) == LUA_TTABLE) {
        lua_pushcfunction(L, set_any_metatable);
        lua_setfield(L, -2, "setmetatable");
    }
    lua_pop(L, 1);
}

/* --- Limiting their time ---------------------------------------------------------------------- */

/*
 * Calls the finalizer on the stack of `co`: [finalizer] [object].  Returns whether it raised an
 * error; the error is then on top of `co`.  False if the finalizer was ended or has yielded.
 */
static bool run(struct orr_isolate *iso, lua_State *L, lua_State *co, uint64_t limit)
{
    struct level level = { .co = co, .host_waits = true, .entry = ORR_LUA_CALL };
    level.limit = iso->limits.mode == ORR_LUA_SIGNAL ? limit : 10 * (uint64_t)iso->limits.check_interval;
    int results;
    bool outermost = slice_begin(iso);
    level_enter(iso, &level, NULL);
    int status = lua_resume(co, L, 1, &results);
    bool ended = level.end != LEVEL_GOES_ON || status == LUA_YIELD;
    execution_take_yield(&iso->execution);
    level_leave(iso, &level);
    if (outermost)
        slice_end(iso);
    return !ended && status != LUA_OK;
}

/* The wrapper around a script's finalizer, which is upvalue 2. */
static int finalize(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    uint64_t left = grace_period_left(iso, EVERY_SCRIPT), longest = worker_grace_ns(iso->worker) / 2;
    if (!left)
        return 0;
    lua_settop(L, 1);
    lua_State *co = lua_newthread(L);
    interrupt_made_coroutine(iso, L, co);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 2);
    if (!run(iso, L, co, left < longest ? left : longest))
        return 0;
    lua_xmove(co, L, 1);
    return lua_error(L); /* Lua turns it into a warning */
}

/*
 * Whether the metatable on top is a C library's: it is registered under its `__name`, and its
 * finalizer is a C function.  Leaves values on the stack.
 */
static bool is_of_c(lua_State *L)
{
    lua_pushliteral(L, "__name");
    lua_rawget(L, -2);
    bool named = lua_type(L, -1) == LUA_TSTRING && lua_rawget(L, LUA_REGISTRYINDEX) != LUA_TNIL;
    bool is = named && lua_rawequal(L, -1, -2) && push_finalizer(L, -1) == LUA_TFUNCTION && lua_iscfunction(L, -1);
    return is;
}

/* Wraps the finalizer of the metatable on top, or removes it if `keep` is false. */
static void bound_one(lua_State *L, struct orr_isolate *iso, bool keep)
{
    lua_pushliteral(L, "__gc");
    lua_pushlightuserdata(L, iso);
    if (push_finalizer(L, -3) == LUA_TNIL || lua_tocfunction(L, -1) == finalize) {
        lua_pop(L, 3);
        return;
    }
    if (keep) {
        lua_pushcclosure(L, finalize, 2);
    } else {
        lua_pop(L, 2);
        lua_pushnil(L);
    }
    lua_rawset(L, -3); /* the key exists: never allocates */
}

/*
 * [keep]: wraps, or removes, the finalizers in recorded metatables, and those that scripts have put
 * into metatables of C libraries.
 */
static int bound_all(lua_State *L)
{
    struct orr_isolate *iso = isolate_find(L);
    bool keep = lua_toboolean(L, 1);
    luaL_checkstack(L, 16, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &noted_key);
    for (lua_pushnil(L); lua_next(L, 2);) {
        lua_pop(L, 1);
        int top = lua_gettop(L);
        bool of_c = is_of_c(L);
        lua_settop(L, top);
        if (!of_c)
            bound_one(L, iso, keep);
    }
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX); lua_pop(L, 1)) {
        if (!lua_istable(L, -1))
            continue;
        bool of_script = push_finalizer(L, -1) == LUA_TFUNCTION && !lua_iscfunction(L, -1);
        lua_pop(L, 1);
        if (of_script)
            bound_one(L, iso, keep);
    }
    return 0;
}

/* Pushes whether any metatable is recorded.  Never allocates. */
static int count_noted(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &noted_key);
    lua_pushnil(L);
    lua_pushboolean(L, lua_istable(L, 1) && lua_next(L, 1));
    return 1;
}

static bool call(lua_State *L, lua_CFunction function, bool argument)
{
    if (!lua_checkstack(L, 4))
        return false;
    lua_pushcfunction(L, function);
    lua_pushboolean(L, argument);
    int status = lua_pcall(L, 1, 0, 0);
    if (status != LUA_OK)
        lua_pop(L, 1);
    return status == LUA_OK;
}

bool finalizers_any(struct orr_isolate *iso)
{
    lua_State *L = iso->L;
    if (!lua_checkstack(L, 4))
        return true;
    lua_pushcfunction(L, count_noted);
    bool any = lua_pcall(L, 0, 1, 0) != LUA_OK || lua_toboolean(L, -1);
    lua_pop(L, 1);
    return any;
}

void finalizers_bound(struct orr_isolate *iso)
{
    lua_rawgetp(iso->L, LUA_REGISTRYINDEX, &noted_key);
    bool noted = lua_istable(iso->L, -1);
    lua_pop(iso->L, 1);
    if (noted && !call(iso->L, bound_all, true))
        call(iso->L, bound_all, false);
}
