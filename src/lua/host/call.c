/*
 * Calls from the host run on the host's own Lua stack, like lua_pcall().  Each call begins a slice
 * and a level with its limits.  A call allocates nothing, looks up no name, reads no clock and
 * makes no system call, unless its deadline is so short that it needs a timer of its own.
 *
 * A call cannot be suspended, because the host waits for it.  So the limits end a call with errors:
 * the hook raises at every instruction until the call is left, and no pcall or message handler in
 * between runs an instruction (limits/terminate.h).
 *
 * Most calls come from plain code while nothing runs in the isolate, and nothing is pending there
 * (isolate/calm.h).  They take the short way: they store what interrupts the call, the level's
 * limit and what runs, and clear that again.  If anything happens meanwhile, they end in the long
 * way.
 *
 * In the mode ORR_LUA_COUNT a call runs on its own coroutine, with the counting hook.  The host's
 * stack may have a different hook.
 */
#include "lua/host/call.h"

#include "lua/limits/level.h"
#include "lua/limits/notices.h"
#include "lua/limits/slice_bounds.h"
#include "lua/limits/statistics.h"
#include "lua/limits/terminate.h"
#include "lua/task/body.h"
#include "lua/task/hint.h"
#include "lua/task/hold.h"
#include "lua/task/script.h"
#include "lua/task/task.h"

#include <errno.h>
#include <string.h>

struct call {
    struct orr_isolate *iso;
    uint64_t limit;
    bool exposed; /* a script may hold a reference to the coroutine */
    int error;    /* the result for the host; the error value is on the stack */
};

/*
 * Counts a call that the limits have ended, and adds a notice.  A call that ends together with an
 * outer one has none: the outer one is reported.
 */
static int timed_out(struct orr_isolate *iso, const struct level *level)
{
    statistics_count_timeout(&iso->statistics);
    if (level->end != LEVEL_ENDS_WITH_OUTER)
        notices_add_call(iso, level->report ? level->report : TIMEOUT_TEXT);
    return -ETIME;
}

/*
 * The most nested calls.  Functions of the host that make further calls use the C stack, too, and
 * Lua does not count that.
 */
enum { CALLS_MAX = 64 };

/* [isolate] [error] -> [error with a hint] */
static int add_hint(lua_State *L)
{
    hint_add(lua_touserdata(L, 1), L, 2, false);
    return 1;
}

/* Adds a hint to the error at the top, which stays as it is if memory runs out. */
static void try_hint(struct orr_isolate *iso, lua_State *L)
{
    if (lua_type(L, -1) != LUA_TSTRING || !lua_checkstack(L, 3))
        return;
    lua_pushcfunction(L, add_hint);
    lua_pushlightuserdata(L, iso);
    lua_pushvalue(L, -3);
    if (lua_pcall(L, 2, 1, 0) == LUA_OK)
        lua_replace(L, -2);
    else
        lua_pop(L, 1);
}

/* Lua or the limits have ended a call with an error.  Leaves one error value at `function`. */
static int fail(struct orr_isolate *iso, lua_State *L, int function, const struct level *level)
{
    if (level->end == LEVEL_GOES_ON) {
        try_hint(iso, L);
        return -ESCRIPT;
    }
    int error = timed_out(iso, level);
    lua_settop(L, function - 1);
    lua_pushliteral(L, TIMEOUT_TEXT);
    return error;
}

/* Fills in what level_enter() expects.  An initialiser would clear the whole struct. */
static inline void begin_level(struct level *level, lua_State *co, uint64_t limit)
{
    level->co = co;
    level->host_waits = true;
    level->fair = false;
    level->entry = ORR_LUA_CALL;
    level->script = 0;
    level->limit = limit;
    level->used = 0;
}

/* The function is at index `function`. */
static int call_here(struct orr_isolate *iso, lua_State *L, int function, int arguments, int results, uint64_t limit)
{
    struct level level;
    begin_level(&level, L, limit);
    bool outermost = !execution_in_slice(&iso->execution);
    if (outermost)
        slice_open(iso);
    level_enter(iso, &level, NULL);
    execution_begin_nested(&iso->execution);
    int error = lua_pcall(L, arguments, results, 0);
    execution_end_nested(&iso->execution);
    if (error || level.end != LEVEL_GOES_ON) /* even if lua_pcall() has succeeded */
        error = fail(iso, L, function, &level);
    level_leave(iso, &level);
    if (outermost)
        slice_close(iso);
    return error;
}

