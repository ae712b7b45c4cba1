/*
 * The API as a module for a stock Lua: `require "orrery"`, and `orrery.run` to drive it
 * (lua/module.lua).
 *
 * Each state has its own runtime, with one worker.  The thread that calls `run` drives it; between
 * two runs nothing of it moves.  It lives as long as the state, and a little longer
 * (deferred_free.h).  When the state is closed, a finalizer closes the isolate.  It was created
 * after all objects of the library and so is called before their finalizers: tasks are cancelled
 * and clean up while everything still exists.
 *
 * The state belongs to the user, so it is trusted and has no deadlines except those that tasks are
 * given.  A signal ends slices, as in the program: without it a task could neither be fair nor have
 * a deadline, and Ctrl-C could not end a loop that never waits.
 */
#include "module/deferred_free.h"
#include "module/interrupt.h"

#include "lua/api/async_nvim.h"
#include "lua/api/registrations.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/task/body_watch.h"
#include "lua/task/script.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

extern const char orrery_lua_module[];
extern const size_t orrery_lua_module_size;

ORR_API int luaopen_orrery(lua_State *L);
ORR_API int luaopen_orrery_async_nvim(lua_State *L);

/*
 * A function that is being run.  It is a top task, as a script is (lua/task/script.h): what it
 * creates has its number.  When it fails or is interrupted, all of that ends, with the grace period
 * to clean up.
 */
struct run {
    struct orr_runtime *rt;
    struct orr_isolate *iso;
    /* A reference; it awaits the function and passes its outcome on; NULL for none. */
    struct orr_task *top;
    uint32_t number;
    bool interrupted, failed;
    bool ending; /* what it has created is being ended */
    struct shutdown shutdown;
    struct orr_waker ender; /* the task that does this */
    struct body_watch body;
    bool deadlock; /* its tasks waited for ever, and were ended */
};

/* The module's data for one state: a userdata. */
struct module_state {
    struct orr_runtime *rt; /* NULL when the state is being closed */
    struct deferred_free *deferred;
    struct run *run; /* under way; NULL for none */
};

/* --- Running ---------------------------------------------------------------------------------- */

static void top_is_done(struct orr_task *task, void *data)
{
    (void)task;
    orr_runtime_interrupt(data);
}

static void main_failed(void *data)
{
    struct run *run = data;
    run->failed = true;
    orr_runtime_interrupt(run->rt);
}

/* An error was raised, and variables are being closed: without waiting, within the grace period. */
static void main_fails(void *data)
{
    (void)data;
}

static enum orr_poll end_poll(struct orr_task *task, void *data)
{
    struct run *run = data;
    if (!shutdown_poll(&run->shutdown, task))
        return ORR_PENDING;
    registrations_remove(run->iso, run->number);
    open_objects_close(run->iso, run->number);
    shutdown_end(&run->shutdown);
    run->ending = false;
    orr_runtime_interrupt(run->rt);
    return ORR_DONE;
}

/* Inside the runtime.  The top task is not ended: it passes the function's outcome on. */
static void start_shutdown(struct run *run)
{
    struct orr_spawn what = {
        .poll = end_poll, .data = run, .name = "ending a run", .detached = true, .waker = &run->ender
    };
    struct ltask *top = ltask_of(run->top);
    if (run->shutdown.phase || run->ending || orr_spawn(run->rt, &what))
        return;
    if (top)
        top->script = 0;
    run->ending = true;
    registrations_remove(run->iso, run->number);
    shutdown_begin(&run->shutdown, run->iso, run->number, worker_grace_ns(run->iso->worker));
}

/* Returns whether the run goes on after it was interrupted between two turns. */
static bool continues_after_interrupt(struct run *run)
{
    bool now = interrupt_take();
    run->interrupted |= now;
    if (!run->top)
        return !now;
    orr_runtime_enter(run->rt);
    bool done = orr_task_done(run->top);
    bool failed = run->failed;
    run->failed = false;
    if (failed || (now && !done))
        start_shutdown(run);
    done = done && !run->ending;
    orr_runtime_leave(run->rt);
    return !done;
}

/* Ends the tasks of a run that wait for ever.  Returns false if that was tried already. */
static bool ends_deadlock(struct run *run)
{
    if (!run->top || run->deadlock)
        return false;
    run->deadlock = true;
    orr_runtime_enter(run->rt);
    start_shutdown(run);
    orr_runtime_leave(run->rt);
    return true;
}

/* Runs until the top task is done; without one, until nothing is left. */
static int drive(struct run *run)
{
    struct orr_runtime *rt = run->rt;
    struct orr_observer observer = { .done = top_is_done, .data = rt };
    if (run->top) {
        orr_runtime_enter(rt);
        orr_task_observe(run->top, &observer);
        orr_runtime_leave(rt);
    }
    bool caught = interrupt_catch(rt);
    int error;
    do
        error = orr_runtime_run(rt);
    while ((error == -EINTR && continues_after_interrupt(run)) || (error == -EDEADLK && ends_deadlock(run)));
    if (caught)
        interrupt_release();
    if (run->top) {
        orr_runtime_enter(rt);
        if (run->ending)
            orr_task_drop(run->ender);
        shutdown_end(&run->shutdown);
        body_unwatch(run->iso, &run->body);
        orr_task_unobserve(&observer);
        orr_task_result(run->top); /* observes the result: lua/module.lua has its outcome */
        orr_task_unref(run->top);
        orr_runtime_leave(rt);
    }
    return error == -EINTR ? 0 : error;
}

