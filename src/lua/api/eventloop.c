/*
 * What lua/eventloop.lua has of C: who makes a private loop, and where; and for those who run tests, what is left of the loops that somebody
 * has made.  Only in isolates that were made for testing are loops kept in mind.
 */
#include "lua/api/eventloop.h"

#include "lua/host/script.h"
#include "lua/isolate.h"
#include "lua/task/report.h"

static const char host_key; /* of the registry: what the chunk has made for us */

/* where() -> where the script is that has called us, if it is to be remembered. */
static int where(lua_State *L)
{
    if (!isolate_of(L)->debug)
        return 0;
    report_push_location(L, L, 1);
    return 1;
}

/* owner() -> the number of whoever runs, if what it makes is to be kept in mind. */
static int owner(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!iso->limits.testing)
        return 0;
    lua_pushinteger(L, script_running(iso));
    return 1;
}

void eventloop_push_private(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "where", where }, { "owner", owner }, { NULL, NULL } };
    lua_newtable(L);
    isolate_register(iso, L, functions);
}

void eventloop_keep_host(lua_State *L)
{
    lua_getfield(L, -1, "host");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &host_key);
}

static void push_host_function(lua_State *L, const char *name)
{
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &host_key);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

void eventloop_list(lua_State *L, uint32_t script)
{
    push_host_function(L, "list_of");
    lua_pushinteger(L, script);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
}

void eventloop_dispose(lua_State *L, uint32_t script)
{
    push_host_function(L, "dispose_of");
    lua_pushinteger(L, script);
    lua_call(L, 1, 0);
}

void eventloop_forget(lua_State *L, uint32_t script)
{
    push_host_function(L, "forget");
    lua_pushinteger(L, script);
    lua_call(L, 1, 0);
}