/* --- On a coroutine --------------------------------------------------------------------------- */

/* Runs the call on its coroutine.  If the call does not return, closes its coroutines. */
static int run(struct call *call, lua_State *L, lua_State *co, int arguments)
{
    struct orr_isolate *iso = call->iso;
    struct level level;
    begin_level(&level, co, call->limit);
    int results;
    level_charge_coroutine(iso);
    level_enter(iso, &level, NULL);
    execution_begin_nested(&iso->execution);
    int status = lua_resume(co, L, arguments, &results);
    execution_end_nested(&iso->execution);
    execution_take_yield(&iso->execution);
    lua_State *innermost = execution_yielded_in(&iso->execution);
    if (level.end != LEVEL_GOES_ON) {
        call->error = timed_out(iso, &level);
    } else if (status == LUA_YIELD) {
        call->error = -EPROTO;
        innermost = co;
    } else if (status != LUA_OK || level.raised) {
        call->error = -ESCRIPT;
    }
    call->exposed = level.exposed;
    level_leave(iso, &level);
    if (call->error && status == LUA_YIELD)
        terminate_close_chain(iso, innermost, co, script_running(iso));
    return results;
}

/* [call] [function] [arguments...] -> [results...] or [error] */
static int call_protected(lua_State *L)
{
    struct call *call = lua_touserdata(L, 1);
    struct orr_isolate *iso = call->iso;
    int arguments = lua_gettop(L) - 2;
    lua_State *co = isolate_coroutine(iso, L);
    lua_replace(L, 1);
    if (!lua_checkstack(co, arguments + 8))
        return luaL_error(L, "too many arguments");
    body_push_base(&iso->body, co);
    lua_xmove(L, co, arguments + 1);
    bool outermost = slice_begin(iso);
    int results = run(call, L, co, arguments + BODY_BASE);
    if (outermost)
        slice_end(iso);
    if (call->error == -ETIME || call->error == -EPROTO) {
        lua_pushstring(L, call->error == -ETIME ? TIMEOUT_TEXT : YIELDED_TEXT);
        return 1;
    }
    results = call->error ? 1 : results;
    if (!lua_checkstack(L, results + 1))
        return luaL_error(L, "too many results");
    lua_xmove(co, L, results);
    if (!call->error && !call->exposed)
        isolate_recycle(iso, co);
    return results;
}

static int call_counted(struct orr_isolate *iso, lua_State *L, int arguments, int results)
{
    struct call call = { .iso = iso, .limit = iso->limits.max_instructions };
    int function = lua_gettop(L) - arguments;
    if (!lua_checkstack(L, 4))
        return -ENOMEM;
    lua_pushcfunction(L, call_protected);
    lua_pushlightuserdata(L, &call);
    lua_rotate(L, function, 2); /* below the function and its arguments */
    int status = lua_pcall(L, arguments + 2, LUA_MULTRET, 0);
    if (status != LUA_OK)
        return status == LUA_ERRMEM ? -ENOMEM : -ESCRIPT;
    if (!call.error && results != LUA_MULTRET)
        lua_settop(L, function - 1 + results);
    return call.error;
}

/*
 * Makes the call in the isolate that the calling thread visits.  The stack has room for one value
 * in the place of the function; lua_pcall() needs no more than `results` say.
 */
static int call_visiting(struct orr_isolate *iso, lua_State *L, int function, int arguments, int results,
                         uint64_t limit)
{
    if (iso->limits.mode == ORR_LUA_COUNT)
        return call_counted(iso, L, arguments, results);
    if (execution_calls(&iso->execution) <= CALLS_MAX)
        return call_here(iso, L, function, arguments, results, limit == ORR_NEVER ? 0 : limit);
    lua_settop(L, function - 1);
    lua_pushliteral(L, "C stack overflow"); /* Lua's own text: never allocates */
    return -ESCRIPT;
}

