/*
 * The parts of `lua` that the tests of the module need.  A stock interpreter has no sanitizers, so
 * a build with sanitizers uses this one.
 *
 *     interpreter -e CODE
 *     interpreter SCRIPT [ARGUMENTS]
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <stdio.h>
#include <string.h>

static void set_arguments(lua_State *L, int argc, char **argv)
{
    lua_newtable(L);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - 1);
    }
    lua_setglobal(L, "arg");
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    if (argc < 2 || !L)
        return 2;
    luaL_openlibs(L);
    set_arguments(L, argc, argv);
    int status = !strcmp(argv[1], "-e") && argc > 2 ? luaL_loadstring(L, argv[2]) : luaL_loadfile(L, argv[1]);
    if (status == LUA_OK)
        status = lua_pcall(L, 0, 0, 0);
    if (status != LUA_OK)
        fprintf(stderr, "interpreter: %s\n", lua_tostring(L, -1));
    lua_close(L);
    return status == LUA_OK ? 0 : 1;
}
