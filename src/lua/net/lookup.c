/*
 * A lookup belongs to a userdata on the stack of the task that waits.  A task that ends its wait
 * gives the lookup up at once; the collector does that for a task that was dropped.
 *
 * The isolate's place at the resolver is a userdata, too, and an upvalue of lookup().
 */
#include "lua/net/lookup.h"

#include "io/resolve.h"
#include "lua/api/primitive.h"
#include "lua/net/address_argument.h"
#include "lua/net/io_error.h"
#include "lua/net/permission.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define LOOKUP_CLASS "orrery.lookup"
#define CLIENT_CLASS "orrery.lookup_client"

#define TOO_MANY "the script has too many lookups under way; wait for some of them"

/* --- Lookups ---------------------------------------------------------------------------------- */

struct lookup_object {
    struct lookup *lookup;
};

/* 0, or the error of isolate_visit(): then the object still has its lookup. */
static int give_up(lua_State *L, struct lookup_object *self)
{
    int error = self->lookup ? isolate_visit(isolate_of(L)) : 0;
    if (error || !self->lookup)
        return error;
    lookup_abandon(self->lookup);
    self->lookup = NULL;
    isolate_leave(isolate_of(L));
    return 0;
}

static int lookup_gc(lua_State *L)
{
    return primitive_ended(L, LOOKUP_CLASS, give_up(L, lua_touserdata(L, 1)));
}

/* The names of errors, as in <netdb.h>. */
static const char *name_of(int error)
{
    switch (error) {
    case EAI_NONAME:
        return "the name is not known";
    case EAI_AGAIN:
        return "no name server answers; try again later";
    default:
        return gai_strerror(error);
    }
}

/* An errno that says as much. */
static int errno_of(const struct resolve_answer *answer)
{
    switch (answer->error) {
    case EAI_SYSTEM:
        return -answer->system_error;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    default:
        return -ENOENT;
    }
}

static socklen_t length_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static struct orr_address address_at(const struct resolve_answer *answer, unsigned i)
{
    struct orr_address address = { .length = length_of(&answer->addresses[i]) };
    memcpy(address.bytes, &answer->addresses[i], address.length);
    return address;
}

static int push_addresses(lua_State *L, const struct resolve_answer *answer)
{
    lua_createtable(L, (int)answer->count, 0);
    for (unsigned i = 0; i < answer->count; i++) {
        struct orr_address address = address_at(answer, i);
        char text[ORR_ADDRESS_TEXT];
        int length = orr_address_print(&address, text, sizeof text);
        if (length < 0)
            continue;
        lua_pushlstring(L, text, (size_t)length);
        lua_rawseti(L, -2, luaL_len(L, -2) + 1);
    }
    return 1;
}

/* Lets the gate know what a name led to.  -ENOMEM. */
static int note_addresses(const struct orr_isolate *iso, const char *host, const struct resolve_answer *answer)
{
    int error = 0;
    for (unsigned i = 0; i < answer->count && !error; i++) {
        struct orr_address address = address_at(answer, i);
        error = gate_note(iso->gate, host, &address, false);
    }
    return error;
}

/* [host] [port] [lookup] */
static int look_up(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct ltask *task = ltask_current(L, "net.lookup");
    struct lookup_object *self = lua_touserdata(L, 3);
    struct io_failure failure = { .operation = "lookup", .address = lua_tostring(L, 1) };
    failure.error = orr_future_wait(task->task, &task->wait, lookup_future(self->lookup));
    if (failure.error == -EAGAIN)
        return suspend(L, look_up, context);
    const struct resolve_answer *answer = failure.error ? NULL : lookup_answer(self->lookup);
    if (!failure.error && !answer)
        failure.error = -ENOMEM;
    if (answer && !answer->error)
        failure.error = note_addresses(isolate_of(L), failure.address, answer);
    if (answer && !answer->error && !failure.error) {
        int results = push_addresses(L, answer);
        give_up(L, self);
        return results;
    }
    if (answer && answer->error) {
        failure.error = errno_of(answer);
        failure.message = name_of(answer->error);
    }
    give_up(L, self);
    return io_error_end(L, task, &failure);
}

/* --- The isolate's place ---------------------------------------------------------------------- */

