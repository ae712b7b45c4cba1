/* What the bounded libraries share, and putting them in the place of Lua's own. */
#include "lua/sandbox/bounded.h"

#include "lua/isolate/embedded.h"
#include "lua/pattern/pattern.h"
#include "lua/sandbox/bounded_library.h"

#include <string.h>

/* --- What they share -------------------------------------------------------------------------------------------- */

int bounded_call_own(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

static int return_all(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lua_gettop(L);
}

int bounded_call_in_lua(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, return_all);
    return lua_gettop(L);
}

size_t bounded_longest(lua_State *L)
{
    size_t limit = isolate_of(L)->limits.longest_string;
    return limit ? limit : SIZE_MAX / 2;
}

int bounded_too_large(lua_State *L)
{
    return luaL_error(L, "resulting string too large");
}

bool bounded_has_field(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    bool has = lua_rawget(L, table) != LUA_TNIL;
    lua_pop(L, 1);
    return has;
}

bool bounded_push_metamethod(lua_State *L, int index, const char *name)
{
    int type = lua_type(L, index);
    return (type == LUA_TTABLE || type == LUA_TUSERDATA) && luaL_getmetafield(L, index, name) != LUA_TNIL;
}

void bounded_check_described(lua_State *L)
{
    if (!lua_isstring(L, -1))
        luaL_error(L, "'__tostring' must return a string");
}

/* --- Putting them in place -------------------------------------------------------------------------------------- */

/* argument_error(name, argument, message), from a function that bounded_call_in_lua() has called: as luaL_argerror() has it. */
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

/* [ours in Lua], which stays: a table of tables. */
static void put_in_place(struct orr_isolate *iso, lua_State *L, const struct bounded *one)
{
    lua_pushglobaltable(L);
    lua_getfield(L, -1, one->library);
    lua_pushlightuserdata(L, iso);
    lua_getfield(L, -2, one->name);
    if (lua_getfield(L, -5, one->library) == LUA_TTABLE)
        lua_getfield(L, -1, one->name);
    else
        lua_pushnil(L);
    lua_remove(L, -2);
    lua_pushcclosure(L, one->function, 3);
    lua_setfield(L, -2, one->name);
    lua_pop(L, 2);
}

static void put_all_in_place(struct orr_isolate *iso, lua_State *L, const struct bounded *library)
{
    for (; library->name; library++)
        put_in_place(iso, L, library);
}

void bounded_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg tools[] = { { "argument_error", tool_argument_error }, { NULL, NULL } };
    static const struct bounded *const libraries[] = { bounded_base, bounded_string, bounded_table, NULL };
    embedded_push(L, &embedded_bounded);
    lua_newtable(L);
    isolate_register(iso, L, tools);
    isolate_register(iso, L, bounded_string_tools);
    isolate_register(iso, L, bounded_table_tools);
    pattern_open(iso, L); /* which can be suspended */
    lua_pushinteger(L, RESULTS_MAX);
    lua_setfield(L, -2, "results_max");
    lua_pushinteger(L, iso->limits.longest_string ? (lua_Integer)iso->limits.longest_string : LUA_MAXINTEGER);
    lua_setfield(L, -2, "longest");
    lua_call(L, 1, 1);
    for (int i = 0; libraries[i]; i++)
        put_all_in_place(iso, L, libraries[i]);
    lua_getfield(L, -1, "read_all");
    lua_remove(L, -2);
}
