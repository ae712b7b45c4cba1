#include "lua/isolate/resumers.h"

#include "lua/isolate/execution.h"
#include "lua/isolate/registry.h"

static const char resumers_key; /* registry key of a table: waiting coroutine to its resumer */

void resumers_open(lua_State *L)
{
    registry_push_weak_table(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &resumers_key);
}

void resumers_add(lua_State *L, lua_State *co)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &resumers_key);
    execution_push_coroutine(L, co);
    lua_pushthread(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void resumers_remove(lua_State *L, lua_State *co)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &resumers_key);
    execution_push_coroutine(L, co);
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* Needs two slots on L. */
static lua_State *find(lua_State *L, lua_State *co)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &resumers_key);
    execution_push_coroutine(L, co);
    lua_rawget(L, -2);
    lua_State *resumer = lua_tothread(L, -1);
    lua_pop(L, 2);
    return resumer;
}

bool resumers_has(lua_State *L, lua_State *co)
{
    return find(L, co);
}

lua_State *resumers_find(lua_State *L, lua_State *co)
{
    return lua_checkstack(L, 2) ? find(L, co) : NULL;
}
