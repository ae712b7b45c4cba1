#include "lua/limits/terminate.h"

#include "lua/isolate/execution.h"
#include "lua/isolate/interrupt.h"
#include "lua/isolate/resumers.h"
#include "lua/limits/grace_period.h"
#include "lua/limits/level.h"
#include "lua/limits/slice.h"
#include "lua/limits/timeout_report.h"

enum {
    CLOSES_MAX = 16, /* nested closes: before 5.4.6 Lua does not count the C stack for them */
    DEEP = 200,      /* frames; deeper coroutines are not closed: a frame may close many values */
};

/* --- Ending ----------------------------------------------------------------------------------- */

static void begin_to_end(struct orr_isolate *iso, lua_State *L, const struct level *expired)
{
    struct level *level = execution_level(&iso->execution);
    if (level->end != LEVEL_GOES_ON)
        return;
    level->end = expired == level ? LEVEL_TIMED_OUT : LEVEL_ENDS_WITH_OUTER;
    timeout_report_keep(iso, L, expired);
}

static void raise_timeout(lua_State *L)
{
    lua_pushliteral(L, TIMEOUT_TEXT);
    lua_error(L);
}

/* A script that catches the error has hooks on again in L, and must be ended at once again. */
void terminate_in_hook(struct orr_isolate *iso, lua_State *L, const struct level *expired, bool may_yield)
{
    begin_to_end(iso, L, expired);
    if (!may_yield || !execution_can_yield(&iso->execution, L)) {
        interrupt_hurry(iso, L);
        raise_timeout(L);
    }
    interrupt_take_off(iso);
    execution_begin_yield(&iso->execution, YIELD_ENDED, L);
    lua_yield(L, 0);
}

/* In the mode ORR_LUA_COUNT, a script that catches the error gets no further instructions. */
void terminate_in_function(struct orr_isolate *iso, lua_State *L, const struct level *expired)
{
    begin_to_end(iso, L, expired);
    if (iso->limits.mode == ORR_LUA_COUNT)
        interrupt_count(iso, L, 1);
    raise_timeout(L);
}

/* --- Closing ---------------------------------------------------------------------------------- */

static const char ended; /* its address on top of a dead coroutine: never close it */

void terminate_mark(struct orr_isolate *iso, lua_State *co, bool in_hook)
{
    bool died = lua_status(co) > LUA_YIELD; /* else Lua refused to resume it */
    if (died && (in_hook || execution_is_ending(&iso->execution)))
        lua_pushlightuserdata(co, (void *)&ended); /* in the slot of the error: never allocates */
}

static bool is_ended(lua_State *co)
{
    return lua_status(co) > LUA_YIELD && lua_touserdata(co, -1) == &ended;
}

const char *terminate_refusal(struct orr_isolate *iso, lua_State *co)
{
    if (is_ended(co))
        return "this coroutine was ended from outside";
    return execution_closes(&iso->execution) >= CLOSES_MAX ? "too many coroutines are being closed inside one another"
                                                           : NULL;
}

int terminate_close(struct orr_isolate *iso, lua_State *L, lua_State *co)
{
    lua_State *running = execution_begin_close(&iso->execution, co);
    level_enter_coroutine(iso, co);
    int status = compat_close_thread(co, L);
    execution_end_close(&iso->execution, running);
    interrupt_switched(&iso->interrupt, iso);
    return status;
}

static bool is_deep(lua_State *co)
{
    lua_Debug info;
    return lua_getstack(co, DEEP, &info);
}

/*
 * The limit for closing a chain, in the unit of the isolate's mode.  `left` is the rest of the
 * grace period in nanoseconds.
 */
static uint64_t closing_limit(const struct orr_isolate *iso, uint64_t left)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        return 10 * (uint64_t)iso->limits.check_interval;
    return iso->limits.slice_ns < left ? iso->limits.slice_ns : left;
}

void terminate_close_chain(struct orr_isolate *iso, lua_State *innermost, lua_State *outermost, uint32_t script)
{
    uint64_t left = grace_period_left(iso, script);
    if (!left)
        return;
    struct level level = {
        .co = innermost,
        .host_waits = true,
        .entry = ORR_LUA_CALL,
        .limit = closing_limit(iso, left),
    };
    bool outermost_slice = slice_begin(iso);
    level_enter(iso, &level, NULL);
    for (lua_State *co = innermost, *next; co; co = next) {
        next = co == outermost ? NULL : resumers_find(iso->L, co);
        if (!is_deep(co) && !terminate_refusal(iso, co))
            terminate_close(iso, iso->L, co);
    }
    level_leave(iso, &level);
    if (outermost_slice)
        slice_end(iso);
}

/* --- xpcall ----------------------------------------------------------------------------------- */

/* Calls the script's message handler, which is upvalue 2, unless the level is being ended. */
static int handle_message(lua_State *L)
{
    if (execution_is_ending(&isolate_of(L)->execution))
        return 1;
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

/* [handler] [true] [results...]; or [handler] [true] [error] */
static int xpcall_over(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - 1;
    lua_pushboolean(L, false);
    lua_replace(L, 2);
    return 2;
}

static int our_xpcall(lua_State *L)
{
    int arguments = lua_gettop(L) - 2;
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handle_message, 2);
    lua_replace(L, 2);
    lua_pushboolean(L, true);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* [function] [handler] [true] [function] [arguments...] */
    lua_remove(L, 1);
    return xpcall_over(L, lua_pcallk(L, arguments, LUA_MULTRET, 1, 0, xpcall_over), 0);
}

void terminate_open(struct orr_isolate *iso, lua_State *L)
{
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, our_xpcall, 1);
    lua_setglobal(L, "xpcall");
}
