
#include "lua/host/modules.h"

#include "lua/api/async.h"
#include "lua/api/await.h"
#include "lua/api/c_libraries.h"
#include "lua/api/collectgarbage.h"
#include "lua/api/coroutine.h"
#include "lua/api/eventloop.h"
#include "lua/api/events.h"
#include "lua/api/future.h"
#include "lua/api/group.h"
#include "lua/api/json.h"
#include "lua/api/loop.h"
#include "lua/api/runtime_info.h"
#include "lua/api/schedule.h"
#include "lua/api/scopes.h"
#include "lua/api/sync.h"
#include "lua/api/task_methods.h"
#include "lua/api/testing.h"
#include "lua/api/values.h"
#include "lua/isolate.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/settings.h"
#include "lua/limits/hooks.h"
#include "lua/limits/paced.h"
#include "lua/limits/stack_room.h"
#include "lua/limits/terminate.h"
#include "lua/pattern/pattern.h"
#include "lua/sandbox/sandbox.h"
#include "lua/task/task.h"
#include "lua/worker/library.h"
#include "lua/worker/module.h"

/* What is written in Lua, compiled and embedded at build time: see lua/. */
extern const char orrery_lua_async[];
extern const size_t orrery_lua_async_size;
extern const char orrery_lua_eventloop[];
extern const size_t orrery_lua_eventloop_size;
extern const char orrery_lua_events[];
extern const size_t orrery_lua_events_size;
extern const char orrery_lua_require[];
extern const size_t orrery_lua_require_size;

/* Calls a chunk of ours with the module's table, at the top, and with what is private to us: [module] -> [module] [result]. */
static void run_chunk(lua_State *L, const char *code, size_t size, const char *name)
{
    if (luaL_loadbufferx(L, code, size, name, "b") != LUA_OK)
        lua_error(L);
    lua_pushvalue(L, -2);
    isolate_push_methods(L, LTASK_CLASS);
    isolate_push_methods(L, "orrery.semaphore");
    isolate_push_methods(L, "orrery.mutex");
    isolate_push_methods(L, "orrery.future");
    lua_call(L, 5, 1);
}

/* [module] -> [module] */
static void open_events(struct orr_isolate *iso, lua_State *L)
{
    events_push_private(iso, L);
    if (luaL_loadbufferx(L, orrery_lua_events, orrery_lua_events_size, "=orrery/events.lua", "b") != LUA_OK)
        lua_error(L);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
    events_keep_host(L);
    lua_pop(L, 1);
}

/* [module] -> [module] */
static void open_eventloop(struct orr_isolate *iso, lua_State *L)
{
    eventloop_push_private(iso, L);
    if (luaL_loadbufferx(L, orrery_lua_eventloop, orrery_lua_eventloop_size, "=orrery/eventloop.lua", "b") != LUA_OK)
        lua_error(L);
    lua_pushvalue(L, -3);
    isolate_push_methods(L, LTASK_CLASS);
    lua_pushvalue(L, -4);
    lua_call(L, 3, 0);
    eventloop_keep_host(L);
    lua_pop(L, 1);
}

static int return_module(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

/* `require`, with Lua's own modules, and ours among them: [module] [what makes a require] -> [module]. */
static void use_package(lua_State *L)
{
    lua_call(L, 0, 1);
    lua_setglobal(L, "require");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, return_module, 1);
    lua_setfield(L, -2, "orrery");
    lua_pop(L, 1);
}

/* Into `string`, in the place of Lua's own. */
static void put_patterns(struct orr_isolate *iso, lua_State *L)
{
    if (lua_getglobal(L, LUA_STRLIBNAME) == LUA_TTABLE)
        pattern_open(iso, L);
    lua_pop(L, 1);
}

void modules_open(struct orr_isolate *iso, lua_State *L)
{
    const struct settings *settings = iso->settings;
    stack_room_learn(L);
    lua_newtable(L);
    loop_open(iso, L);
    schedule_open(iso, L);
    runtime_info_open(iso, L);
    paced_open(iso, L);
    values_open(iso, L);
    json_open(iso, L);
    lua_newtable(L);
    async_open(iso, L);
    await_open(iso, L);
    scopes_open(iso, L);
    sync_open(iso, L);
    future_open(iso, L);
    group_open(iso, L);
    lua_setfield(L, -2, "async");
    task_methods_open(iso, L);
    coroutine_open(iso, L);
    terminate_open(iso, L);
    hooks_open(iso, L);
    collectgarbage_open(iso, L);
    if (iso->limits.safe_patterns)
        put_patterns(iso, L);
    run_chunk(L, orrery_lua_async, orrery_lua_async_size, "=orrery/async.lua");
    lua_pop(L, 1);
    open_eventloop(iso, L);
    open_events(iso, L);
    worker_module_open(iso, L);
    if (iso->limits.testing)
        testing_open(iso, L);
    lua_pushstring(L, orr_version());
    lua_setfield(L, -2, "version");
    if (settings->mount) {
        lua_pushvalue(L, -1);
        lua_setglobal(L, settings->mount);
    }
    run_chunk(L, orrery_lua_require, orrery_lua_require_size, "=orrery/require.lua");
    if (sandbox_applies(iso))
        sandbox_finish(iso, L);
    else
        use_package(L);
    c_libraries_open(iso, L);
    if (iso->limits.may_sleep)
        c_libraries_may_sleep(iso);
    api_modules_withhold(L, settings->modules);
    if (settings->for_jobs && !api_modules_beyond_jobs(settings->modules)) /* with which an isolate is not used again */
        library_freeze(L);
    lua_pop(L, 1);
}
