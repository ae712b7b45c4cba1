#include "lua/isolate.h"

#include "lua/host/modules.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/collector.h"
#include "lua/isolate/life.h"
#include "lua/isolate/settings.h"
#include "lua/limits/finalizers.h"
#include "lua/limits/preempt.h"
#include "lua/limits/timeout_report.h"
#include "lua/sandbox/sandbox.h"
#include "lua/task/body.h"
#include "lua/task/cancellation.h"
#include "lua/task/drop.h"
#include "lua/task/orphans.h"
#include "lua/task/report.h"
#include "lua/task/shutdown.h"
#include "lua/task/task.h"
#include "lua/task/task_finalizer.h"
#include "lua/task/task_set.h"
#include "lua/task/unhandled.h"

#include <errno.h>
#include <string.h>

/* --- Opening ---------------------------------------------------------------------------------- */

/* No more tasks begin, and no more calls. */
static void begin_to_close(struct orr_isolate *iso)
{
    iso->closing = true;
    calm_end(&iso->calm);
}

/* Ends the tasks in C that work for an isolate whose own tasks have ended. */
static void end_housekeeping(struct orr_isolate *iso)
{
    unhandled_close(&iso->unhandled);
    schedule_close(&iso->schedule);
}

/* A userdata in the registry, whose finalizer runs when the state closes. */
struct guard {
    struct orr_isolate *iso;
};

/* Closes the isolate, because Lua closes the state. */
static int guard_gc(lua_State *L)
{
    struct guard *guard = lua_touserdata(L, 1);
    struct orr_isolate *iso = guard->iso;
    guard->iso = NULL;
    if (!iso)
        return 0;
    isolate_forget_found();
    if (!iso->closing && !isolate_visit(iso)) { /* the host called lua_close(); tasks may be left */
        begin_to_close(iso);
        runner_end_rest(iso);
        shutdown_begin(shutdown_of_all(&iso->shutdowns), iso, EVERY_SCRIPT, worker_grace_ns(iso->worker));
        shutdown_drop(shutdown_of_all(&iso->shutdowns));
        shutdown_end(shutdown_of_all(&iso->shutdowns));
        unhandled_report_all(iso);
        end_housekeeping(iso);
        task_set_forget_errors(iso); /* the errors are values of the state */
        open_objects_end(iso);
        worker_close_share(iso->worker, &iso->share);
        isolate_leave(iso);
    }
    begin_to_close(iso); /* references to functions outlive the state */
    isolate_unref(iso);
    return 0;
}

/* Gives the state a reference to the isolate, because functions in the state use the isolate. */
static void bind_life(struct orr_isolate *iso, lua_State *L)
{
    struct guard *guard = lua_newuserdatauv(L, sizeof *guard, 0);
    guard->iso = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, guard_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    luaL_ref(L, LUA_REGISTRYINDEX);
    guard->iso = iso;
    isolate_ref(iso);
}

/*
 * Interns texts for the life of the state, so that pushing them never allocates.  Lua pushes some
 * of them outside of protected mode.
 */
static void keep_texts(lua_State *L)
{
    static const char *const texts[] = { "error in error handling", "C stack overflow", CANCELLATION_TEXT, TIMEOUT_TEXT,
                                         YIELDED_TEXT };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lua_pushstring(L, texts[i]);
        luaL_ref(L, LUA_REGISTRYINDEX);
    }
}

/* [isolate]: does the part of opening that may raise. */
static int open_protected(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    bind_life(iso, L);
    keep_texts(L);
    isolate_publish(iso, L);
    registry_open(iso, L);
    missing_open(iso, L);
    if (isolate_is_sandboxed(iso))
        sandbox_open(iso, L);
    else if (iso->owned)
        finalizers_open(L);
    ltask_open(iso, L);
    body_open(iso, L);
    runner_open(iso, L);
    drop_open(iso);
    task_finalizer_open(iso, L);
    orphans_open(iso, L);
    told_open(iso, L);
    modules_open(iso, L);
    return 0;
}

static int isolate_init(struct orr_isolate *iso, struct orr_runtime *rt, lua_State *L)
{
    iso->rt = rt;
    iso->worker = worker_current && worker_runtime(worker_current) == rt ? worker_current : runtime_worker(rt, 1);
    share_open(&iso->share, iso->settings->name);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    iso->L = lua_tothread(L, -1);
    execution_open(&iso->execution, iso->L);
    worker_set_task_freed(iso->worker, ltask_freed);
    isolate_forget_found();
    lua_pop(L, 1);
    lua_pushcfunction(L, open_protected);
    lua_pushlightuserdata(L, iso);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK)
        return 0;
    log_line(&iso->log, ORR_LOG_ERROR, "cannot open the isolate: %s", lua_tostring(L, -1));
    lua_pop(L, 1);
    isolate_unpublish(L);
    worker_close_share(iso->worker, &iso->share);
    begin_to_close(iso);
    return -ENOMEM;
}

static int isolate_new(struct orr_runtime *rt, struct settings *settings, lua_State **out);
static void isolate_free(struct orr_isolate *iso);

/* Creates an isolate with its limits, but without a Lua state; NULL if memory runs out. */
static struct orr_isolate *isolate_begin(struct orr_runtime *rt, struct settings *settings)
{
    struct orr_isolate *iso = isolate_alloc(rt, settings);
    if (!iso)
        return NULL;
    preempt_open(iso);
    open_objects_init(iso);
    timeout_report_open(&iso->timeout_report, report_describe);
    return iso;
}

