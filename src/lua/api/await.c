/*
 * A function that is awaited is called with a callback as one of its arguments.  The wait is over
 * when the callback is called; await returns its arguments.  A callback that is called while the
 * function still runs keeps its arguments in its own upvalues, and the task does not wait.  A later
 * one puts them on the stack of the coroutine that waits.  It finds the task by its waker, and the
 * wait by a number: a callback that is called too late, or again, does nothing.
 */
#include "lua/api/await.h"

#include "lua/api/future.h"
#include "lua/api/script_timers.h"
#include "lua/api/wait_step.h"
#include "lua/isolate.h"
#include "lua/task/cancellation.h"
#include "lua/task/create.h"
#include "lua/task/result.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <string.h>

/* --- Tasks ------------------------------------------------------------------------------------ */

/* Returns the results or raises the error: [true] [results...] or [false] [error], at the top. */
static int outcome_or_raise(lua_State *L, int count)
{
    if (lua_toboolean(L, -count))
        return count - 1;
    return lua_error(L);
}

static int await_task(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "await");
    struct ltask *other = lua_touserdata(L, 1);
    /* A task that ended well has dropped its core task; a wait that has begun still holds it. */
    struct orr_task *core = self->wait.state == WAIT_IDLE ? other->task : self->wait.source;
    int error = core ? orr_task_await(self->task, &self->wait, core) : orr_checkpoint(self->task);
    if (error)
        return wait_step(L, error, await_task, context);
    return outcome_or_raise(L, ltask_push_outcome(L, other, 1));
}

/* --- Callbacks -------------------------------------------------------------------------------- */

static void callback_withdraw(struct orr_wait *wait, bool granted)
{
    (void)wait;
    (void)granted;
}

static const struct orr_wait_kind callback_kind = { .name = "the callback of an awaited function",
                                                    .withdraw = callback_withdraw };

/* Upvalues of a callback, behind the isolate. */
enum {
    UP_STATE = 2,
    UP_VALUE, /* CALLING: nothing; WAITING: the waker of the task; EARLY: the arguments */
    UP_LAST = UP_VALUE,
};

/* The state of a callback.  Smaller and larger numbers carry a number more. */
enum {
    EARLY_NONE = -1, /* it was called early, without arguments; -1 - n: with n of them */
    OVER = 0,        /* the wait is over */
    CALLING = 1,     /* the function that is awaited has not returned */
    WAITING = 2,     /* the task waits; WAITING + n: for its callback number n */
};

/* Stack slots of await while it waits for a callback. */
enum {
    AT_CALLBACK = 1,
    AT_RETURNED, /* what the function has returned, to be closed */
    AT_VALUES,   /* the arguments of the callback, from here on */
};

/* Keeps the arguments of a callback that is called before its task waits. */
static int keep_early(lua_State *L)
{
    int count = lua_gettop(L);
    if (count > 1) {
        lua_createtable(L, count, 0);
        lua_insert(L, 1);
        for (int i = count; i; i--)
            lua_rawseti(L, 1, i);
    }
    if (count)
        lua_replace(L, lua_upvalueindex(UP_VALUE));
    lua_pushinteger(L, EARLY_NONE - count);
    lua_replace(L, lua_upvalueindex(UP_STATE));
    return 0;
}

static int callback(lua_State *L)
{
    lua_Integer state = lua_tointeger(L, lua_upvalueindex(UP_STATE));
    if (state == CALLING)
        return keep_early(L);
    if (state < WAITING)
        return 0; /* it is called late, or again */
    struct orr_isolate *iso = isolate_of(L);
    struct orr_waker waker = { (uint64_t)lua_tointeger(L, lua_upvalueindex(UP_VALUE)) };
    struct ltask *self = ltask_of(worker_find_task(iso->worker, waker));
    if (!self || self->iso != iso || self->awaited_callback != (uint32_t)(state - WAITING))
        return 0;
    int count = lua_gettop(L);
    if (!lua_checkstack(self->suspended, count + 4))
        return luaL_error(L, "too many arguments for the callback of await");
    int error = isolate_visit(iso);
    if (error)
        return luaL_error(L, "the callback of await was called on the wrong thread: %s", strerror(-error));
    lua_pushinteger(L, OVER);
    lua_replace(L, lua_upvalueindex(UP_STATE));
    lua_xmove(L, self->suspended, count);
    self->awaited_callback = 0;
    wait_grant(&self->wait);
    isolate_leave(iso);
    return 0;
}

