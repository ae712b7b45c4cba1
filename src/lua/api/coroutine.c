/*
 * Lua's library `coroutine`, for scripts that run in tasks.  A coroutine that a script has created
 * may await.  It then yields to the C function that resumed it, which yields in turn, and so on out
 * to the task's coroutine.  When the task continues, the coroutines are resumed in the opposite
 * order.  A script never sees a waiting coroutine as suspended: its status is *normal*, and no
 * other coroutine can resume or close it.
 *
 * Scripts cannot yield, resume or close a task's own coroutine.
 */
#include "lua/api/coroutine.h"

#include "lua/api/scopes.h"
#include "lua/isolate.h"
#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/registry.h"
#include "lua/isolate/resumers.h"
#include "lua/limits/level.h"
#include "lua/limits/terminate.h"
#include "lua/task/cancellation.h"
#include "lua/task/suspend.h"
#include "lua/task/task.h"

#include <string.h>

static const char exposed_key; /* in the registry: coroutines of tasks that scripts have seen */

static bool is_exposed(lua_State *L, lua_State *co)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &exposed_key);
    execution_push_coroutine(L, co);
    lua_rawget(L, -2);
    bool exposed = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return exposed;
}

/* Whether a coroutine of a script waits inside a task. */
static bool is_waiting(lua_State *L, lua_State *co)
{
    return lua_status(co) == LUA_YIELD && resumers_has(L, co);
}

/*
 * Whether a coroutine belongs to a task or to the host.  A script can only get it from
 * coroutine.running().
 */
static bool is_tasks(struct orr_isolate *iso, lua_State *L, lua_State *co)
{
    return co == iso->L || execution_is_base(&iso->execution, co) || is_exposed(L, co);
}

static lua_State *check_coroutine(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co, 1, "thread");
    return co;
}

static const char *status_of(lua_State *L, lua_State *co)
{
    if (L == co)
        return "running";
    if (is_waiting(L, co))
        return "normal";
    lua_Debug info;
    switch (lua_status(co)) {
    case LUA_YIELD:
        return "suspended";
    case LUA_OK:
        if (lua_getstack(co, 0, &info))
            return "normal";
        return lua_gettop(co) == 0 || is_exposed(L, co) ? "dead" : "suspended";
    default:
        return "dead";
    }
}

/* --- Resuming --------------------------------------------------------------------------------- */

/*
 * Resumes `co` with `arguments` values from its stack.  Returns the number of results, which are on
 * L.  Returns -1 after an error, which is on L.  Returns PASS_ON if the coroutine waits, so that
 * the caller must yield, too.
 */
enum { PASS_ON = -2 };

static int resume(lua_State *L, struct orr_isolate *iso, lua_State *co, int arguments)
{
    struct chain chain;
    lua_State *running = execution_enter_chain(&iso->execution, &chain, L, co);
    level_enter_coroutine(iso, co);
    int results;
    int status = lua_resume(co, L, arguments, &results);
    execution_leave_chain(&iso->execution, &chain, running);
    interrupt_switched(&iso->interrupt, iso);
    if (status == LUA_YIELD && execution_yields(&iso->execution))
        return PASS_ON;
    if (status == LUA_OK || status == LUA_YIELD) {
        if (!lua_checkstack(L, results + 1)) {
            lua_pop(co, results);
            lua_pushliteral(L, "too many results to resume");
            return -1;
        }
        lua_xmove(co, L, results);
        return results;
    }
    lua_xmove(co, L, 1);
    terminate_mark(iso, co, chain.in_hook);
    return -1;
}

