#include "lua/api/lua_part.h"

#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"

void lua_part_open(lua_State *L, const struct embedded *file, int arguments, const void *key)
{
    int module = lua_gettop(L) - arguments;
    late_push(L, file);
    for (int i = 0; i <= arguments; i++)
        lua_pushvalue(L, module + i);
    lua_call(L, arguments + 1, 0);
    lua_getfield(L, -1, "host");
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
    lua_settop(L, module);
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
    if (!lua_part_is_open(L, key))
        late_need_api(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

void lua_part_forget(lua_State *L, const void *key)
{
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}
