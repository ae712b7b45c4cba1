#include "io/simulated_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

enum { FIRST_CHOSEN = 49152 }; /* ports from here on are chosen for those that ask for none */

/* --- Addresses -------------------------------------------------------------------------------- */

static struct sockaddr_in *v4_of(const struct orr_address *address)
{
    return (struct sockaddr_in *)address->bytes;
}

static struct sockaddr_in6 *v6_of(const struct orr_address *address)
{
    return (struct sockaddr_in6 *)address->bytes;
}

uint16_t port_number(const struct orr_address *address)
{
    return ntohs(address_family(address) == AF_INET ? v4_of(address)->sin_port : v6_of(address)->sin6_port);
}

void port_set_number(struct orr_address *address, uint16_t port)
{
    if (address_family(address) == AF_INET)
        v4_of(address)->sin_port = htons(port);
    else
        v6_of(address)->sin6_port = htons(port);
}

bool port_is_any(const struct orr_address *address)
{
    if (address_family(address) == AF_INET)
        return v4_of(address)->sin_addr.s_addr == htonl(INADDR_ANY);
    return address_family(address) == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6_of(address)->sin6_addr);
}

bool port_is_group(const struct orr_address *address)
{
    if (address_family(address) == AF_INET)
        return IN_MULTICAST(ntohl(v4_of(address)->sin_addr.s_addr));
    return address_family(address) == AF_INET6 && IN6_IS_ADDR_MULTICAST(&v6_of(address)->sin6_addr);
}

bool port_is_everybody(const struct orr_address *address)
{
    return address_family(address) == AF_INET && v4_of(address)->sin_addr.s_addr == htonl(INADDR_BROADCAST);
}

bool port_has_name(const struct orr_address *address)
{
    return address_family(address) != AF_UNIX || address->length > offsetof(struct sockaddr_un, sun_path);
}

static bool is_loopback(const struct orr_address *address)
{
    if (address_family(address) == AF_INET)
        return ntohl(v4_of(address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&v6_of(address)->sin6_addr);
}

bool port_is_file(const struct orr_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)address->bytes;
    return address->length > offsetof(struct sockaddr_un, sun_path) && un->sun_path[0];
}

bool port_same_host(const struct orr_address *a, const struct orr_address *b)
{
    if (address_family(a) == AF_INET)
        return v4_of(a)->sin_addr.s_addr == v4_of(b)->sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&v6_of(a)->sin6_addr, &v6_of(b)->sin6_addr);
}

static bool same_path(const struct orr_address *a, const struct orr_address *b)
{
    const struct sockaddr_un *left = (const struct sockaddr_un *)a->bytes,
                             *right = (const struct sockaddr_un *)b->bytes;
    if (port_is_file(a) != port_is_file(b))
        return false;
    if (port_is_file(a)) /* the NUL behind a path need not be counted */
        return strncmp(left->sun_path, right->sun_path, sizeof left->sun_path) == 0;
    return a->length == b->length && memcmp(left, right, a->length) == 0;
}

bool port_same(const struct orr_address *a, const struct orr_address *b)
{
    if (address_family(a) != address_family(b))
        return false;
    if (address_family(a) == AF_UNIX)
        return same_path(a, b);
    return port_number(a) == port_number(b) && port_same_host(a, b);
}

/* The address of a host, or its address for itself. */
static void make_address(const struct orr_network_host *host, int family, bool loopback, uint16_t port,
                         struct orr_address *address)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    if (family == AF_INET) {
        in.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : UINT32_C(10) << 24 | host->number);
        address_from_kernel(address, (const struct sockaddr *)&in, sizeof in);
        return;
    }
    uint8_t *bytes = in6.sin6_addr.s6_addr;
    bytes[0] = loopback ? 0 : 0xfd;
    bytes[14] = loopback ? 0 : (uint8_t)(host->number >> 8);
    bytes[15] = loopback ? 1 : (uint8_t)host->number;
    address_from_kernel(address, (const struct sockaddr *)&in6, sizeof in6);
}

struct orr_network_host *port_owner(const struct orr_network_host *from, const struct orr_address *address)
{
    struct orr_network_host *itself = (struct orr_network_host *)from;
    if (address_family(address) == AF_UNIX || port_is_any(address) || is_loopback(address) || port_is_group(address))
        return itself;
    if (address_family(address) == AF_INET) {
        uint32_t ip = ntohl(v4_of(address)->sin_addr.s_addr);
        return ip >> 16 == 10 << 8 ? network_host_numbered(from->network, ip & 0xffff) : NULL;
    }
    const uint8_t *bytes = v6_of(address)->sin6_addr.s6_addr;
    struct orr_address whole;
    unsigned number = (unsigned)bytes[14] << 8 | bytes[15];
    struct orr_network_host *owner = network_host_numbered(from->network, number);
    if (!owner)
        return NULL;
    make_address(owner, AF_INET6, false, 0, &whole);
    return port_same_host(&whole, address) ? owner : NULL;
}

