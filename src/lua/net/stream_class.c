#include "lua/net/stream_class.h"

#include "lua/api/option_table.h"
#include "lua/api/primitive.h"
#include "lua/net/address_argument.h"
#include "lua/net/serve.h"
#include "lua/net/stream_end.h"
#include "lua/net/stream_object.h"
#include "lua/net/stream_read.h"
#include "lua/net/stream_write.h"

#include <errno.h>
#include <string.h>

static int stream_close(lua_State *L)
{
    stream_object_close(stream_object_check(L, 1));
    return 0;
}

/* __close(stream, error) */
static int stream_end_block(lua_State *L)
{
    if (!lua_isnoneornil(L, 2))
        serve_name_failure(stream_object_check(L, 1), L);
    return stream_close(L);
}

static int stream_is_open(lua_State *L)
{
    lua_pushboolean(L, orr_stream_is_open(stream_object_check(L, 1)->stream));
    return 1;
}

/* Pushes the address of one end; nil and an error if it has none. */
static int push_end(lua_State *L, enum orr_end end, const char *operation)
{
    struct stream_object *self = stream_object_check(L, 1);
    char text[ORR_ADDRESS_TEXT];
    int length = VISITED(isolate_of(L), orr_stream_describe(self->stream, end, text, sizeof text));
    if (length < 0)
        return io_error_push(L,
                             &(struct io_failure){ .error = self->stream ? length : -EBADF, .operation = operation });
    lua_pushlstring(L, text, (size_t)length);
    return 1;
}

static int stream_address(lua_State *L)
{
    return push_end(L, ORR_LOCAL, "address");
}

static int stream_peer(lua_State *L)
{
    return push_end(L, ORR_PEER, "peer");
}

/* --- Settings --------------------------------------------------------------------------------- */

/* set{ nodelay = true, keepalive = 60, send_buffer = 65536, receive_buffer = 65536 } */
static const struct {
    const char *name;
    enum orr_setting setting;
} settings[] = {
    { "nodelay", ORR_SET_DELAY },
    { "keepalive", ORR_SET_KEEPALIVE },
    { "send_buffer", ORR_SET_SEND_BUFFER },
    { "receive_buffer", ORR_SET_RECEIVE_BUFFER },
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* The value at the top, for a setting. */
static int64_t setting_value(lua_State *L, int which)
{
    if (settings[which].setting == ORR_SET_DELAY) {
        if (!lua_isboolean(L, -1))
            argument_raise(L, "stream:set: option nodelay is a %s, expected a boolean", luaL_typename(L, -1));
        return !lua_toboolean(L, -1);
    }
    if (settings[which].setting == ORR_SET_KEEPALIVE && lua_isboolean(L, -1))
        return lua_toboolean(L, -1) ? KEEPALIVE_S : 0;
    int most = settings[which].setting == ORR_SET_KEEPALIVE ? KEEPALIVE_MOST : OPTION_MOST;
    return option_value(L, "stream:set: ", settings[which].name, 1, most);
}

static int stream_set(lua_State *L)
{
    static const char *const known[] = { "nodelay", "keepalive", "send_buffer", "receive_buffer", NULL };
    struct stream_object *self = stream_object_check(L, 1);
    option_table_check(L, 2, "stream:set", known);
    for (int i = 0; i < SETTINGS; i++) {
        if (lua_getfield(L, 2, settings[i].name) != LUA_TNIL) {
            int64_t value = setting_value(L, i);
            int error = VISITED(isolate_of(L), orr_stream_set(self->stream, settings[i].setting, value));
            if (error)
                return stream_fail(L, NULL, self, "stream:set", error, NULL);
        }
        lua_pop(L, 1);
    }
    lua_settop(L, 1);
    return 1;
}

static int stream_tostring(lua_State *L)
{
    struct stream_object *self = stream_object_check(L, 1);
    char text[ORR_ADDRESS_TEXT];
    if (orr_stream_is_open(self->stream))
        stream_object_describe(self, text, sizeof text);
    lua_pushfstring(L, "stream (%s)", orr_stream_is_open(self->stream) ? text : "closed");
    return 1;
}

void stream_class_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "read", stream_read },
        { "read_exactly", stream_read_exactly },
        { "read_line", stream_read_line },
        { "read_until", stream_read_until },
        { "read_all", stream_read_all },
        { "lines", stream_lines },
        { "write", stream_write },
        { "shutdown", stream_shutdown },
        { "close", stream_close },
        { "is_open", stream_is_open },
        { "address", stream_address },
        { "peer", stream_peer },
        { "set", stream_set },
        { "__call", stream_next },
        { "__close", stream_end_block },
        { "__gc", stream_object_gc },
        { "__tostring", stream_tostring },
        { NULL, NULL },
    };
    isolate_object_class(iso, L, OBJECT_STREAM, STREAM_CLASS, methods);
}
