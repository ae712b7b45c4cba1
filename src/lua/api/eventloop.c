#include "lua/api/eventloop.h"

#include "lua/api/creation.h"
#include "lua/api/lua_part.h"
#include "lua/isolate.h"
#include "lua/isolate/embedded.h"
#include "lua/task/report.h"
#include "lua/task/script.h"

static const char part_key; /* in the registry: the functions of lua/eventloop.lua */

/* owner() -> the number of the script that runs, if its private loops are to be remembered. */
static int owner(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    if (!iso->limits.testing)
        return 0;
    lua_pushinteger(L, script_running(iso));
    return 1;
}

void eventloop_run(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "where", creation_where }, { "owner", owner }, { "watch", missing_watch_from_lua }, { NULL, NULL }
    };
    lua_getfield(L, -1, "task");
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_part_open(L, &embedded_eventloop, 2, &part_key);
}

void eventloop_list(lua_State *L, uint32_t script)
{
    if (!lua_part_is_open(L, &part_key))
        return;
    lua_part_push(L, &part_key, "list_of");
    lua_pushinteger(L, script);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
}

void eventloop_dispose(lua_State *L, uint32_t script)
{
    if (!lua_part_is_open(L, &part_key))
        return;
    lua_part_push(L, &part_key, "dispose_of");
    lua_pushinteger(L, script);
    lua_call(L, 1, 0);
}

void eventloop_forget(lua_State *L, uint32_t script)
{
    if (!lua_part_is_open(L, &part_key))
        return;
    lua_part_push(L, &part_key, "forget");
    lua_pushinteger(L, script);
    lua_call(L, 1, 0);
}
