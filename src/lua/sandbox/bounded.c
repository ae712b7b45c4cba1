#include "lua/sandbox/bounded.h"

static const char functions_key; /* in the registry: the functions of lua/bounded.lua */

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

void bounded_set_loader(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &functions_key);
}

/* Pushes the functions of lua/bounded.lua.  Until the file has run, the loader is there instead. */
static void push_functions(lua_State *L)
{
    luaL_checkstack(L, 6, NULL);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key) != LUA_TFUNCTION)
        return;
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &functions_key);
}

void bounded_push_in_lua(lua_State *L, const char *library, const char *name)
{
    push_functions(L);
    lua_getfield(L, -1, library);
    lua_getfield(L, -1, name);
    lua_replace(L, -3);
    lua_pop(L, 1);
}

int bounded_call_in_lua(lua_State *L)
{
    const struct bounded *self = lua_touserdata(L, lua_upvalueindex(3));
    bounded_push_in_lua(L, self->library, self->name);
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
