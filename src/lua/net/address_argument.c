#include "lua/net/address_argument.h"

#include "lua/limits/stack_trace.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

int argument_raise(lua_State *L, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    stack_trace_push_location(L, L, 1);
    lua_pushstring(L, lua_rawlen(L, -1) ? ": " : "");
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    lua_concat(L, 3);
    return lua_error(L);
}

/* An IPv6 address without brackets has more than one colon. */
static bool lacks_brackets(const char *text)
{
    const char *colon = strchr(text, ':');
    return *text != '[' && colon && strchr(colon + 1, ':') && !strchr(text, '/');
}

static int raise(lua_State *L, const char *what, const char *text, int error)
{
    if (error == -ENAMETOOLONG)
        return argument_raise(
            L, "%s: bad address \"%s\" (the path is longer than the 107 bytes that the kernel allows)", what, text);
    if (error == -ENODEV)
        return argument_raise(L, "%s: bad address \"%s\" (there is no such network interface)", what, text);
    if (error == -EDESTADDRREQ)
        return argument_raise(L, "%s: bad address \"%s\" (expected an IP address here, not a name)", what, text);
    if (lacks_brackets(text))
        return argument_raise(L, "%s: bad address \"%s\" (an IPv6 address needs brackets: \"[::1]:port\")", what, text);
    if (*text == ':' || !strncmp(text, "*:", 2))
        return argument_raise(L,
                              "%s: bad address \"%s\" (there is no host in it; \"0.0.0.0:port\" or \"[::]:port\" is "
                              "every address of this machine, \"127.0.0.1:port\" its own programs only)",
                              what, text);
    if (strstr(text, "://"))
        return argument_raise(L, "%s: bad address \"%s\" (expected \"host:port\", without \"://\")", what, text);
    return argument_raise(L,
                          "%s: bad address \"%s\" (expected \"host:port\", \"127.0.0.1:port\", \"[::1]:port\", "
                          "\"unix:/path\" or \"unix:@name\")",
                          what, text);
}

static const char *check_text(lua_State *L, int index, const char *what, size_t *length)
{
    if (lua_type(L, index) != LUA_TSTRING)
        argument_raise(L, "%s: expected an address such as \"127.0.0.1:80\", got %s", what, luaL_typename(L, index));
    const char *text = lua_tolstring(L, index, length);
    if (strlen(text) != *length)
        argument_raise(L, "%s: bad address (it has a zero byte after \"%s\")", what, text);
    return text;
}

struct orr_address address_check(lua_State *L, int index, const char *what)
{
    size_t length;
    const char *text = check_text(L, index, what, &length);
    struct orr_address address;
    int error = orr_address_parse(text, length, &address);
    if (error)
        raise(L, what, text, error);
    return address;
}

void address_push(lua_State *L, const struct orr_address *address)
{
    char text[ORR_ADDRESS_TEXT];
    int length = orr_address_print(address, text, sizeof text);
    lua_pushlstring(L, text, length < 0 ? 0 : (size_t)length);
}

int address_split(lua_State *L)
{
    const char *what = luaL_checkstring(L, 2);
    size_t length;
    const char *text = check_text(L, 1, what, &length);
    struct orr_address address;
    int error = orr_address_parse(text, length, &address);
    if (!error)
        return 0;
    char host[ORR_HOST_TEXT];
    uint16_t port;
    if (error == -EDESTADDRREQ)
        error = orr_address_split(text, length, host, &port);
    if (error)
        return raise(L, what, text, error);
    lua_pushstring(L, host);
    lua_pushinteger(L, port);
    return 2;
}

int option_value(lua_State *L, const char *what, const char *name, int least, int most)
{
    int is_whole = 0;
    lua_Integer value = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_whole) : 0;
    if (!is_whole || value < least || value > most)
        argument_raise(L, "%soption %s is %s, expected a whole number from %d to %d", what, name,
                       luaL_tolstring(L, -1, NULL), least, most);
    return (int)value;
}

unsigned option_check_number(lua_State *L, int index, const char *name, int most)
{
    bool given = lua_getfield(L, index, name) != LUA_TNIL;
    int value = given ? option_value(L, "", name, 1, most) : 0;
    lua_pop(L, 1);
    return (unsigned)value;
}

bool option_check_flag(lua_State *L, int index, const char *name, bool usual)
{
    bool value = usual;
    if (lua_getfield(L, index, name) != LUA_TNIL) {
        if (!lua_isboolean(L, -1))
            argument_raise(L, "option %s is %s, expected true or false", name, luaL_tolstring(L, -1, NULL));
        value = lua_toboolean(L, -1);
    }
    lua_pop(L, 1);
    return value;
}

static unsigned check_keepalive(lua_State *L, int index)
{
    bool flag = lua_getfield(L, index, "keepalive") == LUA_TBOOLEAN;
    bool on = lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (flag)
        return on ? KEEPALIVE_S : 0;
    return option_check_number(L, index, "keepalive", KEEPALIVE_MOST);
}

struct orr_socket_options option_check_socket(lua_State *L, int index)
{
    return (struct orr_socket_options){
        .delay = !option_check_flag(L, index, "nodelay", true),
        .keepalive_s = check_keepalive(L, index),
        .send_buffer = option_check_number(L, index, "send_buffer", OPTION_MOST),
        .receive_buffer = option_check_number(L, index, "receive_buffer", OPTION_MOST),
    };
}
