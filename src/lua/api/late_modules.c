#include "lua/api/late_modules.h"

#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/task/task.h"

#include <string.h>

/* Adds what the files use of `async`, `loop` and tasks to the origin. */
static void extend_origin(lua_State *L, int orrery)
{
    lua_getfield(L, orrery, "async");
    late_add(L, "async", "checkpoint current event is_closing run scope shield sleep supervise with_timeout");
    lua_getfield(L, orrery, "loop");
    late_add(L, "loop", "hrtime");
    isolate_push_methods(L, LTASK_CLASS);
    late_add(L, "task", "close errors pwait");
}

/* load(name) -> the module.  Upvalues: the isolate, the list of modules. */
static int load(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const struct late_module *module = lua_touserdata(L, lua_upvalueindex(2));
    while (strcmp(module->name, name) != 0)
        module++;
    late_push_origin(L);
    module->run(isolate_of(L), L);
    lua_getfield(L, -1, name);
    return 1;
}

void late_modules_open(struct orr_isolate *iso, lua_State *L, const struct late_module *modules)
{
    int orrery = lua_gettop(L);
    extend_origin(L, orrery);
    late_push(L, &embedded_late);
    lua_pushvalue(L, orrery);
    lua_pushlightuserdata(L, iso);
    lua_pushlightuserdata(L, (void *)modules);
    lua_pushcclosure(L, load, 2);
    lua_call(L, 2, 0);
}
