#include "lua/isolate/late.h"

#include "lua/isolate/embedded.h"

#include <string.h>

/* __index: a late file uses a name that its origin lacks, which is a mistake in the library. */
static int refuse_name(lua_State *L)
{
    return luaL_error(L, "a late file uses '%s', which is not in its origin", luaL_tolstring(L, 2, NULL));
}

/* Pushes a table that refuses to be asked for what it has not. */
static void push_strict(lua_State *L)
{
    lua_newtable(L);
    if (luaL_newmetatable(L, "orrery.origin")) {
        lua_pushcfunction(L, refuse_name);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
}

/* Copies fields: [from] [to], which stay. */
static void copy_fields(lua_State *L, const char *names)
{
    for (names += strspn(names, " "); *names; names += strspn(names, " ")) {
        size_t length = strcspn(names, " ");
        lua_pushlstring(L, names, length);
        lua_pushvalue(L, -1);
        lua_gettable(L, -4);
        lua_rawset(L, -3);
        names += length;
    }
}

void late_push_origin(lua_State *L, const struct late_names *libraries)
{
    push_strict(L);
    for (; libraries->library; libraries++) {
        lua_pushglobaltable(L);
        if (!strcmp(libraries->library, LUA_GNAME)) {
            lua_pushvalue(L, -2);
            copy_fields(L, libraries->names);
            lua_pop(L, 2);
        } else {
            lua_getfield(L, -1, libraries->library);
            lua_remove(L, -2);
            late_add(L, libraries->library, libraries->names);
        }
    }
}

void late_add(lua_State *L, const char *name, const char *fields)
{
    push_strict(L);
    copy_fields(L, fields);
    lua_setfield(L, -3, name);
    lua_pop(L, 1);
}

void late_push(lua_State *L, const struct embedded *file, int origin)
{
    origin = lua_absindex(L, origin);
    embedded_push(L, file);
    lua_pushvalue(L, origin);
    lua_setupvalue(L, -2, 1);
}
