#include "lua/isolate/late.h"

#include "lua/isolate/embedded.h"

#include <string.h>

static const char origin_key, api_key; /* in the registry */

#define STRICT "orrery.origin"

/* --- Origins ---------------------------------------------------------------------------------- */

/* __index: a file uses a name that its origin lacks, which is a mistake in the library. */
static int refuse_name(lua_State *L)
{
    return luaL_error(L, "a file of the library uses '%s', which is not in its origin", luaL_tolstring(L, 2, NULL));
}

/* Pushes a table that raises when it is asked for a field that it does not have. */
static void push_strict(lua_State *L)
{
    lua_newtable(L);
    if (luaL_newmetatable(L, STRICT)) {
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

/* Adds copies of fields as a table: [origin] [from] -> [origin]. */
static void add_table(lua_State *L, const char *name, const char *fields)
{
    push_strict(L);
    copy_fields(L, fields);
    lua_setfield(L, -3, name);
    lua_pop(L, 1);
}

void late_push_copies(lua_State *L, const struct late_names *libraries)
{
    push_strict(L);
    for (; libraries->library; libraries++) {
        lua_pushglobaltable(L);
        if (!strcmp(libraries->library, LUA_GNAME)) {
            lua_pushvalue(L, -2);
            copy_fields(L, libraries->names);
            lua_pop(L, 2);
        } else if (lua_getfield(L, -1, libraries->library) == LUA_TTABLE) {
            lua_remove(L, -2);
            add_table(L, libraries->library, libraries->names);
        } else {
            lua_pop(L, 2);
        }
    }
}

void late_push_with(lua_State *L, const struct embedded *file)
{
    embedded_push(L, file);
    lua_pushvalue(L, -2);
    lua_setupvalue(L, -2, 1);
}

/* --- The API ---------------------------------------------------------------------------------- */

void late_open(lua_State *L)
{
    static const struct late_names libraries[] = {
        { LUA_GNAME, "error ipairs next pairs pcall rawget rawlen select setmetatable tostring type" },
        { LUA_MATHLIBNAME, "floor huge max maxinteger min type" },
        { LUA_STRLIBNAME, "find format gmatch gsub match sub" },
        { LUA_TABLIBNAME, "concat pack sort unpack" },
        { NULL, NULL },
    };
    late_push_copies(L, libraries);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &origin_key);
}

void late_push_origin(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &origin_key);
}

void late_add(lua_State *L, const char *name, const char *fields)
{
    late_push_origin(L);
    lua_insert(L, -2);
    add_table(L, name, fields);
    lua_pop(L, 1);
}

void late_push(lua_State *L, const struct embedded *file)
{
    late_push_origin(L);
    late_push_with(L, file);
    lua_remove(L, -2);
}

void late_set_api(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &api_key);
}

void late_need_api(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &api_key);
    lua_call(L, 0, 0);
}

void late_forget_api(lua_State *L)
{
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &api_key);
}

bool late_try_api(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &api_key);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK)
        return true;
    lua_pop(L, 1);
    return false;
}
