#include "lua/api/option_table.h"

#include "base/nearest.h"

#include <string.h>

enum { OPTIONS_MAX = 32 }; /* of one function */

/* Pushes what to add to a message about an unknown option. */
static void push_advice(lua_State *L, const char *name, const char *const *known, size_t count)
{
    const char *near = name ? nearest(name, known, count) : NULL;
    if (near) {
        lua_pushfstring(L, "; did you mean '%s'?", near);
        return;
    }
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    luaL_addstring(&text, "; expected ");
    for (size_t i = 0; i < count; i++) {
        luaL_addstring(&text, !i ? "" : i + 1 < count ? ", " : " or ");
        luaL_addstring(&text, known[i]);
    }
    luaL_pushresult(&text);
}

void option_table_check(lua_State *L, int index, const char *what, const char *const *known)
{
    size_t count = 0;
    if (!lua_istable(L, index))
        luaL_error(L, "%s: expected a table of options, got %s", what, luaL_typename(L, index));
    while (known[count])
        count++;
    luaL_checkstack(L, 6, NULL);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        size_t i = 0;
        while (i < count && !(key && !strcmp(known[i], key)))
            i++;
        if (i < count)
            continue;
        lua_pushvalue(L, -2);
        const char *shown = luaL_tolstring(L, -1, NULL);
        push_advice(L, key, known, count);
        luaL_error(L, "%s: unknown option '%s'%s", what, shown, lua_tostring(L, -1));
    }
}

bool option_table_flag(lua_State *L, int index, const char *what, const char *name)
{
    int type = lua_getfield(L, index, name);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        luaL_error(L, "%s: option %s: expected true or false, got %s", what, name, lua_typename(L, type));
    bool set = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return set;
}

const char *option_table_string(lua_State *L, int index, const char *what, const char *name)
{
    int type = lua_getfield(L, index, name);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        luaL_error(L, "%s: option %s: expected a string, got %s", what, name, lua_typename(L, type));
    return lua_tostring(L, -1);
}

int option_table_advise(lua_State *L)
{
    const char *known[OPTIONS_MAX];
    const char *name = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
    int count = lua_gettop(L) - 1;
    luaL_argcheck(L, count <= OPTIONS_MAX, 2, "too many options");
    for (int i = 0; i < count; i++)
        known[i] = luaL_checkstring(L, i + 2);
    push_advice(L, name, known, (size_t)count);
    return 1;
}
