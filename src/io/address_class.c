#include "io/address_class.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

/* --- One form --------------------------------------------------------------------------------- */

#define V4_PREFIX 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff

static const struct ip v4_prefix = { { V4_PREFIX } };

/* Prefixes behind which an IPv4 address begins. */
static const struct embedding {
    struct ip prefix;
    unsigned bits;
} embeddings[] = {
    { { { V4_PREFIX } }, 96 },                                   /* mapped */
    { { { 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0 } }, 96 },    /* translated */
    { { { 0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0 } }, 96 }, /* NAT64 */
    { { { 0x20, 0x02 } }, 16 },                                  /* 6to4 */
    { { { 0 } }, 96 },                                           /* compatible */
};

enum { EMBEDDINGS = sizeof embeddings / sizeof *embeddings };

bool ip_same_prefix(const struct ip *a, const struct ip *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(a->bytes, b->bytes, whole) != 0)
        return false;
    return !rest || !((a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest));
}

static struct ip from_v4(const uint8_t *bytes)
{
    struct ip ip = v4_prefix;
    memcpy(&ip.bytes[12], bytes, 4);
    return ip;
}

/* Whether an address is :: or ::1, which are no IPv4 addresses. */
static bool is_any_or_loopback(const struct ip *ip)
{
    static const struct ip any;
    return ip_same_prefix(ip, &any, IP_BITS - 1);
}

/* The embedding of a network; NULL for none. */
static const struct embedding *embedding_of(const struct ip *ip, unsigned bits)
{
    if (is_any_or_loopback(ip))
        return NULL;
    for (int i = 0; i < EMBEDDINGS; i++)
        if (bits >= embeddings[i].bits && ip_same_prefix(ip, &embeddings[i].prefix, embeddings[i].bits))
            return &embeddings[i];
    return NULL;
}

void ip_normalise_network(struct ip *ip, unsigned *bits)
{
    const struct embedding *embedding = embedding_of(ip, *bits);
    if (!embedding)
        return;
    unsigned known = *bits - embedding->bits; /* of the IPv4 address */
    *ip = from_v4(&ip->bytes[embedding->bits / 8]);
    *bits = IP_V4_BITS + (known < 32 ? known : 32);
}

bool ip_of_address(const struct orr_address *address, struct ip *ip)
{
    const void *kernel = address_kernel(address);
    unsigned bits = IP_BITS;
    if (address_family(address) == AF_INET) {
        uint8_t bytes[4];
        memcpy(bytes, &((const struct sockaddr_in *)kernel)->sin_addr, sizeof bytes);
        *ip = from_v4(bytes);
        return true;
    }
    if (address_family(address) != AF_INET6)
        return false;
    memcpy(ip->bytes, &((const struct sockaddr_in6 *)kernel)->sin6_addr, sizeof ip->bytes);
    ip_normalise_network(ip, &bits);
    return true;
}

uint16_t ip_port(const struct orr_address *address)
{
    const void *kernel = address_kernel(address);
    return ntohs(address_family(address) == AF_INET ? ((const struct sockaddr_in *)kernel)->sin_port
                                                    : ((const struct sockaddr_in6 *)kernel)->sin6_port);
}

bool ip_is_v4(const struct ip *ip)
{
    return ip_same_prefix(ip, &v4_prefix, IP_V4_BITS);
}

bool ip_is_any(const struct ip *ip)
{
    static const struct ip any;
    return ip_same_prefix(ip, &any, IP_BITS) || ip_same_prefix(ip, &v4_prefix, IP_BITS);
}

struct ip ip_as_target(struct ip ip)
{
    static const struct ip loopback = { { [15] = 1 } }, loopback_v4 = { { V4_PREFIX, 127, 0, 0, 1 } };
    if (!ip_is_any(&ip))
        return ip;
    return ip_is_v4(&ip) ? loopback_v4 : loopback;
}

void ip_set_port(struct orr_address *address, uint16_t port)
{
    void *kernel = address->bytes;
    if (address_family(address) == AF_INET)
        ((struct sockaddr_in *)kernel)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)kernel)->sin6_port = htons(port);
}

void ip_print(const struct ip *ip, uint16_t port, char *text, size_t size)
{
    char digits[INET6_ADDRSTRLEN];
    bool v4 = ip_is_v4(ip);
    inet_ntop(v4 ? AF_INET : AF_INET6, &ip->bytes[v4 ? 12 : 0], digits, sizeof digits);
    snprintf(text, size, v4 ? "%s:%u" : "[%s]:%u", digits, port);
}

/* --- Special places --------------------------------------------------------------------------- */

#define V4(name_, bits_, groups, ...) \
    { \
        .name = (name_), .bits = IP_V4_BITS + (bits_), .of_groups = (groups), .prefix = { { V4_PREFIX, __VA_ARGS__ } } \
    }
#define V6(name_, bits_, groups, ...) \
    { \
        .name = (name_), .bits = (bits_), .of_groups = (groups), .prefix = { { __VA_ARGS__ } } \
    }

/* A range comes before the larger ones that it is in. */
static const struct address_class classes[] = {
    V4("broadcast", 32, true, 255, 255, 255, 255),
    V4("loopback", 8, false, 127),
    V4("private", 8, false, 10),
    V4("private", 12, false, 172, 16),
    V4("private", 16, false, 192, 168),
    V4("link-local", 16, false, 169, 254), /* and the metadata of clouds */
    V4("shared (CGNAT)", 10, false, 100, 64),
    V4("multicast", 4, true, 224),
    V4("reserved", 4, false, 240),
    V4("reserved", 8, false, 0),
    V4("reserved", 24, false, 192, 0, 0),
    V4("benchmark", 15, false, 198, 18),
    V6("loopback", 127, false, 0), /* and ::, which is this machine, too */
    V6("link-local", 10, false, 0xfe, 0x80),
    V6("site-local", 10, false, 0xfe, 0xc0),
    V6("unique-local", 7, false, 0xfc),
    V6("multicast", 8, true, 0xff),
    V6("local NAT64", 48, false, 0, 0x64, 0xff, 0x9b, 0, 1),
    V6("Teredo", 32, false, 0x20, 0x01, 0, 0),
    V6("reserved", 8, false, 0), /* what else begins with a zero byte */
    V6("reserved", 8, false, 0x01),
};

const struct address_class *address_class_of(const struct ip *ip)
{
    bool v4 = ip_is_v4(ip);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if ((!v4 || classes[i].bits >= IP_V4_BITS) && ip_same_prefix(ip, &classes[i].prefix, classes[i].bits))
            return &classes[i];
    return NULL;
}
