
#include "lua/host/modules.h"

#include "lua/api/async.h"
#include "lua/api/async_nvim.h"
#include "lua/api/await.h"
#include "lua/api/c_libraries.h"
#include "lua/api/collectgarbage.h"
#include "lua/api/coroutine.h"
#include "lua/api/eventloop.h"
#include "lua/api/events.h"
#include "lua/api/future.h"
#include "lua/api/grants_list.h"
#include "lua/api/group.h"
#include "lua/api/json.h"
#include "lua/api/late_modules.h"
#include "lua/api/loop.h"
#include "lua/api/queue.h"
#include "lua/api/runtime_info.h"
#include "lua/api/schedule.h"
#include "lua/api/scopes.h"
#include "lua/api/sync.h"
#include "lua/api/task_methods.h"
#include "lua/api/testing.h"
#include "lua/api/values.h"
#include "lua/fs/module.h"
#include "lua/isolate.h"
#include "lua/isolate/api_modules.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/isolate/settings.h"
#include "lua/isolate/stack_room.h"
#include "lua/limits/hooks.h"
#include "lua/limits/paced.h"
#include "lua/limits/terminate.h"
#include "lua/net/module.h"
#include "lua/net/network_class.h"
#include "lua/pattern/pattern.h"
#include "lua/sandbox/sandbox.h"
#include "lua/task/task.h"
#include "lua/worker/library.h"
#include "lua/worker/module.h"

/* Runs lua/async.lua, which extends the module `async` and some classes: [orrery] -> [orrery]. */
static void run_async(lua_State *L)
{
    static const char *const classes[] = { LTASK_CLASS, SEMAPHORE_CLASS, MUTEX_CLASS, FUTURE_CLASS };
    enum { CLASSES = sizeof classes / sizeof *classes };
    late_push(L, &embedded_async);
    lua_pushvalue(L, -2);
    for (int i = 0; i < CLASSES; i++)
        isolate_push_methods(L, classes[i]);
    lua_call(L, 1 + CLASSES, 0);
}

/* Creates the part of the module `async` that is written in C: [orrery] -> [orrery]. */
static void open_async(struct orr_isolate *iso, lua_State *L)
{
    lua_newtable(L);
    async_open(iso, L);
    await_open(iso, L);
    scopes_open(iso, L);
    sync_open(iso, L);
    queue_open(iso, L);
    future_open(iso, L);
    group_open(iso, L);
    lua_setfield(L, -2, "async");
    task_methods_open(iso, L);
}

/* Replaces functions of Lua's standard libraries. */
static void replace_own(struct orr_isolate *iso, lua_State *L)
{
    coroutine_open(iso, L);
    terminate_open(iso, L);
    hooks_open(iso, L);
    collectgarbage_open(iso, L);
    if (!iso->limits.safe_patterns)
        return;
    if (lua_getglobal(L, LUA_STRLIBNAME) == LUA_TTABLE)
        pattern_open(iso, L);
    lua_pop(L, 1);
}

/* Watches the module at the top and the modules in it for fields that they do not have. */
static void watch_fields(lua_State *L)
{
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_istable(L, -1))
            missing_watch(L, lua_tostring(L, -2));
    missing_watch(L, "orrery");
}

/* --- Making the API --------------------------------------------------------------------------- */

static const struct late_module late_modules[] = {
    { "eventloop", eventloop_run },  { "fs", fs_module_run },
    { "net", net_module_run },       { "net_threads", net_threads_module_run },
    { "worker", worker_module_run }, { NULL, NULL },
};

/*
 * Whether scripts find the API only by `require`, which can make it.  A sandbox shows parts of the
 * API to its scripts, and an isolate for jobs is compared with its first state.
 */
static bool is_late(const struct orr_isolate *iso)
{
    const struct settings *settings = iso->settings;
    return !settings->mount && !settings->for_jobs && !isolate_is_sandboxed(iso) && !iso->limits.testing;
}

