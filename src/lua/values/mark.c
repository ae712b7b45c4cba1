#include "lua/values/mark.h"

#include <stdbool.h>

static const char keys[MARK_FOREIGN]; /* the addresses are keys in the registry */

/* Adds a field of an error to the text at the top, if it is there: [error] [text]. */
static void add_field(lua_State *L, const char *before, const char *field, const char *after)
{
    lua_pushstring(L, field);
    if (lua_rawget(L, 1) == LUA_TSTRING || lua_type(L, -1) == LUA_TNUMBER) {
        lua_pushfstring(L, "%s%s%s", before, lua_tostring(L, -1), after);
        lua_replace(L, -2);
        lua_concat(L, 2);
    } else {
        lua_pop(L, 1);
    }
}

/* "connect 127.0.0.1:9: Connection refused (ECONNREFUSED)" */
static int error_tostring(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushliteral(L, "");
    add_field(L, "", "operation", "");
    add_field(L, " ", "address", "");
    add_field(L, " ", "path", "");
    if (lua_rawlen(L, 2))
        lua_pushliteral(L, ": ");
    else
        lua_pushliteral(L, "");
    lua_concat(L, 2);
    add_field(L, "", "message", "");
    add_field(L, " (", "code", ")");
    add_field(L, ", after ", "written", " bytes");
    return 1;
}

static void make(lua_State *L, enum mark mark, const char *name, lua_CFunction tostring)
{
    lua_createtable(L, 0, 3);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable"); /* else a script could change what all such tables do */
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    if (tostring) {
        lua_pushcfunction(L, tostring);
        lua_setfield(L, -2, "__tostring");
    }
    lua_rawsetp(L, LUA_REGISTRYINDEX, &keys[mark]);
}

void marks_make(lua_State *L)
{
    make(L, MARK_ARRAY, "orrery.array", NULL);
    make(L, MARK_ERROR, "orrery.error", error_tostring);
}

void mark_push(lua_State *L, enum mark mark)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &keys[mark]);
}

/* Whether the metatable at the top is a mark. */
static bool is_mark(lua_State *L, enum mark mark)
{
    mark_push(L, mark);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    return same;
}

enum mark mark_of(lua_State *L, int index)
{
    if (!lua_getmetatable(L, index))
        return MARK_NONE;
    enum mark mark = is_mark(L, MARK_ARRAY) ? MARK_ARRAY : is_mark(L, MARK_ERROR) ? MARK_ERROR : MARK_FOREIGN;
    lua_pop(L, 1);
    return mark;
}
