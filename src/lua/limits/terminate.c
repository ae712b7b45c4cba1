#include "lua/limits/terminate.h"

#include "lua/api/coroutine.h"
#include "lua/isolate.h"
#include "lua/limits/budget.h"

enum {
    CLOSES_MAX = 16, /* inside one another: before 5.4.6 Lua does not count the C stack for them */
    DEEP = 200,      /* frames; what is deeper is not closed, since each may have hundreds of values to close */
};

/* --- Closing ------------------------------------------------------------------------------------------------------ */

static const char ended; /* its address, on top of a coroutine */

void mark_ended(struct orr_isolate *iso, lua_State *co, bool in_hook)
{
    bool died = lua_status(co) > LUA_YIELD; /* else it was not resumed at all */
    if (died && (in_hook || (iso->execution.level && iso->execution.level->ending)))
        lua_pushlightuserdata(co, (void *)&ended); /* in the place of its error: needs no memory */
}

static bool is_ended(lua_State *co)
{
    return lua_status(co) > LUA_YIELD && lua_touserdata(co, -1) == &ended;
}

const char *close_refusal(struct orr_isolate *iso, lua_State *co)
{
    if (is_ended(co))
        return "this coroutine was ended from outside";
    return iso->execution.closes >= CLOSES_MAX ? "too many coroutines are being closed inside one another" : NULL;
}

int close_coroutine(struct orr_isolate *iso, lua_State *L, lua_State *co)
{
    lua_State *running = iso->execution.running;
    iso->execution.closes++;
    iso->execution.running = co;
    budget_enter_coroutine(iso, co);
    int status = compat_close_thread(co, L);
    iso->execution.running = running;
    iso->execution.closes--;
    budget_switched(iso);
    return status;
}

static bool is_deep(lua_State *co)
{
    lua_Debug info;
    return lua_getstack(co, DEEP, &info);
}

void close_chain(struct orr_isolate *iso, lua_State *innermost, lua_State *outermost, uint32_t script)
{
    uint64_t left = shutdown_left(iso, script);
    if (!left)
        return;
    bool counts = iso->limits.mode == ORR_LUA_COUNT;
    struct level level = {
        .co = innermost,
        .plain = true,
        .entry = ORR_LUA_CALL,
        .limit = counts                        ? 10 * (uint64_t)iso->limits.check_interval
                 : iso->limits.slice_ns < left ? iso->limits.slice_ns
                                               : left,
    };
    bool outermost_slice = budget_begin_slice(iso);
    level_enter(iso, &level, NULL);
    for (lua_State *co = innermost, *next; co; co = next) {
        next = co == outermost ? NULL : coroutine_resumer(iso->L, co);
        if (!is_deep(co) && !close_refusal(iso, co))
            close_coroutine(iso, iso->L, co);
    }
    level_leave(iso, &level);
    if (outermost_slice)
        budget_end_slice(iso);
}

/* --- xpcall --------------------------------------------------------------------------------------------------------- */

/* The script's message handler, at upvalue 2, is not called while the call is being ended. */
static int handle_message(lua_State *L)
{
    const struct orr_isolate *iso = isolate_of(L);
    if (iso->execution.level && iso->execution.level->ending)
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
