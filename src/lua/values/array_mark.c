#include "lua/values/array_mark.h"

static const char array_key; /* its address is a key in the registry */

void array_mark_make(lua_State *L)
{
    lua_createtable(L, 0, 2);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable"); /* otherwise a script could change what all arrays do */
    lua_pushliteral(L, "orrery.array");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
}

void array_mark_push(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
}

enum array_mark array_mark_of(lua_State *L, int index)
{
    if (!lua_getmetatable(L, index))
        return ARRAY_MARK_NONE;
    array_mark_push(L);
    int marked = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return marked ? ARRAY_MARK_SET : ARRAY_MARK_FOREIGN;
}
