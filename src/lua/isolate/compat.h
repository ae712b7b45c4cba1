/* The one place that knows which Lua this is. */
#ifndef ORR_LUA_ISOLATE_COMPAT_H
#define ORR_LUA_ISOLATE_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#if LUA_VERSION_NUM != 504
#error "Orrery needs Lua 5.4"
#endif

/* Closes the variables that a coroutine has left to close.  Lua 5.4.6 has renamed the function. */
static inline int compat_close_thread(lua_State *co, lua_State *from)
{
#if LUA_VERSION_RELEASE_NUM >= 50406
    return lua_closethread(co, from);
#else
    (void)from;
    return lua_resetthread(co);
#endif
}

#endif
