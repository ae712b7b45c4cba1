#include "lua/host/discard.h"

#include "base/clock.h"
#include "lua/api/events.h"
#include "lua/isolate.h"
#include "lua/isolate/late.h"
#include "lua/limits/finalizers.h"
#include "lua/sandbox/sandbox.h"

enum {
    CYCLES = 2,         /* the first may have begun to mark before the roots were cleared */
    SMALL = 1 << 20,    /* bytes that lua_close() frees in less than a millisecond */
    STEPS_PER_LOOK = 4, /* steps of the collector between two reads of the clock */
};

/*
 * Clears the registry entries of Orrery's modules, whose keys are light userdata.  Only for
 * sandboxes: elsewhere C modules may have such entries, and need them until the state closes.
 */
static void clear_ours(lua_State *L)
{
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX);) {
        bool holds = lua_istable(L, -1) || lua_isfunction(L, -1);
        lua_pop(L, 1);
        if (!holds || lua_type(L, -1) != LUA_TLIGHTUSERDATA)
            continue;
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, LUA_REGISTRYINDEX);
    }
}

/* Clears all places where scripts can keep values: globals, modules and event handlers. */
static int clear_roots(lua_State *L)
{
    if (isolate_is_sandboxed(isolate_find(L)))
        clear_ours(L);
    lua_newtable(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    events_forget(L);
    late_forget_api(L);
    compat_collect_in_steps(L, 200);
    return 0;
}

static bool begin(struct orr_isolate *iso, struct discard *self)
{
    lua_State *L = iso->L;
    self->begun = true;
    if (account_used(&iso->account) < SMALL || finalizers_any(iso) || !lua_checkstack(L, 4))
        return false;
    lua_settop(L, 0);
    lua_pushcfunction(L, clear_roots);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK)
        return true;
    lua_pop(L, 1);
    return false;
}

/* Frees blocks whose release was deferred, until the time `until`.  True if none is left. */
static bool free_late(struct orr_isolate *iso, uint64_t until)
{
    while (late_free_one(&iso->late_free, &iso->alloc))
        if (clock_now() >= until)
            return false;
    return true;
}

bool discard_step(struct orr_isolate *iso, struct discard *self, uint64_t until)
{
    if (!self->begun && !begin(iso, self))
        self->cycles = CYCLES;
    for (unsigned steps = 1; self->cycles < CYCLES && account_used(&iso->account) >= SMALL; steps++) {
        late_free_switch(&iso->late_free, true);
        self->cycles += compat_collect_step(iso->L);
        late_free_switch(&iso->late_free, false);
        if (!free_late(iso, until) || (steps % STEPS_PER_LOOK == 0 && clock_now() >= until))
            return false;
    }
    return free_late(iso, until);
}
