/*
 * async.scope, supervise, shield, with_timeout and move_on_after: a function called inside a scope of the core.
 *
 * The scope lives in a userdata in the frame of the call.  The function is called protected; then the scope is left, which
 * may wait; then its results are returned, or its error raised.
 */
#include "lua/api/scopes.h"

#include "lua/api/duration.h"
#include "lua/isolate.h"
#include "lua/task/cancellation.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <math.h>
#include <string.h>

/* The frame: [1] the scope, then what the function has come to. */
struct block {
    struct orr_scope scope;
    int error;
    lua_State *L; /* the coroutine that is in it */
};

bool scopes_contain(const struct ltask *self, const lua_State *L)
{
    struct orr_scope *scope = task_scope(self->task);
    return scope && container_of(scope, struct block, scope)->L == L;
}

/* What a Lua error means to the core. */
static int classify(lua_State *L, struct ltask *self)
{
    if (task_is_cancelled_here(self->task) && cancellation_is_error(L, -1))
        return -ECANCELED;
    return -ESCRIPT;
}

static int leave_block(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct block *block = lua_touserdata(L, 1);
    struct ltask *self = ltask_current(L, "async.scope");
    int error = orr_scope_leave(self->task, &self->wait, &block->scope, block->error);
    if (error == -EAGAIN)
        return suspend(L, leave_block, context);
    if (!error)
        return block->error ? 0 : lua_gettop(L) - 1;
    if (error == block->error && error == -ESCRIPT)
        return lua_error(L); /* the function's own */
    return wait_raise(L, error);
}

static int function_over(lua_State *L, int status, lua_KContext context)
{
    struct block *block = lua_touserdata(L, 1);
    struct ltask *self = ltask_current(L, "async.scope");
    bool failed = status != LUA_OK && status != LUA_YIELD;
    block->error = failed ? classify(L, self) : 0;
    return leave_block(L, LUA_OK, context);
}

/* [function] [arguments...] */
static int call_in_scope(lua_State *L, const char *what, const struct orr_scope_options *options)
{
    struct ltask *self = ltask_waiting(L, what);
    luaL_checktype(L, 1, LUA_TFUNCTION);
    int arguments = lua_gettop(L) - 1;
    struct block *block = lua_newuserdatauv(L, sizeof *block, 0);
    *block = (struct block){ .L = L };
    lua_insert(L, 1);
    int error = orr_scope_enter(self->task, &block->scope, options);
    if (error)
        return luaL_error(L, "%s: %s", what, strerror(-error));
    return function_over(L, lua_pcallk(L, arguments, LUA_MULTRET, 0, 0, function_over), 0);
}

static int async_scope(lua_State *L)
{
    return call_in_scope(L, "async.scope", &(struct orr_scope_options){ 0 });
}

static int async_supervise(lua_State *L)
{
    return call_in_scope(L, "async.supervise", &(struct orr_scope_options){ .supervise = true });
}

static int async_shield(lua_State *L)
{
    return call_in_scope(L, "async.shield", &(struct orr_scope_options){ .shield = true });
}

static int timed(lua_State *L, const char *what, bool move_on)
{
    uint64_t ns = duration_check(L, 1);
    lua_remove(L, 1);
    /* No time at all is still a time. */
    return call_in_scope(L, what, &(struct orr_scope_options){ .timeout_ns = ns ? ns : 1, .move_on = move_on });
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