static __attribute__((noinline)) int call_in(struct orr_isolate *iso, uint32_t script, lua_State *L, int arguments,
                                             int results, uint64_t deadline_ns)
{
    int function = lua_gettop(L) - arguments;
    if (iso->closing || arguments < 0 || function < 1)
        return -EINVAL;
    if (hold_first(&iso->hold)) {
        hold_release_if_over(iso);
        if (isolate_is_held(iso))
            return -EBUSY;
    }
    if (results > arguments && !lua_checkstack(L, results))
        return -ENOMEM;
    bool inside = worker_current == iso->worker && !visits_any(&iso->visits);
    int error = inside ? 0 : isolate_visit(iso);
    if (error)
        return error;
    uint64_t limit = deadline_ns ? deadline_ns : iso->limits.deadline_ns[ORR_LUA_CALL];
    uint32_t before = script_begin_call(&iso->scripts, script);
    execution_begin_call(&iso->execution);
    error = call_visiting(iso, L, function, arguments, results, limit);
    execution_end_call(&iso->execution);
    script_end_call(&iso->scripts, before);
    if (!calm_holds(&iso->calm))
        slice_rare_look_for_calm(iso);
    if (!inside)
        isolate_leave(iso);
    return error;
}

/* --- The short way ---------------------------------------------------------------------------- */

/* Ends a call that took the short way, and cannot end in it.  The function is at `function`. */
static __attribute__((noinline)) int end_long(struct orr_isolate *iso, lua_State *L, int function, int error)
{
    struct level *level = execution_first_level(&iso->execution);
    if (error || level->end != LEVEL_GOES_ON) /* even if lua_pcall() has succeeded */
        error = fail(iso, L, function, level);
    execution_end_nested(&iso->execution);
    level_leave(iso, level);
    execution_fill_first_level(&iso->execution, L);
    slice_close_long(iso);
    execution_end_call(&iso->execution);
    slice_rare_look_for_calm(iso);
    return error;
}

/*
 * The call acts for the script that has the isolate to itself, as the host does outside of calls.
 * `limit` is not short.
 */
static inline int call_short(struct orr_isolate *iso, lua_State *L, int arguments, int results, uint64_t limit)
{
    int top = lua_gettop(L);
    if ((unsigned)arguments >= (unsigned)top)
        return -EINVAL;
    slice_open_short(iso, limit);
    int error = lua_pcall(L, arguments, results, 0);
    if (!error && slice_close_short(iso))
        return 0;
    return end_long(iso, L, top - arguments, error);
}

int call_for(uint32_t script, lua_State *L, int arguments, int results, uint64_t deadline_ns)
{
    return call_in(isolate_find(L), script, L, arguments, results, deadline_ns);
}

/* Whether the deadline needs a timer of its own.  In a calm isolate the default does not. */
static inline bool is_short_deadline(const struct orr_isolate *iso, uint64_t deadline_ns)
{
    return deadline_ns && deadline_ns < 2 * iso->limits.slice_ns;
}

/* The limit of the level of a call; 0 for none. */
static inline uint64_t limit_of(const struct orr_isolate *iso, uint64_t deadline_ns)
{
    if (!deadline_ns)
        return iso->limits.deadline_ns[ORR_LUA_CALL];
    return deadline_ns == ORR_NEVER ? 0 : deadline_ns;
}

int orr_lua_call(lua_State *L, int arguments, int results, uint64_t deadline_ns)
{
    struct orr_isolate *iso = isolate_find(L);
    if (!iso)
        return -EINVAL;
    bool inside = worker_current; /* if it is another worker, call_in() finds out */
    int error = inside ? 0 : visit_begin(iso->worker);
    if (error)
        return error;
    if (L == iso->L && slice_can_be_short(iso) && worker_current == iso->worker && results <= arguments &&
        !is_short_deadline(iso, deadline_ns))
        error = call_short(iso, L, arguments, results, limit_of(iso, deadline_ns));
    else
        error = call_in(iso, script_sole(&iso->scripts), L, arguments, results, deadline_ns);
    if (!inside)
        visit_end(iso->worker);
    return error;
}

int orr_lua_is_held(lua_State *L)
{
    struct orr_isolate *iso = L ? isolate_find(L) : NULL;
    if (!iso || iso->closing)
        return -EINVAL;
    int error = isolate_visit(iso);
    if (error)
        return error;
    hold_release_if_over(iso);
    int held = isolate_is_held(iso);
    isolate_leave(iso);
    return held;
}