/* watch(task) watches the function's task.  Upvalues: the isolate, the module state. */
static int watch_main(lua_State *L)
{
    const struct module_state *state = lua_touserdata(L, lua_upvalueindex(2));
    struct ltask *self = ltask_check(L, 1);
    struct run *run = state->run;
    if (!run || !self->task)
        return 0;
    run->body = (struct body_watch){ .failing = main_fails, .failed = main_failed, .data = run };
    int error = task_error(self->task);
    if (!ltask_is_over(self))
        body_watch(&run->body, self);
    else if (error && error != -ECANCELED) /* it failed before its first wait */
        main_failed(run);
    return 0;
}

static int return_text(lua_State *L, const char *trouble)
{
    lua_pushstring(L, trouble);
    return 1;
}

/*
 * drive([fn, ...]) runs `fn` as a task until its tree is done; without it, until nothing is left.
 * Returns what went wrong, if anything did.  Upvalue: the module state.
 */
static int run_loop(lua_State *L)
{
    struct module_state *state = lua_touserdata(L, lua_upvalueindex(1));
    struct run run = { .rt = state->rt, .iso = isolate_find(L) };
    if (!run.rt)
        return return_text(L, "the state is being closed");
    struct run *outer = state->run;
    int error = orr_runtime_enter(run.rt);
    if (!error) {
        error = lua_gettop(L) ? orr_lua_start(L, lua_gettop(L) - 1, "orrery.run", &run.top) : 0;
        if (run.top) {
            run.number = script_new_number(&run.iso->scripts);
            ltask_of(run.top)->script = run.number;
        }
        orr_runtime_leave(run.rt);
    }
    state->run = &run;
    if (!error)
        error = drive(&run);
    state->run = outer;
    if (run.interrupted)
        return return_text(L, "interrupted!"); /* the message of `lua` */
    if (error == -EBUSY)
        return return_text(L, "the loop is running already");
    if (error == -EDEADLK || run.deadlock)
        return return_text(L, "deadlock: tasks wait, and nothing can wake them; the tree above shows which, and where");
    return error ? return_text(L, strerror(-error)) : 0;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static int close_state(lua_State *L)
{
    struct module_state *state = lua_touserdata(L, 1);
    orr_lua_close(L);
    deferred_free_queue(state->deferred);
    *state = (struct module_state){ 0 };
    return 0;
}

/* Does not raise.  Frees what it has created if it fails. */
static int open_state(lua_State *L, struct module_state *state)
{
    struct orr_lua_options options = { .name = "", .profile = ORR_LUA_TRUSTED };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    struct orr_runtime *rt = orr_runtime_new(NULL);
    if (!rt)
        return -errno;
    runtime_is_alone(rt);
    struct deferred_free *deferred = deferred_free_new(rt);
    int error = deferred ? orr_lua_open(rt, L, &options) : -ENOMEM;
    if (error) {
        deferred_free_discard(deferred);
        orr_runtime_free(rt);
        return error;
    }
    deferred_free_hold(deferred, isolate_find(L));
    ltask_set_starter(isolate_find(L), "orrery.run(fn)");
    *state = (struct module_state){ .rt = rt, .deferred = deferred };
    return 0;
}

/* Loads a module from where the library has put its loader, and pushes it. */
static void push_module(lua_State *L, const char *name)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    lua_call(L, 0, 1);
}

int luaopen_orrery(lua_State *L)
{
    deferred_free_run();
    lua_settop(L, 0);
    struct module_state *state = lua_newuserdatauv(L, sizeof *state, 0);
    lua_pushvalue(L, 1);
    luaL_ref(L, LUA_REGISTRYINDEX);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, close_state);
    lua_setfield(L, -2, "__gc");
    int error = open_state(L, state);
    if (error)
        return luaL_error(L, "orrery: cannot open the module in this state: %s", strerror(-error));
    lua_setmetatable(L, 1); /* cannot fail, and makes it the first object to be finalized */
    embedded_push(L, &(struct embedded){ "=orrery/module.lua", orrery_lua_module, &orrery_lua_module_size });
    push_module(L, "orrery");
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, run_loop, 1);
    lua_pushlightuserdata(L, isolate_find(L));
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, watch_main, 2);
    lua_call(L, 3, 1);
    return 1;
}

/* `require "orrery.async_nvim"` where `orrery` may not be loaded yet. */
int luaopen_orrery_async_nvim(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "orrery");
    lua_call(L, 1, 0);
    push_module(L, ASYNC_NVIM_NAME);
    return 1;
}
