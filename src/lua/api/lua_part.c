#include "lua/api/lua_part.h"

#include "lua/isolate/embedded.h"

void lua_part_open(lua_State *L, const struct embedded *file, int arguments, const void *key)
{
    int module = lua_gettop(L) - arguments;
    embedded_push(L, file);
    for (int i = 0; i <= arguments; i++)
        lua_pushvalue(L, module + i);
    lua_call(L, arguments + 1, 0);
    lua_getfield(L, -1, "host");
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    lua_settop(L, module);
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
