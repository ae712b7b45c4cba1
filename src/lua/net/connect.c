#include "lua/net/connect.h"

#include "lua/api/primitive.h"
#include "lua/net/address_argument.h"
#include "lua/net/permission.h"
#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>

/* --- connect() -------------------------------------------------------------------------------- */

/* The stack of connect(). */
enum { ADDRESS = 1, OPTIONS, LOCAL_ADDRESS, STREAM, CONNECTING, QUESTION, LOCAL_QUESTION };

/* What the script asked for.  It may change its table of options while the task waits. */
struct connecting {
    struct orr_address address, local;
    struct orr_socket_options options;
    bool asked; /* the host, about what is not granted; or there is nothing to ask */
};

/* Whether the connection was looked for in a simulated network, where few listen. */
static bool is_simulated(const struct connecting *self, int error)
{
    struct orr_network_host *here = NULL;
    return (error == -ECONNREFUSED || error == -EHOSTUNREACH) && !orr_network_here(&self->options.open, &here) && here;
}

/* What the gate is asked: to connect to the address, and to have the local one, if there is one. */
static struct gate_request to_connect(const struct connecting *self)
{
    return (struct gate_request){
        .use = GATE_CONNECT,
        .address = &self->address,
        .simulated = permission_is_simulated(&self->options.open),
    };
}

static struct gate_request to_bind(const struct connecting *self)
{
    return (struct gate_request){
        .use = GATE_LISTEN,
        .address = self->options.local,
        .simulated = permission_is_simulated(&self->options.open),
    };
}

static const char *refusal(const struct orr_isolate *iso, const struct connecting *self, int error,
                           char text[GATE_TEXT])
{
    struct gate_request connect = to_connect(self), bind = to_bind(self);
    if (bind.address && !gate_grants(iso->gate, &bind))
        return permission_message(iso, error, &bind, text);
    return permission_message(iso, error, &connect, text);
}

static int fail(lua_State *L, struct ltask *task, int error)
{
    char text[GATE_TEXT];
    struct io_failure failure = { .error = error, .operation = "connect", .address = lua_tostring(L, ADDRESS) };
    if (error == -EACCES)
        failure.message = refusal(isolate_of(L), lua_touserdata(L, CONNECTING), error, text);
    if (is_simulated(lua_touserdata(L, CONNECTING), error))
        failure.message = error == -ECONNREFUSED ? "Connection refused; " SIMULATED_HINT
                                                 : "No host of the network has this address; " SIMULATED_HINT;
    return io_error_end(L, task, &failure);
}

/* Asks the host about what is not granted: 0, -EAGAIN, or what interrupts the task. */
static int ask_host(lua_State *L, struct connecting *self)
{
    struct gate_request connect = to_connect(self), bind = to_bind(self);
    int error = permission_ask(L, QUESTION, "net.connect", &connect);
    if (!error && bind.address)
        error = permission_ask(L, LOCAL_QUESTION, "net.connect", &bind);
    self->asked = !error;
    return error;
}

static int connect_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "net.connect");
    struct stream_object *self = lua_touserdata(L, STREAM);
    struct connecting *connecting = lua_touserdata(L, CONNECTING);
    struct orr_stream *stream;
    int error = connecting->asked ? 0 : ask_host(L, connecting);
    if (!error)
        error = orr_connect(task->task, &task->wait, &connecting->address, &connecting->options, &stream);
    if (error == -EAGAIN)
        return suspend(L, connect_on, context);
    if (error) {
        open_object_closed(&self->object);
        return fail(L, task, error);
    }
    stream_object_opened(self, stream);
    lua_settop(L, STREAM);
    return 1;
}

/* Pushes what the arguments of connect() ask for. */
static struct connecting *push_connecting(lua_State *L)
{
    struct connecting *self = lua_newuserdatauv(L, sizeof *self, 0);
    self->asked = !isolate_of(L)->gate;
    self->address = address_check(L, ADDRESS, "net.connect");
    self->options = option_check_socket(L, OPTIONS);
    if (!lua_isnil(L, LOCAL_ADDRESS)) {
        self->local = address_check(L, LOCAL_ADDRESS, "net.connect: option local_address");
        self->options.local = &self->local;
    }
    return self;
}

/* connect(address, options, local address or nil) -> stream, or nil and an error */
static int net_connect(lua_State *L)
{
    struct ltask *task = ltask_waiting(L, "net.connect");
    luaL_checktype(L, OPTIONS, LUA_TTABLE);
    lua_settop(L, LOCAL_ADDRESS);
    struct stream_object *self = stream_object_new(L);
    struct connecting *connecting = push_connecting(L);
    connecting->options.open = open_object_options(&self->object);
    connecting->options.open.real = option_check_flag(L, OPTIONS, "real", false);
    lua_settop(L, LOCAL_QUESTION);
    int error = open_object_reserve(&self->object);
    return error ? fail(L, task, error) : connect_on(L, LUA_OK, 0);
}

/* --- Pairs and pipes -------------------------------------------------------------------------- */

static int open_two(lua_State *L, int (*open)(const struct orr_open *, struct orr_stream *[2]), const char *operation)
{
    struct orr_isolate *iso = isolate_of(L);
    lua_settop(L, 0);
    struct stream_object *first = stream_object_new(L), *second = stream_object_new(L);
    struct orr_open options = open_object_options(&first->object);
    struct orr_stream *ends[2];
    int error = open_objects_check(iso, 2);
    if (!error)
        error = VISITED(iso, open(&options, ends));
    if (error)
        return io_error_push(L, &(struct io_failure){ .error = error, .operation = operation });
    stream_object_opened(first, ends[0]);
    stream_object_opened(second, ends[1]);
    return 2;
}

static int open_pair(const struct orr_open *open, struct orr_stream *ends[2])
{
    return orr_pair(open, ends);
}

static int open_pipe(const struct orr_open *open, struct orr_stream *ends[2])
{
    return orr_pipe(open, &ends[0], &ends[1]);
}

static int net_pair(lua_State *L)
{
    return open_two(L, open_pair, "pair");
}

static int net_pipe(lua_State *L)
{
    return open_two(L, open_pipe, "pipe");
}

/* --- Standard streams ------------------------------------------------------------------------- */

/*
 * standard(descriptor) -> stream, or nil and an error.  All scripts of the isolate share it.
 * Closing it leaves the descriptor open.
 */
static int net_standard(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    int descriptor = (int)luaL_checkinteger(L, 1);
    struct stream_object *self = stream_object_new(L);
    open_object_share(&self->object);
    struct orr_descriptor_options options = { .open = open_object_options(&self->object),
                                              .keep = true,
                                              .standard = true };
    struct orr_stream *stream;
    int error = VISITED(iso, orr_stream_open_descriptor(descriptor, &options, &stream));
    if (error)
        return io_error_push(L, &(struct io_failure){
                                    .error = error,
                                    .operation = "open",
                                    .code = error == -EBADF ? "EBADF" : NULL,
                                });
    stream_object_opened(self, stream);
    return 1;
}

/* is_sound(stream) -> whether it is open, and no write to it was cancelled in the middle */
static int is_sound(lua_State *L)
{
    const struct orr_stream *stream = stream_object_check(L, 1)->stream;
    lua_pushboolean(L, orr_stream_is_open(stream) && !orr_stream_written(stream));
    return 1;
}

void connect_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "connect", net_connect }, { "pair", net_pair },       { "pipe", net_pipe }, { "standard", net_standard },
        { "is_sound", is_sound },   { "split", address_split }, { NULL, NULL },
    };
    isolate_register(iso, L, functions);
}
