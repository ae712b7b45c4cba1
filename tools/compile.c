/*
 * Compiles a Lua file of the library with the Lua that it is built for: parsing would take most of
 * the start time.
 *
 * Usage: compile INPUT NAME OUTPUT; messages use the name.
 */
#include <lauxlib.h>
#include <lua.h>

#include <stdio.h>
#include <stdlib.h>

static int write_piece(lua_State *L, const void *piece, size_t size, void *file)
{
    (void)L;
    return fwrite(piece, 1, size, file) != size;
}

/* Returns what is wrong; NULL if nothing is. */
static const char *compile(lua_State *L, const char *input, const char *name, const char *output)
{
    static char text[1 << 20];
    FILE *file = fopen(input, "rb");
    if (!file)
        return "cannot be opened";
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    if (size == sizeof text)
        return "is too long";
    lua_pushfstring(L, "=%s", name);
    if (luaL_loadbufferx(L, text, size, lua_tostring(L, -1), "t") != LUA_OK)
        return lua_tostring(L, -1);
    file = fopen(output, "wb");
    if (!file)
        return "has nowhere to be written to";
    int failed = lua_dump(L, write_piece, file, 0);
    return fclose(file) || failed ? "cannot be written" : NULL;
}

int main(int argc, char **argv)
{
    lua_State *L = argc == 4 ? luaL_newstate() : NULL;
    const char *problem = L ? compile(L, argv[1], argv[2], argv[3]) : "usage: compile INPUT NAME OUTPUT";
    if (problem)
        fprintf(stderr, "compile: %s: %s\n", argc > 1 ? argv[1] : "", problem);
    if (L)
        lua_close(L);
    return problem ? EXIT_FAILURE : EXIT_SUCCESS;
}
