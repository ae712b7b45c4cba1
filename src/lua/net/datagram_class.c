#include "lua/net/datagram_class.h"

#include "base/list.h"
#include "lua/api/option_table.h"
#include "lua/api/primitive.h"
#include "lua/net/address_argument.h"
#include "lua/net/io_error.h"
#include "lua/net/permission.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>

enum { MESSAGE_MAX = 65536 }; /* no message of UDP is longer */

struct datagram_object {
    struct open_object object;
    struct orr_datagram *datagram; /* NULL until it is opened, and when the isolate has ended */
    unsigned multicast_hops;
    bool multicast_loop;
};

/* --- The life of an object -------------------------------------------------------------------- */

static struct datagram_object *datagram_of(const struct open_object *object)
{
    return container_of(object, struct datagram_object, object);
}

static void describe(const struct open_object *object, char *text, size_t size)
{
    struct orr_address address;
    int error = orr_datagram_address(datagram_of(object)->datagram, ORR_LOCAL, &address);
    if (error || orr_address_print(&address, text, size) < 0)
        snprintf(text, size, "closed");
}

static void close_datagram(struct open_object *object)
{
    orr_datagram_close(datagram_of(object)->datagram);
    open_object_closed(object);
}

static void free_datagram(struct open_object *object)
{
    orr_datagram_free(datagram_of(object)->datagram);
    datagram_of(object)->datagram = NULL;
}

static const struct open_class of_datagrams = {
    .kind = "datagram socket", .describe = describe, .close = close_datagram, .free = free_datagram
};

static struct datagram_object *check_self(lua_State *L)
{
    return luaL_checkudata(L, 1, DATAGRAM_CLASS);
}

static int datagram_close(lua_State *L)
{
    struct datagram_object *self = check_self(L);
    if (self->datagram && !isolate_visit(isolate_of(L))) {
        close_datagram(&self->object);
        isolate_leave(isolate_of(L));
    }
    return 0;
}

static int datagram_gc(lua_State *L)
{
    struct datagram_object *self = lua_touserdata(L, 1);
    return open_object_finalize(L, DATAGRAM_CLASS, &self->object);
}

/* The stack of udp(). */
enum { LOCAL = 1, OPTIONS, PEER, LOCAL_QUESTION, PEER_QUESTION };

/* What the arguments of udp() ask for. */
struct opening {
    struct orr_address local, peer;
    struct orr_datagram_options options;
    struct gate_request bind, connect;
};

static void check_opening(lua_State *L, struct opening *self)
{
    struct orr_datagram_options *options = &self->options;
    luaL_checktype(L, OPTIONS, LUA_TTABLE);
    if (!lua_isnil(L, LOCAL)) {
        self->local = address_check(L, LOCAL, "net.udp");
        options->local = &self->local;
    }
    if (!lua_isnil(L, PEER)) {
        self->peer = address_check(L, PEER, "net.udp: option peer");
        options->peer = &self->peer;
    }
    options->broadcast = option_check_flag(L, OPTIONS, "broadcast", false);
    options->reuse = option_check_flag(L, OPTIONS, "reuse", false);
    options->send_buffer = option_check_number(L, OPTIONS, "send_buffer", OPTION_MOST);
    options->receive_buffer = option_check_number(L, OPTIONS, "receive_buffer", OPTION_MOST);
    options->open.real = option_check_flag(L, OPTIONS, "real", false);
    bool simulated = isolate_of(L)->gate && permission_is_simulated(&options->open);
    self->bind = (struct gate_request){
        .use = GATE_LISTEN, .address = options->local, .shared = options->reuse, .simulated = simulated
    };
    self->connect = (struct gate_request){ .use = GATE_CONNECT, .address = options->peer, .simulated = simulated };
}

static int udp_failed(lua_State *L, const struct opening *self, int error)
{
    const struct orr_isolate *iso = isolate_of(L);
    char text[GATE_TEXT];
    bool own = self->options.local && !gate_grants(iso->gate, &self->bind);
    struct io_failure failure = {
        .error = error,
        .operation = "open",
        .address = lua_tostring(L,
                                self->options.local && (own || !self->options.peer || error != -EACCES) ? LOCAL : PEER),
        .message = permission_message(iso, error, own || !self->options.peer ? &self->bind : &self->connect, text),
    };
    return io_error_end(L, execution_task(&iso->execution), &failure);
}

/* Opens the socket, once the host was asked.  Returns it, or nil and an error. */
static int open_udp(lua_State *L, struct opening *opening)
{
    struct orr_isolate *iso = isolate_of(L);
    struct datagram_object *self = primitive_new(L, DATAGRAM_CLASS, sizeof *self, 0);
    bool real = opening->options.open.real;
    open_object_init(&self->object, iso, &of_datagrams, L);
    opening->options.open = open_object_options(&self->object);
    opening->options.open.real = real;
    struct orr_datagram *datagram;
    int error = open_objects_check(iso, 1);
    if (!error)
        error = VISITED(iso, orr_datagram_open(&opening->options, &datagram));
    if (error)
        return udp_failed(L, opening, error);
    self->datagram = datagram;
    self->multicast_hops = 1; /* the kernel's defaults */
    self->multicast_loop = true;
    open_object_opened(&self->object);
    return 1;
}

