#include "lua/host/global_path.h"

#include <errno.h>
#include <string.h>

bool global_path_is_valid(const char *path)
{
    if (!path || !*path || *path == '.')
        return false;
    return path[strlen(path) - 1] != '.' && !strstr(path, "..");
}

/* Pushes the first part of a path, and returns the rest; NULL after the last part.  May raise. */
static const char *push_part(lua_State *L, const char *path)
{
    size_t length = strcspn(path, ".");
    lua_pushlstring(L, path, length);
    return path[length] ? path + length + 1 : NULL;
}

void global_path_push(lua_State *L, const char *path)
{
    lua_pushglobaltable(L);
    while (path) {
        if (!lua_istable(L, -1)) {
            lua_pushnil(L);
            return;
        }
        path = push_part(L, path);
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
}

struct setting {
    const char *path;
    void (*push)(lua_State *L, void *data);
    void *data;
    int error;
};

/*
 * [table] [key] -> [table at the key], which is created if it is missing.  False if the value at
 * the key is not a table.
 */
static bool enter_table(lua_State *L)
{
    lua_pushvalue(L, -1);
    int type = lua_rawget(L, -3);
    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
    return type == LUA_TNIL || type == LUA_TTABLE;
}

/* [setting]: sets the value at the path. */
static int set_protected(lua_State *L)
{
    struct setting *setting = lua_touserdata(L, 1);
    const char *path = setting->path;
    lua_pushglobaltable(L);
    while ((path = push_part(L, path))) {
        if (!enter_table(L)) {
            setting->error = -ENOTDIR;
            return 0;
        }
    }
    setting->push(L, setting->data);
    lua_rawset(L, -3);
    return 0;
}

int global_path_set(lua_State *L, const char *path, void (*push)(lua_State *L, void *data), void *data)
{
    struct setting setting = { .path = path, .push = push, .data = data };
    if (!lua_checkstack(L, 2))
        return -ENOMEM;
    lua_pushcfunction(L, set_protected);
    lua_pushlightuserdata(L, &setting);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK)
        return setting.error;
    lua_pop(L, 1);
    return -ENOMEM;
}