int port_check_own(const struct orr_network_host *host, const struct orr_address *address)
{
    return port_owner(host, address) == host ? 0 : -EADDRNOTAVAIL;
}

static uint16_t next_port(struct orr_network_host *host)
{
    host->last_port = host->last_port >= FIRST_CHOSEN && host->last_port < UINT16_MAX ? host->last_port + 1
                                                                                      : FIRST_CHOSEN;
    return host->last_port;
}

void port_towards(const struct orr_network_host *from, const struct orr_address *peer, uint16_t port,
                  struct orr_address *local)
{
    int family = address_family(peer);
    if (family == AF_UNIX)
        address_from_kernel(local, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t));
    else
        make_address(from, family, port_is_any(peer) || is_loopback(peer), port, local);
}

void port_choose(struct orr_network_host *from, const struct orr_address *peer, struct orr_address *local)
{
    port_towards(from, peer, address_family(peer) == AF_UNIX ? 0 : next_port(from), local);
}

int orr_network_lookup(const struct orr_network_host *from, const char *name, uint16_t port, int family,
                       struct orr_address *address)
{
    if (!from || !name || !address)
        return -EINVAL;
    if (from->network->opened.worker != worker_current)
        return -EPERM;
    family = family == AF_UNSPEC ? AF_INET : family;
    if (family != AF_INET && family != AF_INET6)
        return -EAFNOSUPPORT;
    bool itself = strcasecmp(name, "localhost") == 0;
    const struct orr_network_host *host = itself ? from : network_host_named(from->network, name);
    if (!host)
        return -ENOENT;
    make_address(host, family, itself, port, address);
    return 0;
}

/* --- Bindings --------------------------------------------------------------------------------- */

/* Whether a binding gets what is sent to an address of its host: that one exactly, or any. */
static bool gets(const struct binding *binding, const struct orr_address *address, bool exactly)
{
    int family = address_family(&binding->address);
    if (exactly || family == AF_UNIX)
        return exactly && port_same(&binding->address, address);
    if (!port_is_any(&binding->address) || address_family(address) == AF_UNIX ||
        port_number(&binding->address) != port_number(address))
        return false;
    return family == address_family(address) || (family == AF_INET6 && !binding->v6_only);
}

static bool collide(const struct binding *a, const struct binding *b)
{
    if (a->sort != b->sort || (a->shared && b->shared))
        return false;
    return gets(a, &b->address, true) || gets(a, &b->address, false) || gets(b, &a->address, false);
}

static bool is_free(const struct orr_network_host *host, const struct binding *wanted)
{
    for (struct orr_link *link = host->bindings.next; link != &host->bindings; link = link->next)
        if (collide(container_of(link, struct binding, in_host), wanted))
            return false;
    return true;
}

/* Chooses a port for a binding without one. */
static int choose_port(struct binding *binding, struct orr_network_host *host)
{
    for (int i = FIRST_CHOSEN; i <= UINT16_MAX; i++) {
        port_set_number(&binding->address, next_port(host));
        if (is_free(host, binding))
            return 0;
    }
    return -EADDRINUSE;
}

int binding_make(struct binding *binding, struct orr_network_host *host, const struct orr_address *address)
{
    int error = port_check_own(host, address);
    if (error)
        return error;
    binding->address = *address;
    if (address_family(address) != AF_UNIX && !port_number(address))
        error = choose_port(binding, host);
    else if (!is_free(host, binding))
        error = -EADDRINUSE;
    if (!error)
        list_append(&host->bindings, &binding->in_host);
    return error;
}

void binding_end(struct binding *binding)
{
    if (binding->in_host.next)
        list_remove(&binding->in_host);
}

struct binding *binding_find(const struct orr_network_host *host, enum binding_sort sort,
                             const struct orr_address *address, const struct binding *after)
{
    for (int exactly = 1; exactly >= 0; exactly--) {
        bool passed = !after;
        for (struct orr_link *link = host->bindings.next; link != &host->bindings; link = link->next) {
            struct binding *binding = container_of(link, struct binding, in_host);
            if (passed && binding->sort == sort && gets(binding, address, exactly))
                return binding;
            passed = passed || binding == after;
        }
        if (after && gets(after, address, exactly))
            return NULL;
    }
    return NULL;
}
