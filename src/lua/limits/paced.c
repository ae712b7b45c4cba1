#include "lua/limits/paced.h"

#include "lua/isolate/interrupt.h"
#include "lua/isolate/registry.h"
#include "lua/limits/preempt.h"

#include <errno.h>

#define PACED "orrery.paced"

int paced_steps = PACED_STEPS;

static int paced_gc(lua_State *L)
{
    struct paced *work = lua_touserdata(L, 1);
    if (work->kind)
        work->kind->free(work);
    return 0;
}

/* [bytes] */
static int new_block(lua_State *L)
{
    struct paced *block = lua_newuserdatauv(L, (size_t)lua_tointeger(L, 1), 0);
    block->kind = NULL;
    luaL_setmetatable(L, PACED);
    return 1;
}

/* Moves work into a userdata at its slot.  Raises for lack of memory, after freeing it. */
static struct paced *keep(lua_State *L, struct paced *work)
{
    if (work->kept)
        return work;
    lua_pushcfunction(L, new_block); /* protected, because Lua does not own the work yet */
    lua_pushinteger(L, (lua_Integer)work->kind->size);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        work->kind->free(work);
        lua_error(L);
    }
    struct paced *kept = lua_touserdata(L, -1);
    work->kind->move(kept, work);
    kept->kind = work->kind;
    kept->slot = work->slot;
    kept->kept = true;
    lua_replace(L, kept->slot);
    return kept;
}

int paced_run(lua_State *L, struct paced **work)
{
    static const volatile bool never = false;
    const struct orr_isolate *iso = isolate_of(L);
    const volatile bool *hurry = iso->limits.mode == ORR_LUA_SIGNAL ? interrupt_flag(&iso->interrupt) : &never;
    for (;;) {
        int answer = (*work)->kind->step(*work, L, paced_steps, hurry);
        if (answer != -EAGAIN)
            return answer;
        *work = keep(L, *work);
        if (preempt_hold_is_due(L))
            return -EAGAIN;
        /* It cannot be suspended here: do all steps until the next check */
        if (interrupt_is_requested(&iso->interrupt))
            hurry = &never;
    }
}

struct paced *paced_kept(lua_State *L, int slot, lua_KContext context)
{
    struct paced *work = lua_touserdata(L, slot);
    if (!work || (lua_KContext)work != context)
        luaL_error(L, "the state of this call was replaced with the debug library");
    return work;
}

void paced_finish(lua_State *L, struct paced *work, lua_CFunction function, int results)
{
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, work);
    int status = lua_pcall(L, 1, results, 0);
    work->kind->free(work);
    if (status != LUA_OK)
        lua_error(L);
}

int paced_fail(lua_State *L, struct paced *work)
{
    work->kind->free(work);
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

void paced_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = { { "__gc", paced_gc }, { NULL, NULL } };
    isolate_class(iso, L, PACED, methods);
}
