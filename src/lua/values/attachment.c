#include "lua/values/attachment.h"

#include <stdbool.h>

static const char attachment_key; /* its address is the mark, and the key of the mark */

void attachment_mark(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)&attachment_key);
    lua_rawsetp(L, -2, &attachment_key);
}

struct attachment *attachment_test(lua_State *L, int index)
{
    struct attachment **block = lua_touserdata(L, index);
    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
        return NULL;
    lua_rawgetp(L, -1, &attachment_key);
    bool marked = lua_touserdata(L, -1) == &attachment_key;
    lua_pop(L, 2);
    return marked ? *block : NULL;
}
