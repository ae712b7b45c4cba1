/*
 * Calls from the host that wait for Lua to return: on a coroutine of their own, so that they can be ended from outside.
 *
 * One coroutine is kept for that, the isolate's `caller`, with which a call allocates nothing and raises nothing, and so needs no
 * protection of its own.  A call inside another takes one from the pool; so does the next after one that went wrong.
 */
#include "lua/budget.h"
#include "lua/ending.h"
#include "lua/task.h"

#include <errno.h>
#include <string.h>

struct call {
    struct orr_isolate *iso;
    uint64_t limit;
    bool exposed; /* a script has its coroutine */
    int error;    /* what the host is answered; the value is on the stack */
};

/* Runs what is on the coroutine.  What may have been left of the call if its time was up is closed. */
static int run(struct call *call, lua_State *L, lua_State *co, int arguments)
{
    struct orr_isolate *iso = call->iso;
    struct level level = { .co = co, .plain = true, .entry = ORR_LUA_CALL, .limit = call->limit };
    int results;
    budget_charge_coroutine(iso);
    level_enter(iso, &level, NULL);
    iso->depth++;
    int status = lua_resume(co, L, arguments, &results);
    iso->depth--;
    iso->suspending = false;
    if (level.ending) {
        call->error = -ETIME;
        iso->timeouts++;
        budget_notice(iso, ORR_LUA_TIMED_OUT, level.report ? level.report : TIMEOUT_TEXT);
    } else if (status == LUA_YIELD) {
        call->error = -EPROTO;
        iso->ended_in = co;
    } else if (status != LUA_OK || level.raised) {
        call->error = -ESCRIPT;
    }
    call->exposed = level.exposed;
    level_leave(iso, &level);
    if (call->error && status == LUA_YIELD)
        close_chain(iso, iso->ended_in, co);
    return results;
}

/* Ready for the next call. */
static void clean(lua_State *co)
{
    lua_settop(co, 0);
    if (lua_gethook(co))
        lua_sethook(co, NULL, 0, 0);
}

/* Keeps a coroutine that ended well, as the caller if there is none.  Never allocates. */
static void keep(struct orr_isolate *iso, lua_State *co)
{
    if (iso->caller || iso->closing) {
        isolate_recycle(iso, co);
        return;
    }
    clean(co);
    lua_pushthread(co);
    lua_rawseti(co, LUA_REGISTRYINDEX, iso->caller_place);
    iso->caller = co;
}

/* [call] [function] [arguments...] -> results, or an error value. */
static int call_protected(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct orr_isolate *iso = call->iso;
    int arguments = lua_gettop(L) - 2;
    lua_State *co = isolate_coroutine(iso, L);
    lua_replace(L, 1);
    if (!lua_checkstack(co, arguments + 8))
        return luaL_error(L, "too many arguments");
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->base);
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->base_handler);
    lua_xmove(L, co, arguments + 1);
    bool outermost = budget_begin_slice(iso);
    int results = run(call, L, co, arguments + 2);
    if (outermost)
        budget_end_slice(iso);
    if (call->error == -ETIME || call->error == -EPROTO) {
        lua_pushstring(L, call->error == -ETIME ? TIMEOUT_TEXT : YIELDED_TEXT);
        return 1;
    }
    results = call->error ? 1 : results;
    if (!lua_checkstack(L, results + 1))
        return luaL_error(L, "too many results");
    lua_xmove(co, L, results);
    if (!call->error && !call->exposed)
        keep(iso, co);
    return results;
}

static int call_pooled(struct call *call, lua_State *L, int arguments)
{
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, call);
    lua_rotate(L, -arguments - 3, 2); /* below the function and its arguments */
    int status = lua_pcall(L, arguments + 2, LUA_MULTRET, 0);
    if (status != LUA_OK)
        return status == LUA_ERRMEM ? -ENOMEM : -ESCRIPT;
    return call->error;
}

/* What has come of it, from the caller to L, which has room for a value. */
static int hand_over(struct call *call, lua_State *L, lua_State *co, int results)
{
    if (call->error == -ETIME || call->error == -EPROTO) {
        lua_pushstring(L, call->error == -ETIME ? TIMEOUT_TEXT : YIELDED_TEXT);
        return call->error;
    }
    results = call->error ? 1 : results;
    if (!lua_checkstack(L, results)) {
        lua_pushliteral(L, "not enough memory");
        return -ENOMEM;
    }
    lua_xmove(co, L, results);
    return call->error;
}

static int call_kept(struct call *call, lua_State *L, int arguments)
{
    struct orr_isolate *iso = call->iso;
    lua_State *co = iso->caller;
    iso->calling = true;
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->base);
    lua_rawgeti(co, LUA_REGISTRYINDEX, iso->base_handler);
    lua_xmove(L, co, arguments + 1);
    bool outermost = budget_begin_slice(iso);
    int results = run(call, L, co, arguments + 2);
    if (outermost)
        budget_end_slice(iso);
    int error = hand_over(call, L, co, results);
    if (call->error || call->exposed)
        iso->caller = NULL; /* it stays in its place until there is another */
    else
        clean(co);
    iso->calling = false;
    return error;
}

int orr_lua_call(lua_State *L, int arguments, int results, uint64_t deadline_ns)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || iso->closing || arguments < 0 || lua_gettop(L) < arguments + 1)
        return -EINVAL;
    if (isolate_is_held(iso))
        return -EBUSY;
    if (!lua_checkstack(L, 4))
        return -ENOMEM;
    int error = isolate_visit(iso);
    if (error)
        return error;
    uint64_t limit = deadline_ns ? deadline_ns : iso->limits.deadline_ns[ORR_LUA_CALL];
    limit = iso->limits.mode == ORR_LUA_COUNT ? iso->limits.max_instructions : limit == ORR_NEVER ? 0 : limit;
    struct call call = { .iso = iso, .limit = limit };
    int top = lua_gettop(L) - arguments - 1;
    bool kept = iso->caller && !iso->calling && lua_checkstack(iso->caller, arguments + 8);
    iso->calls++;
    error = kept ? call_kept(&call, L, arguments) : call_pooled(&call, L, arguments);
    iso->calls--;
    isolate_leave(iso);
    if (error)
        return error;
    if (results != LUA_MULTRET)
        lua_settop(L, top + results);
    return 0;
}