static const struct isolate_maker maker = { .open = isolate_new, .free = isolate_free };

int orr_lua_open(struct orr_runtime *rt, lua_State *L, const struct orr_lua_options *options)
{
    if (!runtime_valid(rt) || !L)
        return -EINVAL;
    if (isolate_find(L))
        return -EALREADY;
    struct settings *settings;
    int error = settings_new(rt, options, &maker, &settings);
    if (error)
        return error;
    struct orr_isolate *iso = isolate_begin(rt, settings);
    settings_unref(settings);
    if (!iso)
        return -ENOMEM;
    error = isolate_init(iso, rt, L);
    isolate_unref(iso); /* on success, the state holds a reference */
    return error;
}

static int open_libraries(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    collector_open(iso, L);
    if (isolate_is_sandboxed(iso))
        sandbox_libraries(L);
    else
        luaL_openlibs(L);
    return 0;
}

static int isolate_new(struct orr_runtime *rt, struct settings *settings, lua_State **out)
{
    struct orr_isolate *iso = isolate_begin(rt, settings);
    if (!iso)
        return -ENOMEM;
    iso->owned = true;
    int error = -ENOMEM;
    lua_State *L = compat_new_state(memory_alloc, iso);
    if (!L)
        goto no_state;
    lua_pushcfunction(L, open_libraries);
    lua_pushlightuserdata(L, iso);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        goto not_opened;
    error = isolate_init(iso, rt, L);
    if (error)
        goto not_opened;
    collector_begin(iso);
    *out = L;
    return 0;
not_opened:
    memory_discard(iso);
    lua_close(L);
no_state:
    isolate_unref(iso);
    return error;
}

int orr_lua_new(struct orr_runtime *rt, const struct orr_lua_options *options, lua_State **out)
{
    if (!runtime_valid(rt) || !out)
        return -EINVAL;
    struct settings *settings;
    int error = settings_new(rt, options, &maker, &settings);
    if (error)
        return error;
    error = isolate_new(rt, settings, out);
    settings_unref(settings);
    return error;
}

/* --- Closing ---------------------------------------------------------------------------------- */

/*
 * Ends an isolate that has no task left, and frees the state if Orrery has created it.  API
 * functions in a state that the host has created find the isolate closed.
 */
static void dispose(struct orr_isolate *iso)
{
    unhandled_report_all(iso); /* while the state exists, because the errors are in it */
    end_housekeeping(iso);
    task_set_forget_errors(iso);
    open_objects_end(iso);
    isolate_forget_found();
    worker_close_share(iso->worker, &iso->share);
    collector_end(iso);
    if (!iso->owned) {
        shutdown_end_all(iso);
        return;
    }
    memory_discard(iso);
    lua_close(iso->L);
    shutdown_end_all(iso);
    iso->L = NULL;
    charge_end_slice(iso);
    if (iso->on_closed.call)
        iso->on_closed.call(iso->on_closed.data);
    isolate_unref(iso); /* after lua_close(), which uses the isolate's account */
}

static void begin_closing(struct orr_isolate *iso);

static void isolate_free(struct orr_isolate *iso)
{
    begin_closing(iso);
    dispose(iso);
}

/* The task of isolate_close_soon(): shuts the isolate down in several turns, then frees it. */
static enum orr_poll close_poll(struct orr_task *task, void *data)
{
    struct orr_isolate *iso = data;
    if (!shutdown_poll(shutdown_of_all(&iso->shutdowns), task))
        return ORR_PENDING;
    if (iso->owned && !task_is_cancelled_here(task)) {
        unhandled_report_all(iso); /* while the state exists, because the errors are in it */
        if (!discard_step(iso, &iso->discard, shutdown_stretch(iso->worker)))
            return orr_task_yield(task);
    }
    dispose(iso);
    return ORR_DONE;
}

static void begin_closing(struct orr_isolate *iso)
{
    begin_to_close(iso);
    runner_end_rest(iso);
    shutdown_begin(shutdown_of_all(&iso->shutdowns), iso, EVERY_SCRIPT, worker_grace_ns(iso->worker));
    if (iso->owned)
        finalizers_bound(iso);
}

int isolate_close_soon(struct orr_isolate *iso)
{
    struct orr_spawn what = { .poll = close_poll, .data = iso, .name = "closing an isolate", .detached = true };
    int error = iso->closing ? -EALREADY : orr_spawn(iso->rt, &what);
    if (!error)
        begin_closing(iso);
    return error;
}

int orr_lua_close(lua_State *L)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || iso->closing)
        return -EINVAL;
    struct orr_runtime *rt = iso->rt;
    if (worker_current == iso->worker && (worker_is_polling(iso->worker) || execution_is_busy(&iso->execution))) {
        int error = isolate_close_soon(iso);
        return error ? error : -EINPROGRESS;
    }
    bool entered = worker_current == iso->worker;
    int error = entered ? 0 : orr_runtime_enter(rt);
    if (error)
        return error;
    begin_closing(iso);
    shutdown_now(shutdown_of_all(&iso->shutdowns)); /* runs turns of the worker meanwhile */
    dispose(iso);
    if (!entered)
        orr_runtime_leave(rt);
    return 0;
}
