#include "lua/api/late_modules.h"

#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/task/task.h"

#include <string.h>

/* Pushes what the files use: of Lua's libraries, of `async` and `loop`, and of tasks. */
static void push_origin(lua_State *L, int orrery)
{
    static const struct late_names libraries[] = {
        { LUA_GNAME, "error ipairs next pairs pcall rawget rawlen select setmetatable tostring type" },
        { LUA_MATHLIBNAME, "floor huge max maxinteger min type" },
        { LUA_STRLIBNAME, "find format gsub sub" },
        { LUA_TABLIBNAME, "pack sort unpack" },
        { NULL, NULL },
    };
    late_push_origin(L, libraries);
    lua_getfield(L, orrery, "async");
    late_add(L, "async", "checkpoint current event is_closing run scope shield sleep supervise with_timeout");
    lua_getfield(L, orrery, "loop");
    late_add(L, "loop", "hrtime");
    isolate_push_methods(L, LTASK_CLASS);
    late_add(L, "task", "close errors pwait");
}

/* load(name) -> the module.  Upvalues: the isolate, the origin, the list of modules. */
static int load(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const struct late_module *module = lua_touserdata(L, lua_upvalueindex(3));
    while (strcmp(module->name, name) != 0)
        module++;
    lua_pushvalue(L, lua_upvalueindex(2));
    module->run(isolate_of(L), L);
    lua_getfield(L, -1, name);
    return 1;
}

void late_modules_open(struct orr_isolate *iso, lua_State *L, const struct late_module *modules)
{
    int orrery = lua_gettop(L);
    embedded_push(L, &embedded_late);
    lua_pushvalue(L, orrery);
    lua_pushlightuserdata(L, iso);
    push_origin(L, orrery);
    lua_pushlightuserdata(L, (void *)modules);
    lua_pushcclosure(L, load, 3);
    lua_call(L, 2, 0);
}
