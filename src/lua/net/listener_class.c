#include "lua/net/listener_class.h"

#include "base/list.h"
#include "lua/api/primitive.h"
#include "lua/net/address_argument.h"
#include "lua/net/permission.h"
#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <stdio.h>

struct listener_object {
    struct open_object object;
    struct orr_listener *listener; /* NULL until it is opened, and when the isolate has ended */
};

/* --- The life of an object -------------------------------------------------------------------- */

static struct listener_object *listener_of(const struct open_object *object)
{
    return container_of(object, struct listener_object, object);
}

static void describe(const struct open_object *object, char *text, size_t size)
{
    struct orr_address address;
    int error = orr_listener_address(listener_of(object)->listener, &address);
    if (error || orr_address_print(&address, text, size) < 0)
        snprintf(text, size, "closed");
}

static void close_listener(struct open_object *object)
{
    orr_listener_close(listener_of(object)->listener);
    open_object_closed(object);
}

static void free_listener(struct open_object *object)
{
    orr_listener_free(listener_of(object)->listener);
    listener_of(object)->listener = NULL;
}

static const struct open_class of_listeners = {
    .kind = "listener", .describe = describe, .close = close_listener, .free = free_listener
};

static struct listener_object *check_self(lua_State *L)
{
    return luaL_checkudata(L, 1, LISTENER_CLASS);
}

static int listener_close(lua_State *L)
{
    struct listener_object *self = check_self(L);
    if (self->listener && !isolate_visit(isolate_of(L))) {
        close_listener(&self->object);
        isolate_leave(isolate_of(L));
    }
    return 0;
}

static int listener_gc(lua_State *L)
{
    struct listener_object *self = lua_touserdata(L, 1);
    return open_object_finalize(L, LISTENER_CLASS, &self->object);
}

static int listen_failed(lua_State *L, int error, const char *message)
{
    struct io_failure failure = {
        .error = error, .operation = "listen", .address = lua_tostring(L, 1), .message = message
    };
    return io_error_end(L, execution_task(&isolate_of(L)->execution), &failure);
}

/* Listens, once the host was asked.  Returns the listener, or nil and an error. */
static int open_listener(lua_State *L, const struct gate_request *request, struct orr_listen_options *options)
{
    struct orr_isolate *iso = isolate_of(L);
    char text[GATE_TEXT];
    struct listener_object *self = primitive_new(L, LISTENER_CLASS, sizeof *self, 0);
    bool real = options->socket.open.real;
    open_object_init(&self->object, iso, &of_listeners, L);
    options->socket.open = open_object_options(&self->object);
    options->socket.open.real = real;
    struct orr_listener *listener;
    int error = open_objects_check(iso, 1);
    if (!error)
        error = VISITED(iso, orr_listen(request->address, options, &listener));
    if (error)
        return listen_failed(L, error, permission_message(iso, error, request, text));
    self->listener = listener;
    open_object_opened(&self->object);
    return 1;
}

/* [address] [options] [question]: begins from its start again when the host has answered. */
static int listen_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct orr_address address = address_check(L, 1, "net.listen");
    luaL_checktype(L, 2, LUA_TTABLE);
    struct orr_listen_options options = {
        .socket = option_check_socket(L, 2),
        .backlog = (int)option_check_number(L, 2, "backlog", OPTION_MOST),
        .reuse_port = option_check_flag(L, 2, "reuse_port", false),
        .v6_only = option_check_flag(L, 2, "v6_only", false),
    };
    options.socket.open.real = option_check_flag(L, 2, "real", false);
    struct gate_request request = { .use = GATE_LISTEN, .address = &address, .shared = options.reuse_port };
    int error = permission_ask(L, 3, "net.listen", &request);
    if (error == -EAGAIN)
        return suspend(L, listen_on, context);
    return error ? listen_failed(L, error, NULL) : open_listener(L, &request, &options);
}

/* listen(address, options) -> listener, or nil and an error */
static int net_listen(lua_State *L)
{
    lua_settop(L, 2);
    lua_settop(L, 3);
    return listen_on(L, LUA_OK, 0);
}

/* --- Methods ---------------------------------------------------------------------------------- */

static int listener_address(lua_State *L)
{
    struct listener_object *self = check_self(L);
    struct orr_address address;
    int error = VISITED(isolate_of(L), orr_listener_address(self->listener, &address));
    if (error)
        return io_error_push(L,
                             &(struct io_failure){ .error = self->listener ? error : -EBADF, .operation = "address" });
    address_push(L, &address);
    return 1;
}

static int listener_is_open(lua_State *L)
{
    struct orr_address address;
    lua_pushboolean(L, !VISITED(isolate_of(L), orr_listener_address(check_self(L)->listener, &address)));
    return 1;
}

static int fail(lua_State *L, struct ltask *task, const struct listener_object *self, int error)
{
    struct orr_address address;
    bool known = !orr_listener_address(self->listener, &address);
    if (known)
        address_push(L, &address);
    struct io_failure failure = {
        .error = self->listener ? error : -EBADF,
        .operation = "accept",
        .address = known ? lua_tostring(L, -1) : NULL,
    };
    return io_error_end(L, task, &failure);
}

/* [listener] [stream] */
static int accept_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "listener:accept");
    struct listener_object *self = lua_touserdata(L, 1);
    struct stream_object *accepted = lua_touserdata(L, 2);
    struct orr_open options = open_object_options(&accepted->object);
    struct orr_stream *stream;
    int error = open_objects_check(isolate_of(L), 1);
    if (error) {
        orr_wait_withdraw(&task->wait); /* the connection stays in the kernel's backlog */
        int interruption = orr_checkpoint(task->task);
        return fail(L, task, self, interruption ? interruption : error);
    }
    error = orr_accept(task->task, &task->wait, self->listener, &options, &stream);
    if (error == -EAGAIN)
        return suspend(L, accept_on, context);
    if (error)
        return fail(L, task, self, error);
    stream_object_opened(accepted, stream);
    return 1;
}

static int listener_accept(lua_State *L)
{
    check_self(L);
    ltask_waiting(L, "listener:accept");
    lua_settop(L, 1);
    stream_object_new(L);
    return accept_on(L, LUA_OK, 0);
}

static int listener_tostring(lua_State *L)
{
    char text[ORR_ADDRESS_TEXT];
    describe(&check_self(L)->object, text, sizeof text);
    lua_pushfstring(L, "listener (%s)", text);
    return 1;
}

void listener_class_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "accept", listener_accept },       { "address", listener_address },
        { "close", listener_close },         { "is_open", listener_is_open },
        { "__close", listener_close },       { "__gc", listener_gc },
        { "__tostring", listener_tostring }, { NULL, NULL },
    };
    static const luaL_Reg functions[] = { { "listen", net_listen }, { "accept", listener_accept }, { NULL, NULL } };
    isolate_class(iso, L, LISTENER_CLASS, methods);
    isolate_register(iso, L, functions);
}
