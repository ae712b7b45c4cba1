#include "lua/isolate.h"

#include "lua/api/modules.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/settings.h"
#include "lua/limits/budget.h"
#include "lua/limits/finalizers.h"
#include "lua/sandbox/sandbox.h"
#include "lua/task/orphans.h"
#include "lua/task/task_finalizer.h"
#include "lua/task/task_parts.h"

#include <errno.h>
#include <string.h>

/* --- Registration ------------------------------------------------------------------------------------------ */

void isolate_register(struct orr_isolate *iso, lua_State *L, const luaL_Reg *functions)
{
    lua_pushlightuserdata(L, iso);
    luaL_setfuncs(L, functions, 1);
}

void isolate_class(struct orr_isolate *iso, lua_State *L, const char *name, const luaL_Reg *methods)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    for (const luaL_Reg *method = methods; method->name; method++) {
        const luaL_Reg one[] = { *method, { NULL, NULL } };
        bool special = !strncmp(method->name, "__", 2);
        lua_pushvalue(L, special ? -2 : -1);
        isolate_register(iso, L, one);
        lua_pop(L, 1);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "methods");
    if (sandbox_applies(iso) || iso->settings->for_jobs)
        lua_pushboolean(L, false); /* or one script, or job, could change them for all */
    else
        lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__metatable"); /* scripts see the methods, and no finalizer */
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void isolate_push_methods(lua_State *L, const char *name)
{
    luaL_getmetatable(L, name);
    lua_getfield(L, -1, "methods");
    lua_remove(L, -2);
}

void isolate_object_class(struct orr_isolate *iso, lua_State *L, enum object_class which, const char *name,
                          const luaL_Reg *methods)
{
    isolate_class(iso, L, name, methods);
    luaL_getmetatable(L, name);
    iso->identities[which] = lua_topointer(L, -1);
    iso->classes[which] = luaL_ref(L, LUA_REGISTRYINDEX);
}

void isolate_set_class(lua_State *L, enum object_class which)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, isolate_of(L)->classes[which]);
    lua_setmetatable(L, -2);
}

void *isolate_test(lua_State *L, int index, enum object_class which)
{
    void *object = lua_touserdata(L, index);
    if (!object || !lua_getmetatable(L, index))
        return NULL;
    const void *identity = lua_topointer(L, -1);
    lua_pop(L, 1);
    return identity == isolate_of(L)->identities[which] ? object : NULL;
}

void *isolate_check(lua_State *L, int index, enum object_class which, const char *name)
{
    void *object = isolate_test(L, index, which);
    return object ? object : luaL_checkudata(L, index, name); /* which says what is wrong */
}

/* --- Anchors and coroutines --------------------------------------------------------------------------------- */

/* Some free indices are at hand; the rest are a list in the table itself. */
static int take_free_anchor(struct orr_isolate *iso, lua_State *L)
{
    if (iso->handy)
        return iso->handy_anchors[--iso->handy];
    int index = iso->free_anchor;
    if (!index)
        return 0;
    lua_rawgeti(L, -1, index);
    iso->free_anchor = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return index;
}

int isolate_anchor(struct orr_isolate *iso, lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->anchors);
    int index = take_free_anchor(iso, L);
    bool grows = !index;
    if (grows)
        index = iso->last_anchor + 1;
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, index); /* may raise when the table grows: then nothing has changed */
    if (grows)
        iso->last_anchor = index;
    lua_pop(L, 1);
    return index;
}

void isolate_push_anchored(struct orr_isolate *iso, lua_State *L, int anchor)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->anchors);
    lua_rawgeti(L, -1, anchor);
    lua_remove(L, -2);
}

void isolate_unanchor(struct orr_isolate *iso, lua_State *L, int anchor)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->anchors);
    bool handy = iso->handy < HANDY_ANCHORS;
    lua_pushinteger(L, handy ? 0 : iso->free_anchor);
    lua_rawseti(L, -2, anchor); /* in place of what is there */
    lua_pop(L, 1);
    if (handy)
        iso->handy_anchors[iso->handy++] = anchor;
    else
        iso->free_anchor = anchor;
}

void isolate_set_anchor(struct orr_isolate *iso, lua_State *L, int anchor, bool value)
{
    if (!value)
        lua_pushboolean(L, false);
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->anchors);
    lua_insert(L, -2);
    lua_rawseti(L, -2, anchor);
    lua_pop(L, 1);
}

lua_State *isolate_coroutine(struct orr_isolate *iso, lua_State *L)
{
    if (!iso->pooled) {
        lua_State *co = lua_newthread(L);
        budget_made_coroutine(iso, L, co);
        return co;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, iso->pool);
    lua_rawgeti(L, -1, iso->pooled);
    lua_pushboolean(L, false);
    lua_rawseti(L, -3, iso->pooled--);
    lua_remove(L, -2);
    return lua_tothread(L, -1);
}

