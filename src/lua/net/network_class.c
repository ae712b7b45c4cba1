#include "lua/net/network_class.h"

#include "base/list.h"
#include "lua/api/duration.h"
#include "lua/api/option_table.h"
#include "lua/api/primitive.h"
#include "lua/isolate/embedded.h"
#include "lua/isolate/late.h"
#include "lua/net/address_argument.h"
#include "lua/net/io_error.h"
#include "lua/net/stream_object.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <string.h>

#define NETWORK_CLASS "orrery.network"

struct network_object {
    struct open_object object;
    struct orr_network *network; /* NULL when it has ended */
};

/* --- The life of an object -------------------------------------------------------------------- */

static struct network_object *network_of(const struct open_object *object)
{
    return container_of(object, struct network_object, object);
}

static void end_network(struct open_object *object)
{
    orr_network_free(network_of(object)->network);
    network_of(object)->network = NULL;
    open_object_closed(object);
}

static const struct open_class of_networks = { .close = end_network, .free = end_network };

static struct network_object *check_self(lua_State *L)
{
    return luaL_checkudata(L, 1, NETWORK_CLASS);
}

static struct orr_network *check_network(lua_State *L)
{
    struct orr_network *network = check_self(L)->network;
    if (!network)
        argument_raise(L, "this network has ended: its test is over, or it was closed");
    return network;
}

static int network_close(lua_State *L)
{
    struct network_object *self = check_self(L);
    if (self->network && !isolate_visit(isolate_of(L))) {
        end_network(&self->object);
        isolate_leave(isolate_of(L));
    }
    return 0;
}

static int network_gc(lua_State *L)
{
    struct network_object *self = lua_touserdata(L, 1);
    return open_object_finalize(L, NETWORK_CLASS, &self->object);
}

/* --- Options ---------------------------------------------------------------------------------- */

static double check_amount(lua_State *L, const char *name, double most, const char *expected)
{
    double value = 0;
    if (lua_getfield(L, 1, name) != LUA_TNIL) {
        value = lua_tonumber(L, -1);
        if (lua_type(L, -1) != LUA_TNUMBER || !(value >= 0 && value <= most))
            argument_raise(L, "testing.network: option %s is %s, expected %s", name, luaL_tolstring(L, -1, NULL),
                           expected);
    }
    lua_pop(L, 1);
    return value;
}

static double check_probability(lua_State *L, const char *name)
{
    return check_amount(L, name, 1, "a probability from 0 to 1");
}

static uint64_t check_ms(lua_State *L, const char *name)
{
    return (uint64_t)(check_amount(L, name, 1e9, "milliseconds, from 0") * 1e6);
}

static uint64_t check_whole(lua_State *L, const char *name)
{
    return (uint64_t)check_amount(L, name, 1e15, "a number from 0");
}

static struct orr_network_options check_options(lua_State *L)
{
    static const char *const known[] = { "seed",         "latency", "jitter", "bandwidth", "short_reads",
                                         "short_writes", "resets",  "loss",   "window",    NULL };
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    option_table_check(L, 1, "testing.network", known);
    return (struct orr_network_options){
        .seed = check_whole(L, "seed"),
        .latency = check_ms(L, "latency"),
        .jitter = check_ms(L, "jitter"),
        .bandwidth = check_whole(L, "bandwidth"),
        .short_reads = check_probability(L, "short_reads"),
        .short_writes = check_probability(L, "short_writes"),
        .resets = check_probability(L, "resets"),
        .loss = check_probability(L, "loss"),
        .window = (size_t)check_whole(L, "window"),
    };
}

/* Makes a network, which the worker uses from now on. */
static int make(const struct orr_network_options *options, struct orr_network **network)
{
    int error = orr_network_new(options, network);
    return error ? error : orr_network_use(*network);
}

