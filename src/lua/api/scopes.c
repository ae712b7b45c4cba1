/*
 * Each function here calls another one inside a scope of the core.  The scope lives in a userdata
 * on the stack of the call.  The inner function is called protected; then the scope is left, which
 * may wait; then the results are returned, or the error is raised.
 */
#include "lua/api/scopes.h"

#include "lua/api/duration.h"
#include "lua/api/wait_step.h"
#include "lua/isolate.h"
#include "lua/task/cancellation.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <string.h>

bool scopes_contain(const struct ltask *self, const lua_State *L)
{
    struct orr_scope *scope = task_scope(self->task);
    return scope && container_of(scope, struct scope_block, scope)->L == L;
}

/*
 * The functions below have the block at 1 on the stack of the call; the results of the inner
 * function, or its error, are above it.
 */

/* The errno that stands for the Lua error at the top. */
static int classify(lua_State *L, struct ltask *self)
{
    if (task_is_cancelled_here(self->task) && cancellation_is_error(L, -1))
        return -ECANCELED;
    return -ESCRIPT;
}

static int leave_block(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct scope_block *block = lua_touserdata(L, 1);
    struct ltask *self = ltask_current(L, "async.scope");
    int error = orr_scope_leave(self->task, &self->wait, &block->scope, block->error);
    if (!error)
        return block->error ? 0 : lua_gettop(L) - 1;
    if (error == block->error && error == -ESCRIPT)
        return lua_error(L); /* the error of the inner function */
    return wait_step(L, error, leave_block, context);
}

static int function_over(lua_State *L, int status, lua_KContext context)
{
    struct scope_block *block = lua_touserdata(L, 1);
    struct ltask *self = ltask_current(L, "async.scope");
    bool failed = status != LUA_OK && status != LUA_YIELD;
    block->error = failed ? classify(L, self) : 0;
    return leave_block(L, LUA_OK, context);
}

/* Calls the function at an index, 1 or 2, in a scope: [...] [function] [arguments...]. */
static int call_in_scope(lua_State *L, const char *what, int function, const struct orr_scope_options *options)
{
    struct ltask *self = ltask_waiting(L, what);
    luaL_checktype(L, function, LUA_TFUNCTION);
    if (function > 1)
        lua_remove(L, 1);
    int arguments = lua_gettop(L) - 1;
    struct scope_block *block = lua_newuserdatauv(L, sizeof *block, 0);
    *block = (struct scope_block){ .L = L };
    lua_insert(L, 1);
    int error = orr_scope_enter(self->task, &block->scope, options);
    if (error)
        return luaL_error(L, "%s: %s", what, strerror(-error));
    return function_over(L, lua_pcallk(L, arguments, LUA_MULTRET, 0, 0, function_over), 0);
}

static int async_scope(lua_State *L)
{
    return call_in_scope(L, "async.scope", 1, &(struct orr_scope_options){ 0 });
}

static int async_supervise(lua_State *L)
{
    return call_in_scope(L, "async.supervise", 1, &(struct orr_scope_options){ .supervise = true });
}

static int async_shield(lua_State *L)
{
    return call_in_scope(L, "async.shield", 1, &(struct orr_scope_options){ .shield = true });
}

static int timed(lua_State *L, const char *what, bool move_on)
{
    uint64_t ns = duration_check(L, 1);
    /* 0 would mean no time limit. */
    return call_in_scope(L, what, 2, &(struct orr_scope_options){ .timeout_ns = ns ? ns : 1, .move_on = move_on });
}

static int async_with_timeout(lua_State *L)
{
    return timed(L, "async.with_timeout", false);
}

static int async_move_on_after(lua_State *L)
{
    return timed(L, "async.move_on_after", true);
}

void scopes_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "scope", async_scope },
        { "supervise", async_supervise },
        { "shield", async_shield },
        { "with_timeout", async_with_timeout },
        { "move_on_after", async_move_on_after },
        { NULL, NULL },
    };
    isolate_register(iso, L, functions);
}
