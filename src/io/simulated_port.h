/*
 * Addresses in a simulated network: which host has one, and what is bound to one.
 *
 * A binding is an address of a host that a listener or a datagram socket has.  Connections are not
 * bound.  A path belongs to its host, and is not made in the file system.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_SIMULATED_PORT_H
#define ORR_IO_SIMULATED_PORT_H

#include "io/address.h"
#include "io/simulated_network.h"

enum binding_sort {
    BINDING_STREAMS,
    BINDING_DATAGRAMS,
};

struct binding {
    struct orr_link in_host;
    struct orr_address address;
    enum binding_sort sort;
    bool shared;  /* others may bind the same address, if they say so, too */
    bool v6_only; /* [::] is not 0.0.0.0, too */
};

/*
 * Binds a host's address, in zeroed memory with the three last fields set; port 0 becomes one that
 * is free.  -EADDRNOTAVAIL, -EADDRINUSE.
 */
int binding_make(struct binding *binding, struct orr_network_host *host, const struct orr_address *address);

/* Does nothing if it is not bound. */
void binding_end(struct binding *binding);

/*
 * What gets something that is sent to an address of this host; NULL for nothing.  An exact address
 * comes before 0.0.0.0 and [::].  `after` is NULL, or the last answer: then the next one.
 */
struct binding *binding_find(const struct orr_network_host *host, enum binding_sort sort,
                             const struct orr_address *address, const struct binding *after);

/* The host that an address leads to, as seen from `from`; NULL for none. */
struct orr_network_host *port_owner(const struct orr_network_host *from, const struct orr_address *address);

/* The address that `from` has towards a peer; with a port that was not chosen recently. */
void port_towards(const struct orr_network_host *from, const struct orr_address *peer, uint16_t port,
                  struct orr_address *local);
void port_choose(struct orr_network_host *from, const struct orr_address *peer, struct orr_address *local);

/* Whether `host` may use an address as its own: 0, -EADDRNOTAVAIL. */
int port_check_own(const struct orr_network_host *host, const struct orr_address *address);

/* Whether two addresses are the same. */
bool port_same(const struct orr_address *a, const struct orr_address *b);

/* Whether two addresses of one family that are not paths are alike but for their ports. */
bool port_same_host(const struct orr_address *a, const struct orr_address *b);

/* Whether an address is that of a multicast group; of everybody (255.255.255.255). */
bool port_is_group(const struct orr_address *address);
bool port_is_everybody(const struct orr_address *address);

/* Whether somebody else can send to it: false for a path without a name. */
bool port_has_name(const struct orr_address *address);

/* Whether an address is 0.0.0.0 or [::]. */
bool port_is_any(const struct orr_address *address);

/* The port of an address that is not a path. */
uint16_t port_number(const struct orr_address *address);

/* Replaces the port. */
void port_set_number(struct orr_address *address, uint16_t port);

/* Whether an address is a name of the file system, and not an abstract one. */
bool port_is_file(const struct orr_address *address);

#endif
