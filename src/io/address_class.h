/*
 * IP addresses in one form, however they were written, and which of them lead to special places.
 *
 * The form is 16 bytes, with IPv4 as ::ffff:a.b.c.d.  An IPv6 address that a gateway, a tunnel or
 * this machine would take as an IPv4 address is that IPv4 address: ::ffff:a.b.c.d (mapped),
 * ::a.b.c.d (compatible), ::ffff:0:a.b.c.d (translated), 64:ff9b::a.b.c.d (NAT64), 2002:a:b::
 * (6to4).  What a NAT64 of another prefix does with an address cannot be known.
 *
 * Nothing here looks at the machine's own addresses.  Any thread; never allocates.
 */
#ifndef ORR_IO_ADDRESS_CLASS_H
#define ORR_IO_ADDRESS_CLASS_H

#include "io/address.h"

struct ip {
    uint8_t bytes[16];
};

enum { IP_BITS = 128, IP_V4_BITS = 96 }; /* the bits of an address, and those before an IPv4 one */

/* Stores the IP address of a sound address; false if it is a path. */
bool ip_of_address(const struct orr_address *address, struct ip *ip);

/* The port of a sound address that is not a path. */
uint16_t ip_port(const struct orr_address *address);
void ip_set_port(struct orr_address *address, uint16_t port);

/*
 * What a connection to an address reaches: 0.0.0.0 and :: are this machine, so they become
 * 127.0.0.1 and ::1.
 */
struct ip ip_as_target(struct ip ip);

bool ip_is_v4(const struct ip *ip);
bool ip_is_any(const struct ip *ip); /* 0.0.0.0 or :: */

/* Whether the first `bits` bits of two addresses are the same. */
bool ip_same_prefix(const struct ip *a, const struct ip *b, unsigned bits);

/*
 * Brings a network into the form above, if all of its addresses are IPv4 addresses there.  `*bits`
 * is the length of its prefix.
 */
void ip_normalise_network(struct ip *ip, unsigned *bits);

/* A range of addresses that lead to special places. */
struct address_class {
    const char *name; /* "loopback", "private", ...: for people */
    unsigned bits;    /* of its prefix */
    bool of_groups;   /* addresses of many receivers: multicast and broadcast */
    struct ip prefix;
};

/* The smallest special range that has an address; NULL for all other addresses. */
const struct address_class *address_class_of(const struct ip *ip);

/* Writes "1.2.3.4:80" or "[::1]:80"; `size` ORR_ADDRESS_TEXT is always enough. */
void ip_print(const struct ip *ip, uint16_t port, char *text, size_t size);

#endif
