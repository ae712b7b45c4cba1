#include "lua/api/grants_list.h"

#include "lua/isolate.h"
#include "lua/isolate/grants.h"
#include "lua/isolate/settings.h"

/* [list] */
static void append(void *data, const char *text)
{
    lua_State *L = data;
    lua_pushstring(L, text);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void set_list(lua_State *L, const struct orr_isolate *iso, enum gate_use use, const char *field)
{
    lua_newtable(L);
    if (iso->gate)
        gate_visit(iso->gate, use, append, L);
    lua_setfield(L, -2, field);
}

static void set_flag(lua_State *L, const char *field, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, field);
}

/* grants() -> { everything = ..., asks = ..., connect = { ... }, listen = { ... } } */
static int list_grants(lua_State *L)
{
    const struct orr_isolate *iso = isolate_of(L);
    const struct settings *settings = iso->settings;
    lua_createtable(L, 0, 4);
    set_flag(L, "everything", !iso->gate);
    set_flag(L, "asks", settings->grants && settings->grants->ask && !settings->for_jobs);
    set_list(L, iso, GATE_CONNECT, "connect");
    set_list(L, iso, GATE_LISTEN, "listen");
    return 1;
}

void grants_list_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "grants", list_grants }, { NULL, NULL } };
    isolate_register(iso, L, functions);
}
