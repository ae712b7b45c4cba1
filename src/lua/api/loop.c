#include "lua/api/loop.h"

#include "lua/api/duration.h"
#include "lua/api/script_timers.h"
#include "lua/isolate.h"

static int loop_now(lua_State *L)
{
    duration_push(L, orr_runtime_now(isolate_of(L)->rt));
    return 1;
}

static int loop_hrtime(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)orr_runtime_now(isolate_of(L)->rt));
    return 1;
}

void loop_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "now", loop_now }, { "hrtime", loop_hrtime }, { NULL, NULL } };
    lua_newtable(L);
    isolate_register(iso, L, functions);
    script_timers_open(iso, L);
    lua_setfield(L, -2, "loop");
}
