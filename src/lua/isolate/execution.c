#include "lua/isolate/execution.h"

#include "orrery.h"

void execution_fill_first_level(struct execution *self, lua_State *L)
{
    self->first_level = (struct level){ .co = L, .host_waits = true, .entry = ORR_LUA_CALL, .outer_running = L };
}

lua_State *chain_find_stuck(lua_State *L, const struct chain *chain)
{
    if (!lua_isyieldable(L))
        return L;
    for (const struct chain *at = chain; at; at = at->outer)
        if (!lua_isyieldable(at->L))
            return at->L;
    return NULL;
}

void execution_push_coroutine(lua_State *L, lua_State *co)
{
    lua_pushthread(co);
    lua_xmove(co, L, 1);
}
