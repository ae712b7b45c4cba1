#include "lua/api/async.h"

#include "lua/api/duration.h"
#include "lua/api/option_table.h"
#include "lua/api/schedule.h"
#include "lua/api/wait_step.h"
#include "lua/isolate.h"
#include "lua/task/create.h"
#include "lua/task/report.h"
#include "lua/task/run.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define RUN "async.run"

/* --- run -------------------------------------------------------------------------------------- */

/* Reads the options at 1, and leaves the name there instead, which keeps it alive.  May raise. */
static struct ltask_options read_options(lua_State *L)
{
    static const char *const known[] = { "name", "detached", "fair", "deadline", NULL };
    option_table_check(L, 1, RUN, known);
    struct ltask_options options = { .detached = option_table_flag(L, 1, RUN, "detached"),
                                     .fair = option_table_flag(L, 1, RUN, "fair") };
    lua_getfield(L, 1, "deadline");
    if (!lua_isnil(L, -1)) {
        lua_Number ms = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
        if (!(ms > 0) || ms * 1e6 >= 9e18)
            luaL_error(L, "async.run: option deadline is %s, expected milliseconds, more than 0",
                       luaL_tolstring(L, -1, NULL));
        options.deadline_ns = ms * 1e6 < 1 ? 1 : (uint64_t)(ms * 1e6);
    }
    lua_pop(L, 1);
    options.name = option_table_string(L, 1, RUN, "name");
    lua_replace(L, 1);
    return options;
}

static int run_over(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    lua_settop(L, 1); /* the handle */
    return 1;
}

/* run([name or options,] function, arguments...) -> handle */
static int async_run(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask_options options = { 0 };
    int function = 2;
    if (lua_istable(L, 1))
        options = read_options(L);
    else if (lua_type(L, 1) == LUA_TSTRING)
        options.name = lua_tostring(L, 1);
    else
        function = 1;
    if (!lua_isfunction(L, function))
        return luaL_error(L,
                          "async.run: expected a function, got %s; hand over the function itself: async.run(fn, ...)",
                          luaL_typename(L, function));
    ltask_check_depth(L);
    options.provisional = true;
    struct ltask *task = ltask_new(iso, L, lua_gettop(L) - function, &options);
    if (function > 1)
        lua_replace(L, 1); /* the handle takes the place of the name */
    return ltask_run_first(L, task, run_over, 0);
}

/* --- The running task ------------------------------------------------------------------------- */

/* Lets other tasks run, and as many scheduled callbacks as one turn begins. */
static int async_checkpoint(lua_State *L)
{
    struct ltask *self = ltask_current(L, "async.checkpoint");
    return schedule_yield(L, self, schedule_next_mark(self->iso));
}

/* [ms] [mark]: when the time is up, the schedule has to pass the mark, too. */
static int sleep_until(lua_State *L, int status, lua_KContext deadline)
{
    (void)status;
    struct ltask *self = ltask_current(L, "async.sleep");
    int error = orr_sleep_until(self->task, &self->wait, (uint64_t)deadline);
    if (error)
        return wait_step_simply(L, error, sleep_until, deadline);
    return schedule_pass(L, LUA_OK, (lua_KContext)lua_tointeger(L, 2));
}

static int async_sleep(lua_State *L)
{
    uint64_t ns = duration_check(L, 1);
    struct ltask *self = ltask_current(L, "async.sleep");
    if (!ns && !worker_timer_may_be_due(self->iso->worker)) /* nothing is due before it */
        return schedule_yield(L, self, schedule_next_mark(self->iso));
    lua_settop(L, 1);
    lua_pushinteger(L, (lua_Integer)schedule_next_mark(self->iso));
    return sleep_until(L, LUA_OK, (lua_KContext)clock_after(worker_now(self->iso->worker), ns));
}

static int async_is_closing(lua_State *L)
{
    const struct ltask *self = execution_task(&isolate_of(L)->execution);
    lua_pushboolean(L, self && task_is_cancelled_here(self->task));
    return 1;
}

int async_current(lua_State *L)
{
    struct ltask *self = execution_task(&isolate_of(L)->execution);
    if (self)
        ltask_push(L, self);
    else
        lua_pushnil(L);
    return 1;
}

/* debug(on): tasks, timers, callbacks and handlers remember where they were made. */
static int async_debug(lua_State *L)
{
    isolate_of(L)->debug = lua_toboolean(L, 1);
    return 0;
}

static void add_line(void *data, const char *text)
{
    luaL_addstring((luaL_Buffer *)data, text);
    luaL_addchar((luaL_Buffer *)data, '\n');
}

/* inspect_tree([task]) -> the tree of tasks below it, or all of them, as text */
static int async_inspect_tree(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct ltask *top = lua_isnoneornil(L, 1) ? NULL : ltask_check(L, 1);
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    if (!isolate_visit(iso)) {
        if (!top || top->task)
            orr_tree_print(top ? top->task : NULL, add_line, &text);
        isolate_leave(iso);
    }
    luaL_pushresult(&text);
    return 1;
}

/* traceback(error [, level]): the error as text, and the stacks of the tasks it came through. */
static int async_traceback(lua_State *L)
{
    lua_Integer level = luaL_optinteger(L, 2, 1);
    luaL_checkany(L, 1);
    luaL_argcheck(L, level >= 0 && level <= INT_MAX, 2, "expected a level of the stack, an integer of at least 0");
    lua_settop(L, 1);
    report_push_caught(isolate_of(L), L, (int)level);
    return 1;
}

/* --- File descriptors ------------------------------------------------------------------------- */

/* [file descriptor] [operation] */
static int wait_for_fd(lua_State *L, int status, lua_KContext events)
{
    (void)status;
    struct ltask *self = ltask_current(L, "async.readable");
    struct orr_io *io = lua_touserdata(L, 2);
    int error = orr_io_await(self->task, io);
    if (error)
        return wait_step(L, error, wait_for_fd, events);
    if (io->result < 0)
        return luaL_error(L, "%s: file descriptor %d: %s", events == POLLIN ? "async.readable" : "async.writable",
                          (int)lua_tointeger(L, 1), strerror(-io->result));
    lua_pushboolean(L, true);
    return 1;
}

static int begin_wait_for_fd(lua_State *L, const char *what, unsigned events)
{
    struct ltask *self = ltask_waiting(L, what);
    lua_Integer fd = luaL_checkinteger(L, 1);
    luaL_argcheck(L, fd >= 0 && fd <= INT_MAX, 1, "expected a file descriptor, an integer of at least 0");
    lua_settop(L, 1);
    int error = orr_checkpoint(self->task);
    if (error)
        return wait_raise(L, error);
    struct orr_io *io = lua_newuserdatauv(L, sizeof *io, 0);
    *io = (struct orr_io){ 0 };
    error = orr_io_wait(self->task, io, (int)fd, events);
    if (error)
        return wait_raise(L, error);
    return wait_for_fd(L, LUA_OK, events);
}

static int async_readable(lua_State *L)
{
    return begin_wait_for_fd(L, "async.readable", POLLIN);
}

static int async_writable(lua_State *L)
{
    return begin_wait_for_fd(L, "async.writable", POLLOUT);
}

void async_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "run", async_run },
        { "sleep", async_sleep },
        { "checkpoint", async_checkpoint },
        { "is_closing", async_is_closing },
        { "current", async_current },
        { "debug", async_debug },
        { "inspect_tree", async_inspect_tree },
        { "traceback", async_traceback },
        { "readable", async_readable },
        { "writable", async_writable },
        { NULL, NULL },
    };
    isolate_register(iso, L, functions);
}
