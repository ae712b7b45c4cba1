#include "lua/api/primitive.h"

#include <errno.h>
#include <string.h>

void *primitive_new(lua_State *L, const char *class, size_t size, int user_values)
{
    struct orr_isolate *iso = isolate_of(L);
    objects_check(iso, L);
    void *object = lua_newuserdatauv(L, size, user_values);
    memset(object, 0, size);
    luaL_setmetatable(L, class);
    objects_made(iso);
    return object;
}

int primitive_raise(lua_State *L, const char *what, int error)
{
    return luaL_error(L, "%s: %s", what, error == -EBUSY ? "another thread drives this Lua state" : strerror(-error));
}

int primitive_made(lua_State *L, const char *what, int error)
{
    return error ? primitive_raise(L, what, error) : 1;
}

int primitive_ended(lua_State *L, const char *class, int error)
{
    if (error == -EBUSY)
        luaL_setmetatable(L, class); /* has Lua call the finalizer again */
    else
        objects_gone(isolate_of(L));
    return 0;
}
