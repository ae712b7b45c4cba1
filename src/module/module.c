/*
 * The API as a module of a stock Lua: `require "orrery"`, and `orrery.run` to drive it (lua/module.lua).
 *
 * Each state has a runtime of its own, with one worker, which is driven by whoever calls `run`, on that thread; between two runs nothing
 * of it moves.  It lives as long as the state, and a little longer (grave.h).  When the state is closed, a finalizer, made after all
 * of the library's own and so called before them, closes the isolate: tasks are cancelled and clean up while everything is still there.
 *
 * The state is the user's own, so it is trusted and has no deadlines but those that tasks are given.  A signal watches slices, as in the
 * program: without it a task could neither be fair nor have a deadline, and Ctrl-C could not end a loop that never waits.
 */
#include "module/grave.h"
#include "module/interrupt.h"

#include "lua/isolate.h"

#include <errno.h>
#include <string.h>

#define BUSY_NS UINT64_C(1000000000) /* what a task that was interrupted may still run without waiting */

extern const char orrery_lua_module[];
extern const size_t orrery_lua_module_size;

ORR_API int luaopen_orrery(lua_State *L);

/* What a state has of ours: a userdata. */
struct home {
    struct orr_runtime *rt; /* NULL when the state is being closed */
    struct grave *grave;
};

/* --- Running ----------------------------------------------------------------------------------------------------------- */

static void top_is_done(struct orr_task *task, void *data)
{
    (void)task;
    orr_runtime_interrupt(data);
}

static void bound(void *data, const struct orr_task_info *info)
{
    (void)data;
    orr_lua_set_deadline(info->task, BUSY_NS); /* refused by those that run no Lua */
}

/* Runs until `top` is done, or without one until nothing is left.  Inside, `interrupted` says whether it was. */
static int run_until_done(struct orr_runtime *rt, struct orr_task *top, bool *interrupted)
{
    int error;
    while ((error = orr_runtime_run(rt)) == -EINTR) {
        bool now = interrupt_take();
        *interrupted |= now;
        if (!top && now)
            return 0;
        if (!top)
            continue;
        orr_runtime_enter(rt);
        if (now && !orr_task_done(top)) {
            orr_tree_visit(top, bound, NULL);
            orr_task_cancel(top, "interrupted");
        }
        bool done = orr_task_done(top);
        orr_runtime_leave(rt);
        if (done)
            return 0;
    }
    return error;
}

static int drive(struct orr_runtime *rt, struct orr_task *top, bool *interrupted)
{
    struct orr_observer observer = { .done = top_is_done, .data = rt };
    if (top) {
        orr_runtime_enter(rt);
        orr_task_observe(top, &observer);
        orr_runtime_leave(rt);
    }
    bool caught = interrupt_catch(rt);
    int error = run_until_done(rt, top, interrupted);
    if (caught)
        interrupt_release();
    if (top) {
        orr_runtime_enter(rt);
        orr_task_unobserve(&observer);
        orr_task_result(top); /* it is seen: what has become of it is told by what it has left behind */
        orr_task_unref(top);
        orr_runtime_leave(rt);
    }
    return error;
}

static int answer(lua_State *L, const char *trouble)
{
    lua_pushstring(L, trouble);
    return 1;
}

/*
 * drive([fn, ...]): runs `fn` as a task until its tree is done; without it, until nothing is left.  Answers what went wrong, if
 * anything did.  Upvalue: the home.
 */
static int run_loop(lua_State *L)
{
    const struct home *home = lua_touserdata(L, lua_upvalueindex(1));
    struct orr_runtime *rt = home->rt;
    struct orr_task *top = NULL;
    bool interrupted = false;
    if (!rt)
        return answer(L, "the state is being closed");
    int error = orr_runtime_enter(rt);
    if (!error) {
        error = lua_gettop(L) ? orr_lua_start(L, lua_gettop(L) - 1, "orrery.run", &top) : 0;
        orr_runtime_leave(rt);
    }
    if (!error)
        error = drive(rt, top, &interrupted);
    if (interrupted)
        return answer(L, "interrupted!"); /* as `lua` says it */
    if (error == -EBUSY)
        return answer(L, "the loop is running already");
    return error ? answer(L, strerror(-error)) : 0;
}

/* --- From the beginning to the end -------------------------------------------------------------------------------------- */

static int close_home(lua_State *L)
{
    struct home *home = lua_touserdata(L, 1);
    orr_lua_close(L);
    grave_close(home->grave);
    *home = (struct home){ 0 };
    return 0;
}

/* Raises nothing: what it has made is freed if it fails. */
static int open_home(lua_State *L, struct home *home)
{
    struct orr_lua_options options = { .profile = ORR_LUA_TRUSTED };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    struct orr_runtime *rt = orr_runtime_new(NULL);
    if (!rt)
        return -errno;
    struct grave *grave = grave_dig(rt);
    int error = grave ? orr_lua_open(rt, L, &options) : -ENOMEM;
    if (error) {
        grave_fill(grave);
        orr_runtime_free(rt);
        return error;
    }
    grave_keep(grave, isolate_find(L));
    *home = (struct home){ .rt = rt, .grave = grave };
    return 0;
}

/* The module's table, from where the library has put it. */
static void push_module(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_getfield(L, -1, "orrery");
    lua_remove(L, -2);
    lua_call(L, 0, 1);
}

int luaopen_orrery(lua_State *L)
{
    grave_clear();
    lua_settop(L, 0);
    struct home *home = lua_newuserdatauv(L, sizeof *home, 0);
    lua_pushvalue(L, 1);
    luaL_ref(L, LUA_REGISTRYINDEX);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, close_home);
    lua_setfield(L, -2, "__gc");
    int error = open_home(L, home);
    if (error)
        return luaL_error(L, "orrery: cannot be opened in this state: %s", strerror(-error));
    lua_setmetatable(L, 1); /* which does not fail, and makes it the first to be finalized */
    if (luaL_loadbufferx(L, orrery_lua_module, orrery_lua_module_size, "=orrery/module.lua", "b") != LUA_OK)
        return lua_error(L);
    push_module(L);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, run_loop, 1);
    lua_call(L, 2, 1);
    return 1;
}
