#include "lua/api/lua_part.h"

#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"

/* [module] [arguments...] [file as a function] -> [module] */
static void run(lua_State *L, int arguments, const void *key)
{
    int module = lua_gettop(L) - arguments - 1;
    for (int i = 0; i <= arguments; i++)
        lua_pushvalue(L, module + i);
    lua_call(L, arguments + 1, 0);
    if (!lua_part_is_open(L, key)) {
        lua_getfield(L, -1, "host");
        lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    }
    lua_settop(L, module);
}

void lua_part_open(lua_State *L, const struct embedded *file, int arguments, const void *key)
{
    embedded_push(L, file);
    run(L, arguments, key);
}

void lua_part_open_late(lua_State *L, const struct embedded *file, int arguments, const void *key)
{
    late_push(L, file, -arguments - 1);
    run(L, arguments, key);
}

bool lua_part_is_open(lua_State *L, const void *key)
{
    bool is = lua_rawgetp(L, LUA_REGISTRYINDEX, key) != LUA_TNIL;
    lua_pop(L, 1);
    return is;
}

void lua_part_push(lua_State *L, const void *key, const char *name)
{
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

void lua_part_forget(lua_State *L, const void *key)
{
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}
