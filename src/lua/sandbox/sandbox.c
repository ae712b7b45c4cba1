#include "lua/sandbox/sandbox.h"

#include "lua/isolate/embedded.h"
#include "lua/sandbox/bounded_libraries.h"
#include "lua/sandbox/chunk.h"

#include <string.h>

/*
 * The allow-list: untrusted scripts have these names of Lua's libraries, and nothing that a later
 * Lua adds.
 */
static const struct {
    const char *library, *names;
    lua_CFunction open;
} allowed[] = {
    { LUA_GNAME,
      " _G _VERSION assert collectgarbage error getmetatable ipairs load next pairs pcall print rawequal rawget rawlen "
      "rawset"
      " select setmetatable tonumber tostring type xpcall"
      " coroutine debug math os string table utf8 ",
      luaopen_base },
    { LUA_COLIBNAME, " close create isyieldable resume running status wrap yield ", luaopen_coroutine },
    { LUA_DBLIBNAME, " traceback ", luaopen_debug },
    { LUA_MATHLIBNAME,
      " abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger min mininteger modf pi rad random"
      " randomseed sin sqrt tan tointeger type ult"
      " atan2 cosh frexp ldexp log10 pow sinh tanh ", /* of older versions of Lua */
      luaopen_math },
    { LUA_OSLIBNAME, " clock date difftime time ", luaopen_os },
    { LUA_STRLIBNAME, " byte char find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper ",
      luaopen_string },
    { LUA_TABLIBNAME, " concat insert move pack remove sort unpack ", luaopen_table },
    { LUA_UTF8LIBNAME, " char charpattern codepoint codes len offset ", luaopen_utf8 },
};

enum { LIBRARIES = sizeof allowed / sizeof *allowed };

/* Their addresses are keys in the registry. */
static const char globals_key, registered_key;

void sandbox_libraries(lua_State *L)
{
    for (int i = 0; i < LIBRARIES; i++) {
        luaL_requiref(L, allowed[i].library, allowed[i].open, 1);
        lua_pop(L, 1);
    }
}

/* --- Cutting down ----------------------------------------------------------------------------- */

static bool is_allowed(lua_State *L, const char *names, int key)
{
    if (lua_type(L, key) != LUA_TSTRING)
        return false;
    const char *word = lua_pushfstring(L, " %s ", lua_tostring(L, key));
    bool is = strstr(names, word) != NULL;
    lua_pop(L, 1);
    return is;
}

/* Removes all other keys from the table at the top. */
static void keep_only(lua_State *L, const char *names)
{
    for (lua_pushnil(L); lua_next(L, -2);) {
        lua_pop(L, 1);
        if (is_allowed(L, names, lua_gettop(L)))
            continue;
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, -4);
    }
}

static void protect_strings(lua_State *L)
{
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

/* rawset, which refuses tables whose metatable has `__readonly`. */
static int raw_set(lua_State *L)
{
    if (lua_getmetatable(L, 1)) {
        lua_pushliteral(L, "__readonly");
        if (lua_type(L, 1) == LUA_TTABLE && lua_rawget(L, -2) != LUA_TNIL)
            return luaL_error(L, "attempt to change a read-only table (%s)", luaL_tolstring(L, -1, NULL));
        lua_pop(L, 2);
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void sandbox_open(struct orr_isolate *iso, lua_State *L)
{
    bounded_libraries_open(iso, L);
    lua_getglobal(L, "rawset");
    lua_pushcclosure(L, raw_set, 1);
    lua_setglobal(L, "rawset");
    lua_pushglobaltable(L);
    for (int i = 0; i < LIBRARIES; i++) {
        lua_getfield(L, -1, allowed[i].library);
        keep_only(L, allowed[i].names);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    protect_strings(L);
}

/* --- Globals of one script -------------------------------------------------------------------- */

/* make_load(globals) */
static int make_load(lua_State *L)
{
    lua_pushlightuserdata(L, isolate_of(L));
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, chunk_load, 2);
    return 1;
}

/* metamethod(value, name): the metamethod, also behind a protected metatable. */
static int metamethod(lua_State *L)
{
    if (luaL_getmetafield(L, 1, luaL_checkstring(L, 2)) == LUA_TNIL)
        lua_pushnil(L);
    return 1;
}

void sandbox_push_globals(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &globals_key);
    lua_call(L, 0, 1);
}

void sandbox_push_registered(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &registered_key);
}

/* --- Modules and names ------------------------------------------------------------------------ */

void sandbox_register(struct orr_isolate *iso, lua_State *L, const char *name)
{
    if (isolate_is_sandboxed(iso))
        sandbox_push_registered(L);
    else
        luaL_getsubtable(L, LUA_REGISTRYINDEX, lua_isfunction(L, -1) ? LUA_PRELOAD_TABLE : LUA_LOADED_TABLE);
    lua_insert(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* Makes the table of modules: the libraries, and the API at the top. */
static void make_registered(lua_State *L)
{
    lua_newtable(L);
    for (int i = 1; i < LIBRARIES; i++) {
        lua_getglobal(L, allowed[i].library);
        lua_setfield(L, -2, allowed[i].library);
    }
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "orrery");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &registered_key);
}

/* Runs lua/globals.lua: [module] [function that makes a require] -> [module]. */
static void make_globals(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg tools[] = { { "load_module", chunk_load_module },
                                      { "make_load", make_load },
                                      { "metamethod", metamethod },
                                      { "watch", missing_watch_from_lua },
                                      { NULL, NULL } };
    embedded_push(L, &embedded_globals);
    lua_newtable(L);
    isolate_register(iso, L, tools);
    lua_pushvalue(L, -4);
    lua_pushvalue(L, -4);
    sandbox_push_registered(L);
    lua_call(L, 4, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &globals_key);
    lua_pop(L, 1);
}

/*
 * For messages and tracebacks Lua looks for the names of functions in the table of loaded
 * libraries, which takes time in proportion to its size.  So Lua gets a table that scripts cannot
 * add to.
 */
static void make_names(lua_State *L)
{
    lua_createtable(L, 0, LIBRARIES);
    for (int i = 0; i < LIBRARIES; i++) {
        lua_newtable(L);
        lua_pushglobaltable(L);
        lua_getfield(L, -1, allowed[i].library);
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -1) != LUA_TFUNCTION)
                continue;
            lua_pushvalue(L, -2);
            lua_pushvalue(L, -2);
            lua_rawset(L, -7);
        }
        lua_pop(L, 2);
        lua_setfield(L, -2, allowed[i].library);
    }
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
}

void sandbox_finish(struct orr_isolate *iso, lua_State *L)
{
    lua_pushvalue(L, -2);
    make_registered(L);
    lua_pop(L, 1);
    make_globals(iso, L);
    make_names(L);
}