void isolate_recycle(struct orr_isolate *iso, lua_State *co)
{
    if (iso->pooled == POOL_MAX || iso->closing)
        return;
    lua_settop(co, 0);
    if (lua_gethook(co))
        lua_sethook(co, NULL, 0, 0); /* the next task has none, either */
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->pool);
    lua_pushthread(co);
    lua_rawseti(co, -2, ++iso->pooled);
    lua_settop(co, 0);
}

/* --- Coming in and going out ---------------------------------------------------------------------------------- */

int isolate_visit(struct orr_isolate *iso)
{
    if (worker_current == iso->worker) {
        iso->visits += iso->visits > 0; /* inside another visit */
        return 0;
    }
    if (iso->worker != runtime_worker(iso->rt, 1))
        return -EPERM;
    int error = orr_runtime_enter(iso->rt);
    if (!error) /* else the count is another thread's */
        iso->visits = 1;
    return error;
}

void isolate_leave(struct orr_isolate *iso)
{
    if (iso->visits && !--iso->visits)
        orr_runtime_leave(iso->rt);
}

/* --- Life ------------------------------------------------------------------------------------------------------- */

static const char isolate_key; /* its address is the isolate's place in the registry */

/*
 * A host asks for the same isolate again and again, by its main thread: the last that was found is remembered, until any isolate of the
 * process comes or goes, since then the address may be another's.
 */
static _Atomic uint64_t comings_and_goings;

static _Thread_local struct {
    lua_State *L;
    struct orr_isolate *iso;
    uint64_t as_of;
} last_found __attribute__((tls_model("initial-exec")));

static void forget_found(void)
{
    atomic_fetch_add_explicit(&comings_and_goings, 1, memory_order_relaxed);
}

struct orr_isolate *isolate_find(lua_State *L)
{
    uint64_t as_of = atomic_load_explicit(&comings_and_goings, memory_order_relaxed);
    if (L == last_found.L && as_of == last_found.as_of)
        return last_found.iso;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &isolate_key);
    struct orr_isolate *iso = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (iso && iso->L == L) {
        last_found.L = L;
        last_found.iso = iso;
        last_found.as_of = as_of;
    }
    return iso;
}

struct guard {
    struct orr_isolate *iso;
};

/* The state itself is being closed. */
static int guard_gc(lua_State *L)
{
    struct guard *guard = lua_touserdata(L, 1);
    struct orr_isolate *iso = guard->iso;
    guard->iso = NULL;
    if (!iso)
        return 0;
    forget_found();
    if (!iso->closing && !isolate_visit(iso)) { /* by the host, under its tasks */
        iso->closing = true;
        shutdown_begin(&iso->shutdown, iso, EVERY_SCRIPT, iso->worker->grace_ns);
        shutdown_drop(&iso->shutdown);
        shutdown_end(&iso->shutdown);
        ltask_report_unseen(iso);
        ltask_forget_errors(iso); /* which are values of the state */
        worker_close_share(iso->worker, &iso->share);
        isolate_leave(iso);
    }
    iso->closing = true; /* references to functions outlive the state */
    isolate_unref(iso);
    return 0;
}

/* The isolate lives as long as the state, whose functions refer to it. */
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
    iso->references++;
}

/* Texts that must be there when no memory is: Lua makes some of them where nothing protects it. */
static void keep_texts(lua_State *L)
{
    static const char *const texts[] = { "error in error handling", "C stack overflow", "closed", TIMEOUT_TEXT,
                                         YIELDED_TEXT };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lua_pushstring(L, texts[i]);
        luaL_ref(L, LUA_REGISTRYINDEX);
    }
}

/* What may raise, protected.  The isolate is the argument. */
static int open_protected(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    bind_life(iso, L);
    keep_texts(L);
    lua_pushlightuserdata(L, iso);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &isolate_key);
    lua_createtable(L, 16, 0);
    iso->anchors = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_createtable(L, POOL_MAX, 0); /* as large as it gets: recycling must not allocate */
    for (int i = 1; i <= POOL_MAX; i++) {
        lua_pushboolean(L, false);
        lua_rawseti(L, -2, i);
    }
    iso->pool = luaL_ref(L, LUA_REGISTRYINDEX);
    if (sandbox_applies(iso))
        sandbox_open(iso, L);
    else if (iso->owned)
        finalizers_open(L);
    ltask_open(iso, L);
    task_finalizer_open(iso, L);
    orphans_open(iso, L);
    modules_open(iso, L);
    return 0;
}

static int isolate_init(struct orr_isolate *iso, struct orr_runtime *rt, lua_State *L)
{
    iso->rt = rt;
    iso->worker = worker_current && worker_current->runtime == rt ? worker_current : runtime_worker(rt, 1);
    share_open(&iso->share);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    iso->L = iso->running = lua_tothread(L, -1);
    iso->worker->task_freed = ltask_freed;
    forget_found();
    lua_pop(L, 1);
    lua_pushcfunction(L, open_protected);
    lua_pushlightuserdata(L, iso);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK)
        return 0;
    log_line(&rt->log, ORR_LOG_ERROR, "no isolate: %s", lua_tostring(L, -1));
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &isolate_key);
    forget_found();
    worker_close_share(iso->worker, &iso->share);
    iso->closing = true;
    return -ENOMEM;
}