/* Resumes a coroutine for a script, with `arguments` values from the top of L. */
static int resume_first(lua_State *L, struct orr_isolate *iso, lua_State *co, int arguments)
{
    if (is_tasks(iso, L, co)) {
        lua_pushliteral(L, "cannot resume: this coroutine is a task's, or the host's; await the task, or close it "
                           "with task:close()");
        return -1;
    }
    if (is_waiting(L, co)) {
        lua_pushliteral(L, "cannot resume a coroutine that is waiting inside a task");
        return -1;
    }
    if (!lua_checkstack(co, arguments)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
    lua_xmove(L, co, arguments);
    return resume(L, iso, co, arguments);
}

/* Resumes a coroutine that waited, because its task continues. */
static int resume_again(lua_State *L, lua_State *co)
{
    resumers_remove(L, co);
    /* Values that a callback has left for it are on its stack already */
    return resume(L, isolate_of(L), co, 0);
}

/*
 * Records that `co` waits, and yields.  If there is no memory for the record, this raises in the
 * coroutine that resumed `co`, and the yield stops there.
 */
static int pass_on(lua_State *L, lua_State *co, lua_KFunction k)
{
    struct execution *execution = &isolate_of(L)->execution;
    struct yield_state before = execution_stop_yield(execution);
    resumers_add(L, co);
    execution_go_on_yielding(execution, before);
    return lua_yieldk(L, 0, (lua_KContext)(intptr_t)co, k);
}

/* Closes the to-be-closed variables of a coroutine that has failed.  Its error is on L already. */
static void close_dead(lua_State *L, lua_State *co)
{
    if (lua_status(co) == LUA_OK || lua_status(co) == LUA_YIELD)
        return; /* the resume was refused, so the coroutine has not failed */
    if (terminate_refusal(isolate_of(L), co))
        return;
    terminate_close(isolate_of(L), L, co);
    lua_settop(co, 0);
}

static int resume_result(lua_State *L, lua_State *co, int results);

static int resume_k(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    lua_State *co = (lua_State *)(intptr_t)context;
    return resume_result(L, co, resume_again(L, co));
}

static int resume_result(lua_State *L, lua_State *co, int results)
{
    if (results == PASS_ON)
        return pass_on(L, co, resume_k);
    struct ltask *self = execution_task(&isolate_of(L)->execution);
    if (results < 0 && self && task_is_cancelled_here(self->task))
        close_dead(L, co); /* a cancellation runs the `__close` of all coroutines of the task */
    lua_pushboolean(L, results >= 0);
    results = results < 0 ? 1 : results;
    lua_insert(L, -(results + 1));
    return results + 1;
}

static int co_resume(lua_State *L)
{
    lua_State *co = check_coroutine(L);
    return resume_result(L, co, resume_first(L, isolate_of(L), co, lua_gettop(L) - 1));
}

/* --- wrap ------------------------------------------------------------------------------------- */

static int wrap_result(lua_State *L, lua_State *co, int results);

static int wrap_k(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    lua_State *co = (lua_State *)(intptr_t)context;
    return wrap_result(L, co, resume_again(L, co));
}

/* As in Lua's own wrap, an error closes the coroutine, and the message gets a position. */
static int wrap_result(lua_State *L, lua_State *co, int results)
{
    if (results == PASS_ON)
        return pass_on(L, co, wrap_k);
    if (results >= 0)
        return results;
    int status = lua_status(co);
    if (status != LUA_OK && status != LUA_YIELD && !terminate_refusal(isolate_of(L), co) &&
        terminate_close(isolate_of(L), L, co) != LUA_OK && lua_gettop(co)) {
        lua_pop(L, 1);
        lua_xmove(co, L, 1);
    }
    if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING && !cancellation_is_error(L, -1)) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int wrapped(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(2));
    return wrap_result(L, co, resume_first(L, isolate_of(L), co, lua_gettop(L)));
}

static int co_create(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    interrupt_made_coroutine(isolate_of(L), L, co);
    level_charge_coroutine(isolate_of(L));
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static int co_wrap(lua_State *L)
{
    co_create(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, -2);
    lua_pushcclosure(L, wrapped, 2);
    return 1;
}

/* --- The rest --------------------------------------------------------------------------------- */

static int co_yield (lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (execution_is_base(&iso->execution, L))
        return luaL_error(L, "coroutine.yield in a task's body: no coroutine has resumed it; "
                             "use async.checkpoint() to let others run, or async.await() to wait");
    if (execution_task(&iso->execution) && scopes_contain(execution_task(&iso->execution), L))
        return luaL_error(
            L, "coroutine.yield inside async.scope, shield or a time limit: the block would stay open if nothing "
               "resumed the coroutine; yield outside of the block");
    return lua_yield(L, lua_gettop(L));
}

static int co_status(lua_State *L)
{
    lua_pushstring(L, status_of(L, check_coroutine(L)));
    return 1;
}

/*
 * A script may keep a reference to the coroutine of a task or of a call from the host.  So that
 * coroutine is marked as exposed, and is not recycled for another task.
 */
static int co_running(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct level *level = execution_level(&iso->execution);
    if (execution_is_base(&iso->execution, L) && !level->exposed) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &exposed_key);
        lua_pushthread(L);
        lua_pushboolean(L, true);
        lua_rawset(L, -3);
        lua_pop(L, 1);
        level->exposed = true;
    }
    int main = lua_pushthread(L);
    lua_pushboolean(L, main);
    return 2;
}

static int co_isyieldable(lua_State *L)
{
    lua_State *co = lua_isnone(L, 1) ? L : check_coroutine(L);
    struct orr_isolate *iso = isolate_of(L);
    const struct ltask *self = execution_task(&iso->execution);
    bool body = self && self->co == co; /* it can wait, but no coroutine of a script resumed it */
    lua_pushboolean(L, lua_isyieldable(co) && !body);
    return 1;
}

static int co_close(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_State *co = check_coroutine(L);
    if (is_tasks(iso, L, co))
        return luaL_error(L, "this coroutine is a task's, or the host's: close the task with task:close()");
    const char *status = status_of(L, co);
    if (strcmp(status, "suspended") != 0 && strcmp(status, "dead") != 0)
        return luaL_error(L, "cannot close a %s coroutine", status);
    const char *refusal = terminate_refusal(iso, co);
    if (!refusal && terminate_close(iso, L, co) == LUA_OK) {
        lua_pushboolean(L, true);
        return 1;
    }
    lua_pushboolean(L, false);
    if (refusal)
        lua_pushstring(L, refusal);
    else
        lua_xmove(co, L, 1);
    return 2;
}

void coroutine_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "close", co_close },   { "create", co_create },   { "isyieldable", co_isyieldable },
        { "resume", co_resume }, { "running", co_running }, { "status", co_status },
        { "wrap", co_wrap },     { "yield", co_yield },     { NULL, NULL },
    };
    registry_push_weak_table(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &exposed_key);
    resumers_open(L);
    if (lua_getglobal(L, LUA_COLIBNAME) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setglobal(L, LUA_COLIBNAME);
    }
    isolate_register(iso, L, functions);
    lua_pop(L, 1);
}
