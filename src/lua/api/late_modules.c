#include "lua/api/late_modules.h"

#include "lua/isolate.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/isolate/settings.h"
#include "lua/task/task.h"

#include <string.h>

/* Adds what the files use of `async`, `loop` and tasks to the origin. */
static void extend_origin(lua_State *L, int orrery)
{
    lua_getfield(L, orrery, "async");
    late_add(L, "async",
             "checkpoint current event is_closing move_on_after run scope semaphore shield sleep supervise "
             "with_timeout");
    lua_getfield(L, orrery, "loop");
    late_add(L, "loop", "hrtime");
    isolate_push_methods(L, LTASK_CLASS);
    late_add(L, "task", "close errors on_complete pwait status");
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

/* note(table, key): a script has read a field that the table does not have. */
static int note_missing(lua_State *L)
{
    missing_note(isolate_of(L), L, 1, 2);
    return 0;
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
    late_push_origin(L); /* late files load each other by `orrery.late` */
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "late");
    lua_pop(L, 1);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, note_missing, 1);
    lua_pushboolean(L, api_modules_has(iso->settings->modules, "stdin"));
    lua_call(L, 4, 0);
}