static void set_state(lua_State *L, lua_Integer state)
{
    lua_pushinteger(L, state);
    lua_setupvalue(L, AT_CALLBACK, UP_STATE);
}

/* Pushes a method of a value; false, and nothing pushed, if it has no such method. */
static bool push_method(lua_State *L, int index, const char *name)
{
    if (!lua_istable(L, index)) {
        if (luaL_getmetafield(L, index, "__index") == LUA_TNIL)
            return false;
        lua_pop(L, 1);
    }
    lua_getfield(L, index, name);
    if (lua_isfunction(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

static int nothing_more(lua_State *L, int status, lua_KContext context)
{
    (void)L;
    (void)status;
    (void)context;
    return 0;
}

/* Closes a value unless it is closing: [value] [whether it is closing]. */
static int asked_whether_closing(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    if (lua_toboolean(L, -1) || !push_method(L, 1, "close"))
        return 0;
    lua_pushvalue(L, 1);
    lua_pushcfunction(L, script_timers_no_callback); /* a close method may want to call back */
    lua_callk(L, 2, 0, 0, nothing_more);
    return 0;
}

/* Closes the value at 1, unless it is closing already.  Both of its methods may wait. */
static int close_returned(lua_State *L)
{
    if (!push_method(L, 1, "is_closing")) {
        lua_pushboolean(L, false);
    } else {
        lua_pushvalue(L, 1);
        lua_callk(L, 1, 1, 0, asked_whether_closing);
    }
    return asked_whether_closing(L, LUA_OK, 0);
}

/* Pushes a call that closes what the function has returned; false if that cannot be closed. */
static bool push_closing(lua_State *L)
{
    if (lua_type(L, AT_RETURNED) < LUA_TTABLE || lua_isfunction(L, AT_RETURNED))
        return false;
    lua_pushcfunction(L, close_returned);
    lua_pushvalue(L, AT_RETURNED);
    return true;
}

static int return_values(lua_State *L, int status, lua_KContext count)
{
    (void)L;
    (void)status;
    return (int)count;
}

/* The callback was called, and its arguments are on the stack. */
static int callback_over(lua_State *L)
{
    int count = lua_gettop(L) - (AT_VALUES - 1);
    if (push_closing(L))
        lua_callk(L, 1, 0, count, return_values);
    return count;
}

static int raise_argument(lua_State *L)
{
    lua_settop(L, 1);
    return lua_error(L);
}

/*
 * Starts a task that fails with the error: [error].  It is a child, so that its error is kept
 * beside the result of a task that is being closed, or that ends because a child failed.  If only a
 * part of the task is over, because of a time limit, nobody would ask for it: then it is detached,
 * and the sink is told.
 */
static int start_failing(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    const struct orr_task *task = execution_task(&iso->execution)->task;
    lua_pushcfunction(L, raise_argument);
    lua_insert(L, 1);
    ltask_start_soon(iso, L, 1,
                     &(struct ltask_options){ .name = "close of an awaited resource",
                                              .name_lasts = true,
                                              .detached = task_is_cancelled_here(task) && !task_is_cancelled(task) });
    return 0;
}

/*
 * Closing has failed with the error at the top, while another error is raised: it must not be lost.
 */
static void keep_close_error(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (cancellation_is_error(L, -1) && task_is_cancelled_here(execution_task(&iso->execution)->task))
        return; /* closing has waited, and was told of the cancellation that is raised anyway */
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, start_failing, 1);
    lua_pushvalue(L, -2);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK)
        log_line(&iso->log, ORR_LOG_ERROR,
                 "await: cannot close what the function has returned: %s; no task can report that: %s",
                 lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2), lua_tostring(L, -1));
}

/* [callback] [returned] [error] [...]: raises the error; an error of closing is kept for later. */
static int raise_after_closing(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    if (status != LUA_OK && status != LUA_YIELD)
        keep_close_error(L);
    lua_settop(L, AT_VALUES);
    return lua_error(L);
}

