/* The module `values`: what workers are sent, as strings that can be kept. */
#include "lua/charge.h"
#include "lua/modules.h"
#include "lua/values/message.h"

static int push_bytes(lua_State *L)
{
    const struct message *m = lua_touserdata(L, 1);
    lua_pushlstring(L, (const char *)m->bytes, m->size);
    return 1;
}

/* encode(...): a string */
static int encode(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct message m;
    luaL_checkstack(L, VALUES_ERROR_SLOTS, NULL);
    struct alloc alloc = charge_alloc(iso);
    message_init(&m, &alloc);
    m.flat = true;
    int error = values_encode(&m, L, 1, lua_gettop(L), "value");
    bool refused = error;
    if (!error) {
        lua_pushcfunction(L, push_bytes); /* protected: the message is nobody's but ours */
        lua_pushlightuserdata(L, &m);
        error = lua_pcall(L, 1, 1, 0);
    }
    message_free(&m);
    if (refused)
        return luaL_error(L, "%s", lua_tostring(L, -1));
    return error ? lua_error(L) : 1;
}

/* decode(string): the values */
static int decode(lua_State *L)
{
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    return values_decode_bytes(L, bytes, size);
}

void values_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = { { "decode", decode }, { "encode", encode }, { NULL, NULL } };
    lua_newtable(L);
    isolate_register(iso, L, functions);
    lua_setfield(L, -2, "values");
}
