#include "lua/values/walk.h"

bool walk_can_go_on(lua_State *L, int table, int key, bool inside)
{
    lua_pushvalue(L, key);
    lua_rawget(L, table);
    bool same = inside ? lua_rawequal(L, -1, key + 1) : !lua_isnil(L, -1);
    lua_pop(L, 1);
    return same;
}

void walk_fail(lua_State *L, const struct path *path, const char *reason)
{
    path_push_error(L, path, reason);
    lua_rotate(L, path->first_key, 1);
    lua_settop(L, path->first_key);
}