/* The wait has ended before the callback was called. */
static int callback_interrupted(lua_State *L, int error)
{
    set_state(L, OVER);
    lua_settop(L, AT_RETURNED);
    wait_push_error(L, error);
    int status = push_closing(L) ? lua_pcallk(L, 1, 0, 0, 0, raise_after_closing) : LUA_OK;
    return raise_after_closing(L, status, 0);
}

/* The callback was called while the function ran, with so many arguments: takes them. */
static int take_early(lua_State *L, int count)
{
    luaL_checkstack(L, count + 4, "too many arguments for the callback of await");
    if (count)
        lua_getupvalue(L, AT_CALLBACK, UP_VALUE);
    if (count > 1) {
        for (int i = 1; i <= count; i++)
            lua_rawgeti(L, AT_VALUES, i);
        lua_remove(L, AT_VALUES);
    }
    return callback_over(L);
}

/* From now on the callback wakes the task. */
static void begin_wait(lua_State *L, struct ltask *self)
{
    self->awaited_callback = task_set_next_wait(&self->iso->tasks);
    lua_pushinteger(L, (lua_Integer)orr_task_waker(self->task).bits);
    lua_setupvalue(L, AT_CALLBACK, UP_VALUE);
    set_state(L, WAITING + (lua_Integer)self->awaited_callback);
    list_init(&self->wait.in_source);
    wait_begin(self->task, &self->wait, self, &callback_kind);
}

static int await_callback(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *self = ltask_current(L, "await");
    int error = wait_poll(self->task, &self->wait, self, &callback_kind);
    if (error == 1) {
        begin_wait(L, self);
        error = -EAGAIN;
    }
    if (error == -EAGAIN)
        return suspend(L, await_callback, context);
    self->awaited_callback = 0;
    if (!error)
        return callback_over(L);
    return callback_interrupted(L, error);
}

/* The function has returned: [callback] [what it has returned]. */
static int function_returned(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    lua_settop(L, AT_RETURNED);
    lua_getupvalue(L, AT_CALLBACK, UP_STATE);
    lua_Integer state = lua_tointeger(L, -1);
    lua_settop(L, AT_RETURNED);
    if (state <= EARLY_NONE)
        return take_early(L, (int)(EARLY_NONE - state));
    return await_callback(L, LUA_OK, context);
}

/* Calls a function with a callback as its argument number `position`: [function] [arguments...]. */
static int await_function(lua_State *L, int position)
{
    struct ltask *self = ltask_waiting(L, "await");
    int error = orr_checkpoint(self->task);
    if (error)
        return wait_raise(L, error);
    lua_settop(L, position); /* the function, and the arguments in front of the callback */
    lua_pushlightuserdata(L, self->iso);
    lua_pushinteger(L, CALLING);
    lua_pushnil(L);
    lua_pushcclosure(L, callback, UP_LAST);
    lua_pushvalue(L, -1);
    lua_insert(L, AT_CALLBACK);
    lua_callk(L, position, 1, 0, function_returned);
    return function_returned(L, LUA_OK, 0);
}

/* --- All forms -------------------------------------------------------------------------------- */

static int async_await(lua_State *L)
{
    if (lua_isfunction(L, 1))
        return await_function(L, 1);
    ltask_current(L, "await");
    if (ltask_test(L, 1))
        return await_task(L, LUA_OK, 0);
    if (future_test(L, 1))
        return future_await(L, LUA_OK, 0);
    if (lua_isinteger(L, 1) && lua_isfunction(L, 2)) {
        lua_Integer position = lua_tointeger(L, 1);
        luaL_argcheck(L, position >= 1 && position <= 200, 1, "expected the callback's position, from 1 to 200");
        lua_remove(L, 1);
        return await_function(L, (int)position);
    }
    return luaL_error(L,
                      "await: expected a task, a future, a function, or a position and a function, got %s; "
                      "a function that waits by itself is just called",
                      luaL_typename(L, 1));
}

void await_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "await", async_await }, { NULL, NULL } };
    isolate_register(iso, L, functions);
}
