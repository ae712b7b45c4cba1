#include "lua/sandbox/bounded_libraries.h"

#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/pattern/pattern.h"
#include "lua/sandbox/bounded_base.h"
#include "lua/sandbox/bounded_string.h"
#include "lua/sandbox/bounded_table.h"

#include <string.h>

/*
 * argument_error(name, argument, message): raises as luaL_argerror() does.  The caller is a
 * function in Lua that bounded_call_in_lua() called.
 */
static int tool_argument_error(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    int argument = (int)luaL_checkinteger(L, 2);
    const char *message = luaL_checkstring(L, 3);
    lua_Debug info = { 0 };
    if (lua_getstack(L, 2, &info))
        lua_getinfo(L, "n", &info);
    luaL_where(L, 3);
    if (info.name && !strcmp(info.namewhat, "method") && --argument == 0)
        lua_pushfstring(L, "calling '%s' on bad self (%s)", info.name, message);
    else
        lua_pushfstring(L, "bad argument #%d to '%s' (%s)", argument, info.name ? info.name : name, message);
    lua_concat(L, 2);
    return lua_error(L);
}

/*
 * Runs lua/bounded.lua, and returns what it returns.  Upvalues: the isolate; an origin, in which
 * the libraries are Lua's own.
 */
static int run_file(lua_State *L)
{
    static const luaL_Reg tools[] = { { "argument_error", tool_argument_error }, { NULL, NULL } };
    struct orr_isolate *iso = isolate_of(L);
    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(2));
    late_push_with(L, &embedded_bounded);
    lua_newtable(L);
    isolate_register(iso, L, tools);
    isolate_register(iso, L, bounded_string_tools);
    isolate_register(iso, L, bounded_table_tools);
    pattern_open(iso, L);
    lua_pushinteger(L, RESULTS_MAX);
    lua_setfield(L, -2, "results_max");
    lua_pushinteger(L, iso->limits.longest_string ? (lua_Integer)iso->limits.longest_string : LUA_MAXINTEGER);
    lua_setfield(L, -2, "longest");
    lua_call(L, 1, 1);
    return 1;
}

static void set_loader(struct orr_isolate *iso, lua_State *L)
{
    static const struct late_names libraries[] = {
        { LUA_GNAME, "error getmetatable pcall select type" },
        { LUA_MATHLIBNAME, "min tointeger ult" },
        { LUA_STRLIBNAME, "byte char format lower rep reverse sub upper" },
        { LUA_TABLIBNAME, "move pack remove sort unpack" },
        { LUA_UTF8LIBNAME, "char len" },
        { NULL, NULL },
    };
    lua_pushlightuserdata(L, iso);
    late_push_copies(L, libraries);
    lua_pushcclosure(L, run_file, 2);
    bounded_set_loader(L);
}

static void put_in_place(struct orr_isolate *iso, lua_State *L, const struct bounded *one)
{
    lua_pushglobaltable(L);
    lua_getfield(L, -1, one->library);
    lua_pushlightuserdata(L, iso);
    lua_getfield(L, -2, one->name);
    lua_pushlightuserdata(L, (void *)one);
    lua_pushcclosure(L, one->function, 3);
    lua_setfield(L, -2, one->name);
    lua_pop(L, 2);
}

static void put_all_in_place(struct orr_isolate *iso, lua_State *L, const struct bounded *library)
{
    for (; library->name; library++)
        put_in_place(iso, L, library);
}

void bounded_libraries_open(struct orr_isolate *iso, lua_State *L)
{
    static const struct bounded *const libraries[] = { bounded_base, bounded_string, bounded_table, NULL };
    set_loader(iso, L);
    for (int i = 0; libraries[i]; i++)
        put_all_in_place(iso, L, libraries[i]);
}