/* network([options]) -> network */
static int testing_network(lua_State *L)
{
    struct orr_isolate *iso = isolate_of(L);
    struct orr_network_options options = check_options(L);
    struct network_object *self = primitive_new(L, NETWORK_CLASS, sizeof *self, 0);
    open_object_init(&self->object, iso, &of_networks, L);
    options.open = open_object_options(&self->object);
    int error = VISITED(iso, make(&options, &self->network));
    if (error)
        return primitive_raise(L, "testing.network", error);
    open_object_opened(&self->object);
    return 1;
}

/* --- Methods ---------------------------------------------------------------------------------- */

/* The host that is named at an index. */
static struct orr_network_host *check_host(lua_State *L, int index, const char *what)
{
    struct orr_network *network = check_network(L);
    if (lua_type(L, index) != LUA_TSTRING)
        argument_raise(L, "%s: expected the name of a host, got %s", what, luaL_typename(L, index));
    struct orr_network_host *host = NULL;
    int error = VISITED(isolate_of(L), orr_network_host(network, lua_tostring(L, index), &host));
    if (error == -EINVAL)
        argument_raise(L, "%s: \"%s\" cannot be the name of a host%s", what, lua_tostring(L, index),
                       strcmp(lua_tostring(L, index), "localhost") ? "" : ": it is each host's name for itself");
    if (error)
        primitive_raise(L, what, error);
    return host;
}

/* place(network, name): the running task, and those below it, are on this host from now on. */
static int place(lua_State *L)
{
    struct ltask *task = ltask_current(L, "network:host");
    int error = orr_network_place(task->task, check_host(L, 2, "network:host"));
    return error ? primitive_raise(L, "network:host", error) : 0;
}

/* partition(a, [b]) */
static int network_partition(lua_State *L)
{
    struct orr_network_host *a = check_host(L, 2, "network:partition"), *b = NULL;
    if (!lua_isnoneornil(L, 3))
        b = check_host(L, 3, "network:partition");
    int error = VISITED(isolate_of(L), orr_network_partition(a, b));
    if (error == -EINVAL)
        argument_raise(L, "network:partition: expected two hosts, got \"%s\" twice", lua_tostring(L, 2));
    if (error)
        return primitive_raise(L, "network:partition", error);
    lua_settop(L, 1);
    return 1;
}

static int network_heal(lua_State *L)
{
    int error = VISITED(isolate_of(L), orr_network_heal(check_network(L)));
    if (error)
        return primitive_raise(L, "network:heal", error);
    lua_settop(L, 1);
    return 1;
}

/* reset(stream) */
static int network_reset(lua_State *L)
{
    check_network(L);
    struct stream_object *stream = stream_object_check(L, 2);
    int error = VISITED(isolate_of(L), orr_network_reset(stream->stream));
    if (error == -ENOTSUP)
        argument_raise(L, "network:reset: expected a TCP connection of a simulated network, got %s",
                       luaL_tolstring(L, 2, NULL));
    if (error && error != -EBADF)
        return primitive_raise(L, "network:reset", error);
    lua_settop(L, 1);
    return 1;
}

/* Runs lua/testing_network.lua with the module `orrery`, the methods, and place(). */
static void run_lua_part(struct orr_isolate *iso, lua_State *L)
{
    late_push(L, &embedded_testing_network);
    lua_pushvalue(L, -3);
    isolate_push_methods(L, NETWORK_CLASS);
    lua_pushlightuserdata(L, iso);
    lua_pushcclosure(L, place, 1);
    lua_call(L, 3, 0);
}

void network_class_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg methods[] = {
        { "partition", network_partition },
        { "heal", network_heal },
        { "reset", network_reset },
        { "close", network_close },
        { "__close", network_close },
        { "__gc", network_gc },
        { NULL, NULL },
    };
    static const luaL_Reg functions[] = { { "network", testing_network }, { NULL, NULL } };
    isolate_class(iso, L, NETWORK_CLASS, methods);
    lua_getfield(L, -1, "testing");
    isolate_register(iso, L, functions);
    run_lua_part(iso, L);
    lua_pop(L, 1);
}