/* Begins from its start again when the host has answered. */
static int udp_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct opening opening = { 0 };
    check_opening(L, &opening);
    int error = opening.options.local ? permission_ask(L, LOCAL_QUESTION, "net.udp", &opening.bind) : 0;
    if (!error && opening.options.peer)
        error = permission_ask(L, PEER_QUESTION, "net.udp", &opening.connect);
    if (error == -EAGAIN)
        return suspend(L, udp_on, context);
    return error ? udp_failed(L, &opening, error) : open_udp(L, &opening);
}

/* udp(local address or nil, options, peer or nil) -> datagram socket, or nil and an error */
static int net_udp(lua_State *L)
{
    lua_settop(L, PEER);
    lua_settop(L, PEER_QUESTION);
    return udp_on(L, LUA_OK, 0);
}

/* --- Messages --------------------------------------------------------------------------------- */

static int fail(lua_State *L, struct ltask *task, const struct datagram_object *self, const char *operation, int error,
                const char *address, const char *message)
{
    if (error == -EBUSY)
        return argument_raise(L, "datagram:%s: another task does this already; one sends and one receives at a time",
                              operation);
    struct io_failure failure = {
        .error = self->datagram ? error : -EBADF, .operation = operation, .address = address, .message = message
    };
    return io_error_end(L, task, &failure);
}

/* [socket] [data] [address or nil] [question] */
static int send_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "datagram:send");
    struct datagram_object *self = lua_touserdata(L, 1);
    struct orr_address address;
    struct iovec part;
    part.iov_base = (void *)lua_tolstring(L, 2, &part.iov_len);
    struct orr_message message = { .parts = &part, .count = 1 };
    if (!lua_isnil(L, 3)) {
        address = address_check(L, 3, "datagram:send");
        message.address = &address;
    }
    struct gate_request request = { .use = GATE_CONNECT, .address = message.address };
    char text[GATE_TEXT];
    int error = message.address ? permission_ask(L, 4, "datagram:send", &request) : 0;
    if (!error)
        error = orr_datagram_send(task->task, &task->wait, self->datagram, &message);
    if (error == -EAGAIN)
        return suspend(L, send_on, context);
    if (error)
        return fail(L, task, self, "send", error, lua_tostring(L, 3),
                    permission_message(isolate_of(L), error, &request, text));
    lua_settop(L, 1);
    return 1;
}

/* send(data, [address]) -> the socket, or nil and an error */
static int datagram_send(lua_State *L)
{
    check_self(L);
    luaL_checkstring(L, 2);
    lua_settop(L, 3);
    lua_settop(L, 4);
    return send_on(L, LUA_OK, 0);
}

/* A message of a socket on a path may be longer than the room for it.  It is lost. */
static int too_long(lua_State *L, size_t size, const struct orr_address *sender)
{
    address_push(L, sender);
    const char *message = lua_pushfstring(L, "a message of %I bytes was dropped; at most %d can be received",
                                          (lua_Integer)size, MESSAGE_MAX);
    struct io_failure failure = {
        .error = -EMSGSIZE, .operation = "receive", .address = lua_tostring(L, -2), .message = message
    };
    return io_error_push(L, &failure);
}

/* [socket] [room] */
static int receive_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "datagram:receive");
    struct datagram_object *self = lua_touserdata(L, 1);
    struct orr_address sender;
    struct iovec room = { .iov_base = lua_touserdata(L, 2), .iov_len = MESSAGE_MAX };
    struct orr_message message = { .parts = &room, .count = 1, .address = &sender };
    int error = orr_datagram_receive(task->task, &task->wait, self->datagram, &message);
    if (error == -EAGAIN)
        return suspend(L, receive_on, context);
    if (error)
        return fail(L, task, self, "receive", error, NULL, NULL);
    if (message.size > MESSAGE_MAX)
        return too_long(L, message.size, &sender);
    lua_pushlstring(L, room.iov_base, message.size);
    address_push(L, &sender);
    return 2;
}

/*
 * receive() -> data and the sender's address, or nil and an error.  The second upvalue is room for
 * one message, made when it is first needed: nothing runs between a receipt and the copy.
 */
static int datagram_receive(lua_State *L)
{
    check_self(L);
    lua_settop(L, 1);
    if (lua_isnil(L, lua_upvalueindex(2))) {
        lua_newuserdatauv(L, MESSAGE_MAX, 0);
        lua_replace(L, lua_upvalueindex(2));
    }
    lua_pushvalue(L, lua_upvalueindex(2));
    return receive_on(L, LUA_OK, 0);
}

/* --- Questions and settings ------------------------------------------------------------------- */

static int push_end(lua_State *L, enum orr_end end, const char *operation)
{
    struct datagram_object *self = check_self(L);
    struct orr_address address;
    int error = VISITED(isolate_of(L), orr_datagram_address(self->datagram, end, &address));
    if (error)
        return io_error_push(L,
                             &(struct io_failure){ .error = self->datagram ? error : -EBADF, .operation = operation });
    address_push(L, &address);
    return 1;
}

