/*
 * Rules for addresses: which ones a script may connect to, or listen on.
 *
 *     *                 every address that is not special, and every name
 *     10.0.0.0/8        a network, or one address; IPv6 in brackets: [fd00::/8]
 *     example.com       a name;  *.example.com  all names below it, but not itself
 *     localhost         127.0.0.1 and ::1, and this name
 *     unix:/run/x.sock  one Unix socket;  unix:/run/app/  all those in and below this folder
 *     unix:@name        one abstract Unix socket
 *
 * All but those of Unix sockets may be followed by a port, or a range of ports: ":443",
 * ":8000-8999". Without one they are for every port.
 *
 * Special addresses (address_class.h) are granted only by a network that is wholly inside their
 * range: 10.0.0.0/8 grants private addresses, and 0.0.0.0/0 none.
 *
 * A name says which lookups a script may make.  What addresses they give is for gate.h.
 *
 * A rule is plain data; it points into its text.  Any thread; never allocates.
 */
#ifndef ORR_IO_ADDRESS_RULE_H
#define ORR_IO_ADDRESS_RULE_H

#include "io/address_class.h"

enum rule_kind {
    RULE_ANY,
    RULE_NETWORK,
    RULE_NAME,
    RULE_LOCALHOST,
    RULE_PATH,
    RULE_ABSTRACT,
};

struct address_rule {
    enum rule_kind kind;
    bool below; /* a name: what is below it; a path: what is in and below the folder */
    uint16_t first_port, last_port;
    unsigned bits; /* of the network */
    struct ip network;
    const char *name; /* a name without "*."; a path; an abstract name without "@" */
    size_t length;
    const char *text; /* the whole rule, ended by NUL */
};

/*
 * Reads a rule from a text that lives as long as the rule.  -EINVAL, and points `*expected` to what
 * was expected, for people.
 */
int address_rule_parse(const char *text, struct address_rule *rule, const char **expected);

/* Whether the rule has an IP address as the target of connections and messages. */
bool address_rule_has_target(const struct address_rule *rule, const struct ip *ip, uint16_t port);

/*
 * Whether the rule has an IP address to listen on.  Here * has every address of this machine,
 * 0.0.0.0 and :: included: its class says who can reach the script, not what the script can reach.
 */
bool address_rule_has_own(const struct address_rule *rule, const struct ip *ip, uint16_t port);

/* Whether the rule has a path, or with `abstract` an abstract name. */
bool address_rule_has_path(const struct address_rule *rule, const char *path, size_t length, bool abstract);

/* Whether the rule has a host name. */
bool address_rule_has_name(const struct address_rule *rule, const char *host);

static inline bool address_rule_has_port(const struct address_rule *rule, uint16_t port)
{
    return port >= rule->first_port && port <= rule->last_port;
}

/*
 * Whether a path is in its plain form: absolute, and without empty parts, "." and "..".  Rules have
 * no others.
 */
bool address_rule_path_is_plain(const char *path, size_t length);

#endif
