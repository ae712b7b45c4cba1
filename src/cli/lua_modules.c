#include "cli/lua_modules.h"

#include "cli/duration.h"

#include <lauxlib.h>
#include <lua.h>

#include <stddef.h>

#define MODULES(X) \
    X(attempt) \
    X(expect) X(file) X(files) X(job) X(junit) X(main) X(options) X(pretty) X(show) X(suite) X(tap) X(text) X(wire)

#define DECLARE(name) \
    extern const char orrery_test_##name[]; \
    extern const size_t orrery_test_##name##_size;
MODULES(DECLARE)
extern const char orrery_cli_pretty[];
extern const size_t orrery_cli_pretty_size;

static const struct lua_module {
    const char *name, *chunk, *code;
    const size_t *size;
} modules[] = {
#define ROW(name) \
    { "orrery.test." #name, "=orrery/test/" #name ".lua", orrery_test_##name, &orrery_test_##name##_size },
    MODULES(ROW){ "orrery.pretty", "=orrery/pretty.lua", orrery_cli_pretty, &orrery_cli_pretty_size },
};

/* Loads a module.  Its argument is the function that writes amounts of time. */
static int load_module(lua_State *L)
{
    const struct lua_module *module = lua_touserdata(L, lua_upvalueindex(1));
    if (luaL_loadbufferx(L, module->code, *module->size, module->chunk, "t") != LUA_OK)
        return lua_error(L);
    lua_pushcfunction(L, duration_text);
    lua_call(L, 1, 1);
    return 1;
}

static int preload(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        lua_pushlightuserdata(L, (void *)&modules[i]);
        lua_pushcclosure(L, load_module, 1);
        lua_setfield(L, -2, modules[i].name);
    }
    return 0;
}

int lua_modules_preload(lua_State *L)
{
    lua_pushcfunction(L, preload);
    return lua_pcall(L, 0, 0, 0);
}
