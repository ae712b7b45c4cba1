#include "lua/worker/library.h"

#include "base/clock.h"
#include "lua/isolate.h"
#include "lua/isolate/collector.h"
#include "lua/sandbox/bounded.h"
#include "lua/sandbox/sandbox.h"

/* --- Functions that leave state --------------------------------------------------------------- */

/* Upvalues: the address of `reusable`; Lua's own function, which has no upvalues. */
static int note_and_call(lua_State *L)
{
    *(bool *)lua_touserdata(L, lua_upvalueindex(1)) = false;
    return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

/* setmetatable: a finalizer may run at any time, also during a later job. */
static int set_metatable(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TTABLE || !bounded_has_field(L, 2, "__gc"))
        return lua_tocfunction(L, lua_upvalueindex(2))(L);
    return note_and_call(L);
}

/* Puts `stand_in` in the place of the function `name` of the table at the top, if it has one. */
static void replace(lua_State *L, const char *name, lua_CFunction stand_in, bool *reusable)
{
    lua_pushlightuserdata(L, reusable);
    if (lua_getfield(L, -2, name) != LUA_TFUNCTION) {
        lua_pop(L, 2);
        return;
    }
    lua_pushcclosure(L, stand_in, 2);
    lua_setfield(L, -2, name);
}

static void replace_all(lua_State *L, const char *library, const char *const *names, bool *reusable)
{
    if (lua_getglobal(L, library) == LUA_TTABLE)
        for (; *names; names++)
            replace(L, *names, note_and_call, reusable);
    lua_pop(L, 1);
}

/* --- Functions that are removed --------------------------------------------------------------- */

static int refuse_exit(lua_State *L)
{
    return luaL_error(L, "os.exit: a worker cannot end the program; return, or raise an error");
}

/* Upvalue: Lua's own function. */
static int ask_locale(lua_State *L)
{
    if (!lua_isnoneornil(L, 1))
        return luaL_error(L,
                          "os.setlocale: a worker cannot change the locale, which all threads share; it may only ask");
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Removes what changes the whole process. */
static void cut_os(lua_State *L)
{
    if (lua_getglobal(L, LUA_OSLIBNAME) == LUA_TTABLE) {
        lua_pushcfunction(L, refuse_exit);
        lua_setfield(L, 1, "exit");
        lua_getfield(L, 1, "setlocale");
        lua_pushcclosure(L, ask_locale, 1);
        lua_setfield(L, 1, "setlocale");
    }
    lua_settop(L, 0);
}

/* With the other functions of `debug`, a script could reach state that is in no table. */
static void cut_debug(lua_State *L)
{
    static const char *const kept[] = { "getinfo", "traceback" };
    lua_getglobal(L, LUA_DBLIBNAME);
    lua_newtable(L);
    for (int i = 0; i < 2; i++) {
        lua_getfield(L, 1, kept[i]);
        lua_setfield(L, 2, kept[i]);
    }
    for (lua_pushnil(L); lua_next(L, 1);) { /* change the table itself: modules may hold it */
        lua_pop(L, 1);
        lua_pushvalue(L, -1);
        lua_pushvalue(L, -1);
        lua_rawget(L, 2);
        lua_rawset(L, 1);
    }
    lua_settop(L, 0);
}

/*
 * The metatables of all other userdata are hidden too.  Otherwise a job could change them for later
 * jobs.
 */
static void hide_metatable_of_files(lua_State *L)
{
    if (luaL_getmetatable(L, LUA_FILEHANDLE) == LUA_TTABLE) {
        lua_pushboolean(L, false);
        lua_setfield(L, -2, "__metatable");
    }
    lua_pop(L, 1);
}

static void seed_random(lua_State *L)
{
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, (lua_Integer)clock_now()); /* Lua's own seed stays the same for a second */
    lua_pushinteger(L, (lua_Integer)(uintptr_t)L);
    lua_call(L, 2, 0);
    lua_pop(L, 1);
}

void library_adapt(struct orr_isolate *iso, lua_State *L, bool *reusable)
{
    static const char *const files[] = { "close", "input", "lines", "open", "output", "popen", "tmpfile", NULL };
    static const char *const foreign[] = { "loadlib", NULL };
    lua_settop(L, 0);
    seed_random(L);
    if (isolate_is_sandboxed(iso)) /* untrusted scripts have none of these */
        return;
    cut_debug(L);
    cut_os(L);
    hide_metatable_of_files(L);
    replace_all(L, LUA_IOLIBNAME, files, reusable);
    replace_all(L, LUA_LOADLIBNAME, foreign, reusable);
    lua_pushglobaltable(L);
    replace(L, "setmetatable", set_metatable, reusable);
    lua_pop(L, 1);
}

/* --- Read-only tables ------------------------------------------------------------------------- */

static int refuse_change(lua_State *L)
{
    return luaL_error(L, "attempt to change a read-only table (%s)", lua_tostring(L, lua_upvalueindex(1)));
}

static int next_field(lua_State *L)
{
    lua_settop(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_replace(L, 1);
    return lua_next(L, 1) ? 2 : 0;
}

static int each_field(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushcclosure(L, next_field, 1);
    lua_pushvalue(L, 1);
    return 2;
}

/* `__call` of a module.  The module's own must not yield. */
static int call_module(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_replace(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* [name] [table] -> [name] [read-only proxy of the table] */
static void push_frozen(lua_State *L)
{
    int table = lua_gettop(L);
    lua_newtable(L);
    lua_createtable(L, 0, 4);
    lua_pushvalue(L, table);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, table - 1);
    lua_pushcclosure(L, refuse_change, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushvalue(L, table);
    lua_pushcclosure(L, each_field, 1);
    lua_setfield(L, -2, "__pairs");
    if (luaL_getmetafield(L, table, "__call") != LUA_TNIL) {
        lua_pop(L, 1);
        lua_pushvalue(L, table);
        lua_pushcclosure(L, call_module, 1);
        lua_setfield(L, -2, "__call");
    }
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_replace(L, table);
}

void library_freeze(lua_State *L)
{
    int module = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, module);) {
        if (!lua_istable(L, -1)) {
            lua_pop(L, 1);
            continue;
        }
        push_frozen(L);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, module); /* to an existing key: the traversal may go on */
    }
}

/* --- Modules ---------------------------------------------------------------------------------- */

static int return_it(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

void library_register(lua_State *L, const char *name)
{
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, true);
    }
    lua_pushvalue(L, -1);
    lua_setglobal(L, name);
    if (lua_isfunction(L, -1)) /* a function would be taken for the loader of the module */
        lua_pushcclosure(L, return_it, 1);
    sandbox_register(isolate_find(L), L, name);
}

/*
 * Lua's library `package` keeps the handles of such libraries in the registry, to close them with
 * the state.
 */
void library_check(lua_State *L)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, "_CLIBS") == LUA_TTABLE && lua_rawlen(L, -1))
        luaL_error(L, "a library written in C has been loaded");
    lua_pop(L, 1);
}

void library_restore(lua_State *L)
{
    collector_reset(isolate_find(L), L);
    seed_random(L);
}