struct client_object {
    struct blocking_client *client; /* NULL before the first lookup */
};

static int client_gc(lua_State *L)
{
    struct client_object *self = lua_touserdata(L, 1);
    resolve_client_free(self->client);
    self->client = NULL;
    return 0;
}

/* The client of the running function, whose second upvalue it is; NULL without memory. */
static struct blocking_client *get_client(lua_State *L)
{
    struct client_object *self = lua_touserdata(L, lua_upvalueindex(2));
    if (!self->client)
        self->client = resolve_client_new();
    return self->client;
}

/* Asks a simulated network. */
static int look_up_simulated(lua_State *L, const struct orr_network_host *here, const char *host, uint16_t port)
{
    struct orr_address address;
    int error = orr_network_lookup(here, host, port, AF_INET, &address);
    if (!error && gate_note(isolate_of(L)->gate, host, &address, true))
        return luaL_error(L, "not enough memory");
    if (error)
        return io_error_push(
            L, &(struct io_failure){ .error = error,
                                     .operation = "lookup",
                                     .address = host,
                                     .message = "no host of the simulated network has this name; " SIMULATED_HINT });
    lua_createtable(L, 1, 0);
    address_push(L, &address);
    lua_rawseti(L, -2, 1);
    return 1;
}

/* Begins a lookup that is granted: [host] [port]. */
static int begin(lua_State *L, const char *host, uint16_t port)
{
    lua_settop(L, 2);
    struct lookup_object *self = primitive_new(L, LOOKUP_CLASS, sizeof *self, 0);
    struct blocking_client *client = get_client(L);
    int error = client ? 0 : -ENOMEM;
    if (!error)
        error = resolve_start(isolate_of(L)->rt, client, host, port, AF_UNSPEC, &self->lookup);
    if (error)
        return io_error_push(L, &(struct io_failure){
                                    .error = error,
                                    .operation = "lookup",
                                    .address = host,
                                    .message = error == -ENOBUFS ? TOO_MANY : NULL,
                                });
    return look_up(L, LUA_OK, 0);
}

static int refuse(lua_State *L, const char *host, uint16_t port)
{
    char text[GATE_TEXT];
    gate_explain_lookup(host, port, text);
    return io_error_push(
        L, &(struct io_failure){ .error = -EACCES, .operation = "lookup", .address = host, .message = text });
}

/* [host] [port] [real] [question] */
static int lookup_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    const char *host = luaL_checkstring(L, 1);
    uint16_t port = (uint16_t)luaL_checkinteger(L, 2);
    int error = permission_ask_lookup(L, 4, "net.lookup", host, port);
    if (error == -EAGAIN)
        return suspend(L, lookup_on, context);
    if (error)
        return io_error_end(L, ltask_current(L, "net.lookup"),
                            &(struct io_failure){ .error = error, .operation = "lookup", .address = host });
    if (!gate_grants_lookup(isolate_of(L)->gate, host))
        return refuse(L, host, port);
    struct orr_network_host *here = NULL;
    error = orr_network_here(&(struct orr_open){ .real = lua_toboolean(L, 3) }, &here);
    return !error && here ? look_up_simulated(L, here, host, port) : begin(L, host, port);
}

/* lookup(host, port, real) -> list of addresses, or nil and an error */
static int net_lookup(lua_State *L)
{
    ltask_waiting(L, "net.lookup");
    lua_settop(L, 3);
    lua_settop(L, 4);
    return lookup_on(L, LUA_OK, 0);
}

void lookup_open(struct orr_isolate *iso, lua_State *L)
{
    static const luaL_Reg of_lookups[] = { { "__gc", lookup_gc }, { NULL, NULL } };
    static const luaL_Reg of_clients[] = { { "__gc", client_gc }, { NULL, NULL } };
    isolate_class(iso, L, LOOKUP_CLASS, of_lookups);
    isolate_class(iso, L, CLIENT_CLASS, of_clients);
    lua_pushlightuserdata(L, iso);
    struct client_object *client = lua_newuserdatauv(L, sizeof *client, 0);
    client->client = NULL;
    luaL_setmetatable(L, CLIENT_CLASS);
    lua_pushcclosure(L, net_lookup, 2);
    lua_setfield(L, -2, "lookup");
}
