#include "lua/api/c_libraries.h"

#include "lua/isolate.h"

/* Calls package.loadlib or a searcher.  A function or true means that it has loaded a library. */
static int load_library(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    if (lua_isfunction(L, 1) || (lua_isboolean(L, 1) && lua_toboolean(L, 1)))
        c_libraries_may_sleep(iso);
    return lua_gettop(L);
}

void c_libraries_may_sleep(struct orr_isolate *iso)
{
    if (iso->limits.mode == ORR_LUA_SIGNAL)
        watch_be_careful(worker_watch(iso->worker));
}

/* Replaces the function at the top by load_library() around it. */
static void wrap(struct orr_isolate *iso, lua_State *L)
{
    lua_pushlightuserdata(L, iso);
    lua_insert(L, -2);
    lua_pushcclosure(L, load_library, 2);
}

void c_libraries_open(struct orr_isolate *iso, lua_State *L)
{
    enum { SEARCH_LIBRARY = 3, SEARCH_LIBRARY_OF_PACKAGE = 4 };
    if (lua_getglobal(L, LUA_LOADLIBNAME) != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    if (lua_getfield(L, -1, "loadlib") == LUA_TFUNCTION) {
        wrap(iso, L);
        lua_setfield(L, -2, "loadlib");
    } else {
        lua_pop(L, 1);
    }
    bool searchers = lua_getfield(L, -1, "searchers") == LUA_TTABLE;
    for (int i = SEARCH_LIBRARY; searchers && i <= SEARCH_LIBRARY_OF_PACKAGE; i++) {
        if (lua_rawgeti(L, -1, i) == LUA_TFUNCTION) {
            wrap(iso, L);
            lua_rawseti(L, -2, i);
        } else {
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 2);
}
