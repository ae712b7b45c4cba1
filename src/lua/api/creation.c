#include "lua/api/creation.h"

#include "lua/isolate.h"
#include "lua/limits/stack_trace.h"

int creation_slots(const struct orr_isolate *iso)
{
    return iso->debug;
}

void creation_keep(const struct orr_isolate *iso, lua_State *L, int slot)
{
    if (!iso->debug)
        return;
    stack_trace_push_location(L, L, 1);
    lua_setiuservalue(L, -2, slot);
}

void creation_append(struct orr_isolate *iso, lua_State *L, int anchor, int slot)
{
    isolate_push_anchored(iso, L, anchor);
    lua_getiuservalue(L, -1, slot);
    lua_setfield(L, -3, "created");
    lua_pop(L, 1);
    lua_rawseti(L, -2, luaL_len(L, -2) + 1);
}

int creation_where(lua_State *L)
{
    if (!isolate_of(L)->debug)
        return 0;
    stack_trace_push_location(L, L, 1);
    return 1;
}
