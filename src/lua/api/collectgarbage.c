/*
 * Whole cycles are done in steps (collector.h).  Where the script can be suspended, it is between
 * steps, so that no piece takes longer than a slice.
 *
 * The collector stays incremental: a collection in generational mode cannot be divided.  The mode
 * that a script sets is only remembered, so that the script finds what it has set.  `setpause` and
 * `setstepmul` change our pace, within bounds: memory in use may at least double before the next
 * cycle, and steps do at least half the usual work.
 *
 * An untrusted script can only count and step.
 *
 * Lua 5.5 has "param" in place of `setpause` and `setstepmul`.  With 5.5 we have all three.
 */
#include "lua/api/collectgarbage.h"

#include "lua/isolate.h"
#include "lua/isolate/collector.h"
#include "lua/limits/preempt.h"
#include "lua/sandbox/sandbox.h"

enum option { COLLECT, COUNT, STEP, STOP, RESTART, SETPAUSE, SETSTEPMUL, ISRUNNING, GENERATIONAL, INCREMENTAL, PARAM };

static const char *const names[] = { "collect",  "count",      "step",      "stop",         "restart",
                                     "setpause", "setstepmul", "isrunning", "generational", "incremental",
#if LUA_VERSION_NUM >= 505
                                     "param",
#endif
                                     NULL };

/*
 * Does the work that is owed.  `context`: cycles done before a step, or -1 for a whole collection.
 */
static int pay(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct orr_isolate *iso = isolate_of(L);
    if (preempt_to_collect(L))
        return preempt_yield(L, pay, context);
    if (context < 0)
        lua_pushinteger(L, 0);
    else
        lua_pushboolean(L, collector_cycles(&iso->collector) != (uint64_t)context);
    return 1;
}

static int set(lua_State *L, unsigned *value, lua_Integer now)
{
    lua_pushinteger(L, *value);
    *value = now < 0 ? 0 : now > 1000 ? 1000 : (unsigned)now;
    return 1;
}

/*
 * Gets or sets a parameter by name.  Those that have no meaning here keep Lua's value: they are for
 * the generational mode, or the size of a step.
 */
static int param(lua_State *L, struct collector *collector)
{
#if LUA_VERSION_NUM >= 505
    static const char *const parameters[] = { [LUA_GCPMINORMUL] = "minormul",
                                              [LUA_GCPMAJORMINOR] = "majorminor",
                                              [LUA_GCPMINORMAJOR] = "minormajor",
                                              [LUA_GCPPAUSE] = "pause",
                                              [LUA_GCPSTEPMUL] = "stepmul",
                                              [LUA_GCPSTEPSIZE] = "stepsize",
                                              [LUA_GCPN] = NULL };
    int which = luaL_checkoption(L, 2, NULL, parameters);
    lua_Integer now = luaL_optinteger(L, 3, -1);
    unsigned *value = which == LUA_GCPPAUSE ? &collector->pause : which == LUA_GCPSTEPMUL ? &collector->rate : NULL;
    if (value)
        return set(L, value, now < 0 ? *value : now);
    lua_pushinteger(L, lua_gc(L, LUA_GCPARAM, which, -1));
    return 1;
#else
    (void)L;
    (void)collector;
    return 0;
#endif
}

static int set_mode(lua_State *L, struct collector *collector, bool generational)
{
    lua_pushstring(L, collector->generational ? "generational" : "incremental");
    collector->generational = generational;
    return 1;
}

static void set_pace(lua_State *L, struct collector *collector)
{
    lua_Integer pause = luaL_optinteger(L, 2, 0), rate = luaL_optinteger(L, 3, 0);
    collector->pause = pause > 0 && pause <= 1000 ? (unsigned)pause : collector->pause;
    collector->rate = rate > 0 && rate <= 1000 ? (unsigned)rate : collector->rate;
}

static int collect(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct collector *collector = &iso->collector;
    enum option option = (enum option)luaL_checkoption(L, 1, "collect", names);
    if (isolate_is_sandboxed(iso) && option != COUNT && option != STEP)
        return luaL_error(L, "collectgarbage '%s' is refused: an untrusted script can only \"count\" and \"step\"",
                          names[option]);
    int kilobytes = lua_gc(L, LUA_GCCOUNT);
    if (kilobytes < 0) { /* in a finalizer */
        luaL_pushfail(L);
        return 1;
    }
    switch (option) {
    case COLLECT:
        collector_force(iso, 1);
        return pay(L, LUA_OK, -1);
    case COUNT:
        lua_pushnumber(L, kilobytes + (lua_Number)lua_gc(L, LUA_GCCOUNTB) / 1024);
        return 1;
    case STEP:
        collector_owe(iso, isolate_is_sandboxed(iso) ? 0 : luaL_optinteger(L, 2, 0));
        return pay(L, LUA_OK, (lua_KContext)collector->cycles);
    case STOP:
    case RESTART:
        collector->stopped = option == STOP;
        lua_pushinteger(L, 0);
        return 1;
    case SETPAUSE:
        return set(L, &collector->pause, luaL_optinteger(L, 2, 0));
    case SETSTEPMUL:
        return set(L, &collector->rate, luaL_optinteger(L, 2, 0));
    case ISRUNNING:
        lua_pushboolean(L, !collector->stopped);
        return 1;
    case GENERATIONAL:
        return set_mode(L, collector, true);
    case INCREMENTAL:
        set_pace(L, collector);
        return set_mode(L, collector, false);
    case PARAM:
        return param(L, collector);
    }
    return 0;
}

void collectgarbage_open(struct orr_isolate *iso, lua_State *L)
{
    if (!collector_is_managed(&iso->collector))
        return;
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, collect, 1);
    lua_setglobal(L, "collectgarbage");
}