static int datagram_address(lua_State *L)
{
    return push_end(L, ORR_LOCAL, "address");
}

static int datagram_peer(lua_State *L)
{
    return push_end(L, ORR_PEER, "peer");
}

static int datagram_is_open(lua_State *L)
{
    struct orr_address address;
    lua_pushboolean(L, !VISITED(isolate_of(L), orr_datagram_address(check_self(L)->datagram, ORR_LOCAL, &address)));
    return 1;
}

/* The index of the network interface that is named at 3; 0 for none. */
static unsigned check_interface(lua_State *L, const char *what)
{
    if (lua_isnoneornil(L, 3))
        return 0;
    const char *name = luaL_checkstring(L, 3);
    unsigned index = if_nametoindex(name);
    if (!index)
        argument_raise(L, "%s: there is no network interface \"%s\"", what, name);
    return index;
}

/* The text of a group at 2 with a port, which the core's addresses have: "239.1.2.3" is enough. */
static struct orr_address check_group(lua_State *L, const char *what)
{
    const char *text = luaL_checkstring(L, 2);
    size_t length = lua_rawlen(L, 2);
    struct orr_address address;
    if (strlen(text) != length || !orr_address_parse(text, length, &address))
        return address_check(L, 2, what);
    lua_pushfstring(L, strchr(text, ':') ? "[%s]:0" : "%s:0", text);
    address = address_check(L, lua_gettop(L), what);
    lua_pop(L, 1);
    return address;
}

/* Why a group may not be joined: its messages come to the socket's own port. */
static const char *join_refusal(struct orr_isolate *iso, const struct datagram_object *self, struct orr_address group,
                                char text[GATE_TEXT])
{
    struct orr_address own;
    if (VISITED(iso, orr_datagram_address(self->datagram, ORR_LOCAL, &own)))
        return NULL;
    ip_set_port(&group, ip_port(&own));
    struct gate_request request = { .use = GATE_LISTEN, .address = &group };
    return permission_message(iso, -EACCES, &request, text);
}

static int change_group(lua_State *L, const char *what,
                        int (*change)(struct orr_datagram *, const struct orr_address *, unsigned))
{
    struct datagram_object *self = check_self(L);
    struct orr_address group = check_group(L, what);
    unsigned interface = check_interface(L, what);
    char text[GATE_TEXT];
    int error = VISITED(isolate_of(L), change(self->datagram, &group, interface));
    if (error)
        return fail(L, NULL, self, strchr(what, ':') + 1, error, lua_tostring(L, 2),
                    error == -EACCES ? join_refusal(isolate_of(L), self, group, text) : NULL);
    lua_settop(L, 1);
    return 1;
}

static int datagram_join(lua_State *L)
{
    return change_group(L, "datagram:join", orr_datagram_join);
}

static int datagram_leave(lua_State *L)
{
    return change_group(L, "datagram:leave", orr_datagram_leave);
}

/* set{ multicast_hops = 1, multicast_loop = true } */
static int datagram_set(lua_State *L)
{
    static const char *const known[] = { "multicast_hops", "multicast_loop", NULL };
    struct datagram_object *self = check_self(L);
    option_table_check(L, 2, "datagram:set", known);
    bool given = lua_getfield(L, 2, "multicast_hops") != LUA_TNIL;
    unsigned hops = given ? (unsigned)option_value(L, "", "multicast_hops", 0, 255) : self->multicast_hops;
    bool loop = option_check_flag(L, 2, "multicast_loop", self->multicast_loop);
    int error = VISITED(isolate_of(L), orr_datagram_set_multicast(self->datagram, hops, loop));
    if (error)
        return fail(L, NULL, self, "set", error, NULL, NULL);
    self->multicast_hops = hops;
    self->multicast_loop = loop;
    lua_settop(L, 1);
    return 1;
}

static int datagram_tostring(lua_State *L)
{
    char text[ORR_ADDRESS_TEXT];
    describe(&check_self(L)->object, text, sizeof text);
    lua_pushfstring(L, "datagram socket (%s)", text);
    return 1;
}

void datagram_class_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "send", datagram_send },       { "address", datagram_address },     { "peer", datagram_peer },
        { "is_open", datagram_is_open }, { "join", datagram_join },           { "leave", datagram_leave },
        { "set", datagram_set },         { "close", datagram_close },         { "__close", datagram_close },
        { "__gc", datagram_gc },         { "__tostring", datagram_tostring }, { NULL, NULL },
    };
    static const luaL_Reg functions[] = { { "udp", net_udp }, { NULL, NULL } };
    isolate_class(iso, L, DATAGRAM_CLASS, methods);
    isolate_push_methods(L, DATAGRAM_CLASS);
    lua_pushlightuserdata(L, iso);
    lua_pushnil(L);
    lua_pushcclosure(L, datagram_receive, 2);
    lua_setfield(L, -2, "receive");
    lua_pop(L, 1);
    isolate_register(iso, L, functions);
}