/* [isolate] -> a new module `orrery` */
static int make(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    lua_newtable(L);
    loop_open(iso, L);
    schedule_open(iso, L);
    runtime_info_open(iso, L);
    values_open(iso, L);
    json_open(iso, L);
    open_async(iso, L);
    run_async(L);
    events_open(iso, L);
    late_modules_open(iso, L, late_modules);
    worker_module_open(iso, L);
    grants_list_open(iso, L);
    if (iso->limits.testing) {
        testing_open(iso, L);
        network_class_open(iso, L);
    }
    lua_pushstring(L, orr_version());
    lua_setfield(L, -2, "version");
    watch_fields(L);
    if (is_late(iso))
        api_modules_withhold(L, iso->settings->modules);
    return 1;
}

/*
 * Pushes the API, and makes it if it is late.  Upvalues: the isolate; the API, nil if it is not
 * made yet, or false while it is being made.
 */
static int get(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_settop(L, 0);
    lua_pushvalue(L, lua_upvalueindex(2));
    if (lua_istable(L, 1))
        return 1;
    if (lua_isboolean(L, 1)) /* or there would be two */
        return luaL_error(L, "require: 'orrery' is being loaded, and a finalizer cannot load it meanwhile");
    lua_pushboolean(L, false);
    lua_replace(L, lua_upvalueindex(2));
    lua_pushcfunction(L, make);
    lua_pushlightuserdata(L, iso);
    bool made = lua_pcall(L, 1, 1, 0) == LUA_OK;
    lua_pushvalue(L, made ? 2 : 1);
    lua_replace(L, lua_upvalueindex(2));
    if (made)
        return 1;
    events_forget(L);
    return lua_error(L);
}

/* async.event() for `require`: rarely called, so it makes the API if it is late. */
static int new_event(lua_State *L)
{
    late_need_api(L);
    late_push_origin(L);
    lua_getfield(L, -1, "async");
    lua_getfield(L, -1, "event");
    lua_call(L, 0, 1);
    return 1;
}

/* Runs lua/require.lua: pushes a function that makes a `require`. */
static void push_require_maker(struct orr_isolate *iso, lua_State *L)
{
    embedded_push(L, &embedded_require);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, async_current, 1);
    lua_pushcfunction(L, new_event);
    lua_call(L, 2, 1);
}

/*
 * Sets a global `require` that uses Lua's table `package`, and preloads `orrery`: [function that
 * returns the API] [function that makes a `require`] -> [function that returns the API].
 */
static void use_package(lua_State *L)
{
    lua_call(L, 0, 1);
    lua_setglobal(L, "require");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "orrery");
    lua_pop(L, 1);
}

/* Finishes a sandbox, which scripts see the API through.  The stack is that of use_package(). */
static void use_sandbox(struct orr_isolate *iso, lua_State *L)
{
    lua_pushvalue(L, -2);
    lua_call(L, 0, 1);
    lua_insert(L, -2);
    sandbox_finish(iso, L);
    lua_pop(L, 1);
}

/* Makes the API, and its global: [function that returns the API], which stays. */
static void mount(const struct settings *settings, lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_call(L, 0, 1);
    if (settings->mount) {
        lua_pushvalue(L, -1);
        lua_setglobal(L, settings->mount);
    }
    lua_pop(L, 1);
}

/* Cuts the API down to what the host allows: [function that returns the API], which stays. */
static void cut_down(const struct settings *settings, lua_State *L)
{
    lua_pushvalue(L, -1);
    lua_call(L, 0, 1);
    api_modules_withhold(L, settings->modules);
    /* An isolate with more modules than jobs get is not reused, so it need not be frozen. */
    if (settings->for_jobs && !api_modules_beyond_jobs(settings->modules))
        library_freeze(L);
    lua_pop(L, 1);
}

void modules_open(struct orr_isolate *iso, lua_State *L)
{
    bool late = is_late(iso);
    stack_room_learn(L);
    paced_open(iso, L);
    replace_own(iso, L);
    late_open(L);
    lua_pushlightuserdata(L, iso);
    lua_pushnil(L);
    lua_pushcclosure(L, get, 2);
    lua_pushvalue(L, -1);
    late_set_api(L);
    if (!late)
        mount(iso->settings, L);
    push_require_maker(iso, L);
    if (isolate_is_sandboxed(iso))
        use_sandbox(iso, L);
    else
        use_package(L);
    c_libraries_open(iso, L);
    if (iso->limits.may_sleep)
        c_libraries_may_sleep(iso);
    async_nvim_open(iso, L);
    if (!late)
        cut_down(iso->settings, L);
    lua_pop(L, 1);
}