static struct orr_isolate *isolate_alloc(struct orr_runtime *rt, struct settings *settings)
{
    struct orr_isolate *iso = alloc_zeroed(&rt->alloc, sizeof *iso);
    if (!iso)
        return NULL;
    iso->alloc = rt->alloc;
    iso->settings = settings_ref(settings);
    iso->limits = settings->limits;
    iso->charge.quota = settings->quota;
    iso->charge.own = !settings->for_jobs;
    memory_open(iso);
    iso->references = 1;
    return iso;
}

int orr_lua_open(struct orr_runtime *rt, lua_State *L, const struct orr_lua_options *options)
{
    if (!runtime_valid(rt) || !L)
        return -EINVAL;
    if (isolate_find(L))
        return -EALREADY;
    struct settings *settings;
    int error = settings_new(options, &rt->alloc, &rt->log, &settings);
    if (error)
        return error;
    struct orr_isolate *iso = isolate_alloc(rt, settings);
    settings_unref(settings);
    if (!iso)
        return -ENOMEM;
    error = isolate_init(iso, rt, L);
    isolate_unref(iso); /* it is the state's, if it is anybody's */
    return error;
}

static int open_libraries(lua_State *L)
{
    struct orr_isolate *iso = lua_touserdata(L, 1);
    collector_open(iso, L);
    if (sandbox_applies(iso))
        sandbox_libraries(L);
    else
        luaL_openlibs(L);
    return 0;
}

static bool collect_idly(struct idle_work *work, uint64_t until)
{
    return collector_idle(container_of(work, struct orr_isolate, idle), until);
}

int isolate_new(struct orr_runtime *rt, struct settings *settings, lua_State **out)
{
    struct orr_isolate *iso = isolate_alloc(rt, settings);
    if (!iso)
        return -ENOMEM;
    iso->owned = true;
    int error = -ENOMEM;
    lua_State *L = lua_newstate(memory_alloc, iso);
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
    iso->idle.work = collect_idly;
    idle_add(&iso->worker->idle, &iso->idle);
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
    int error = settings_new(options, &rt->alloc, &rt->log, &settings);
    if (error)
        return error;
    error = isolate_new(rt, settings, out);
    settings_unref(settings);
    return error;
}

/* --- Closing ------------------------------------------------------------------------------------------------------ */

void isolate_unref(struct orr_isolate *iso)
{
    if (--iso->references)
        return;
    struct alloc alloc = iso->alloc;
    charge_close(iso);
    settings_unref(iso->settings);
    memory_close(iso);
    alloc_free(&alloc, iso, sizeof *iso);
}

/* No task is left.  What the host's own state still has of the API finds it closed. */
static void dispose(struct orr_isolate *iso)
{
    ltask_report_unseen(iso); /* while there is a state that has them */
    ltask_forget_errors(iso);
    forget_found();
    worker_close_share(iso->worker, &iso->share);
    idle_remove(&iso->worker->idle, &iso->idle);
    if (!iso->owned) {
        shutdown_end_all(iso);
        return;
    }
    memory_discard(iso);
    lua_close(iso->L);
    shutdown_end_all(iso);
    iso->L = NULL;
    charge_end_slice(iso);
    if (iso->closed)
        iso->closed(iso->closed_data);
    isolate_unref(iso); /* whose account the state was freed on */
}

static void begin_closing(struct orr_isolate *iso);

void isolate_free(struct orr_isolate *iso)
{
    begin_closing(iso);
    dispose(iso);
}

/* From inside one of its own tasks: another task does it, when that has unwound. */
static enum orr_poll close_poll(struct orr_task *task, void *data)
{
    struct orr_isolate *iso = data;
    if (!shutdown_poll(&iso->shutdown, task))
        return ORR_PENDING;
    if (iso->owned && !task->cancelled) {
        ltask_report_unseen(iso); /* while there is a state that has them */
        if (!discard_step(iso, &iso->discard, shutdown_stretch(iso->worker)))
            return orr_task_yield(task);
    }
    dispose(iso);
    return ORR_DONE;
}

static void begin_closing(struct orr_isolate *iso)
{
    iso->closing = true;
    shutdown_begin(&iso->shutdown, iso, EVERY_SCRIPT, iso->worker->grace_ns);
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
    if (worker_current == iso->worker && (iso->worker->polling || iso->depth || iso->calls)) {
        int error = isolate_close_soon(iso);
        return error ? error : -EINPROGRESS;
    }
    bool entered = worker_current == iso->worker;
    int error = entered ? 0 : orr_runtime_enter(rt);
    if (error)
        return error;
    begin_closing(iso);
    shutdown_now(&iso->shutdown); /* the worker goes on turning for them meanwhile */
    dispose(iso);
    if (!entered)
        orr_runtime_leave(rt);
    return 0;
}
