#include "io/address_rule.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <sys/un.h>

enum { PATH_MOST = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

/* A part of a text. */
struct span {
    const char *text;
    size_t length;
};

/* --- Ports ------------------------------------------------------------------------------------ */

static bool parse_number(struct span digits, unsigned most, unsigned *number)
{
    unsigned value = 0;
    if (!digits.length || digits.length > 5)
        return false;
    for (size_t i = 0; i < digits.length; i++) {
        if (digits.text[i] < '0' || digits.text[i] > '9')
            return false;
        value = 10 * value + (unsigned)(digits.text[i] - '0');
    }
    *number = value;
    return value <= most;
}

/* Reads "80", "8000-8999" or "*". */
static bool parse_ports(struct span ports, struct address_rule *rule)
{
    unsigned first, last;
    if (ports.length == 1 && *ports.text == '*')
        return true;
    const char *dash = memchr(ports.text, '-', ports.length);
    size_t before = dash ? (size_t)(dash - ports.text) : ports.length;
    if (!parse_number((struct span){ ports.text, before }, UINT16_MAX, &first))
        return false;
    last = first;
    if (dash && !parse_number((struct span){ dash + 1, ports.length - before - 1 }, UINT16_MAX, &last))
        return false;
    rule->first_port = (uint16_t)first;
    rule->last_port = (uint16_t)last;
    return first <= last;
}

/* --- Networks --------------------------------------------------------------------------------- */

/* Whether all bits behind the prefix are zero. */
static bool is_network(const struct ip *ip, unsigned bits)
{
    struct ip masked = { 0 };
    for (unsigned i = 0; i < bits; i++)
        masked.bytes[i / 8] |= ip->bytes[i / 8] & (0x80 >> i % 8);
    return ip_same_prefix(ip, &masked, IP_BITS);
}

/* Reads "ADDRESS" or "ADDRESS/BITS". */
static bool parse_network(struct span text, int family, struct address_rule *rule)
{
    char digits[INET6_ADDRSTRLEN];
    unsigned before = family == AF_INET ? IP_V4_BITS : 0, bits = IP_BITS - before;
    struct ip ip = { { [10] = 0xff, [11] = 0xff } };
    const char *slash = memchr(text.text, '/', text.length);
    size_t length = slash ? (size_t)(slash - text.text) : text.length;
    if (slash && !parse_number((struct span){ slash + 1, text.length - length - 1 }, bits, &bits))
        return false;
    if (length >= sizeof digits)
        return false;
    memcpy(digits, text.text, length);
    digits[length] = '\0';
    if (inet_pton(family, digits, &ip.bytes[before / 8]) != 1 || !is_network(&ip, before + bits))
        return false;
    rule->kind = RULE_NETWORK;
    rule->network = ip;
    rule->bits = before + bits;
    ip_normalise_network(&rule->network, &rule->bits);
    return true;
}

/* --- Names ------------------------------------------------------------------------------------ */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_in_names(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.' || (unsigned char)c >= 0x80;
}

/* Labels with dots between them, the last of which does not begin with a digit. */
static bool is_name(struct span name)
{
    size_t label = 0;
    if (!name.length || name.length >= ORR_HOST_TEXT)
        return false;
    for (size_t i = 0; i < name.length; i++) {
        if (!is_in_names(name.text[i]) || (name.text[i] == '.' && i == label))
            return false;
        if (name.text[i] == '.')
            label = i + 1;
    }
    return label < name.length && !is_digit(name.text[label]);
}

static bool same_name(struct span a, struct span b)
{
    return a.length == b.length && !strncasecmp(a.text, b.text, a.length);
}

/* A host name without the dot at its end. */
static struct span host_span(const char *host)
{
    size_t length = strlen(host);
    return (struct span){ host, length - (length > 1 && host[length - 1] == '.') };
}

static bool parse_name(struct span host, struct address_rule *rule)
{
    static const struct span localhost = { "localhost", sizeof "localhost" - 1 };
    rule->below = host.length > 2 && host.text[0] == '*' && host.text[1] == '.';
    if (rule->below)
        host = (struct span){ host.text + 2, host.length - 2 };
    if (host.length > 1 && host.text[host.length - 1] == '.')
        host.length--;
    rule->kind = !rule->below && same_name(host, localhost) ? RULE_LOCALHOST : RULE_NAME;
    rule->name = host.text;
    rule->length = host.length;
    return is_name(host);
}

/* --- Rules ------------------------------------------------------------------------------------ */

static const char EXPECTED_HOST[] =
    "expected a name, *.name, *, localhost, an IPv4 network such as 10.0.0.0/8, an IPv6 "
    "network such as [fd00::/8], unix:/path or unix:@name";
static const char EXPECTED_PORTS[] = "expected a port or ports behind the colon, such as 443 or 8000-8999";
static const char EXPECTED_V6[] = "expected an IPv6 address or network in the brackets, such as [fd00::/8], with only "
                                  "zeros behind its prefix";
static const char EXPECTED_V4[] = "expected an IPv4 address or network, such as 10.0.0.0/8, with only zeros behind its "
                                  "prefix";
static const char EXPECTED_PATH[] = "expected a path from / on, without empty parts, \".\" and \"..\", of at most 107 "
                                    "bytes";
static const char EXPECTED_ABSTRACT[] = "expected a name of at most 107 bytes behind unix:@";

bool address_rule_path_is_plain(const char *path, size_t length)
{
    if (length < 2 || path[0] != '/' || memchr(path, '\0', length))
        return false;
    for (size_t i = 0; i + 1 < length;) {
        const char *part = path + i + 1;
        const char *slash = memchr(part, '/', length - i - 1);
        size_t bytes = slash ? (size_t)(slash - part) : length - i - 1;
        if (!bytes || (bytes == 1 && *part == '.') || (bytes == 2 && !memcmp(part, "..", 2)))
            return false;
        i += bytes + 1;
    }
    return true;
}

static const char *parse_unix(struct span path, struct address_rule *rule)
{
    bool abstract = path.length && *path.text == '@';
    rule->kind = abstract ? RULE_ABSTRACT : RULE_PATH;
    rule->name = path.text + abstract;
    rule->length = path.length - abstract;
    if (abstract)
        return rule->length && rule->length <= PATH_MOST ? NULL : EXPECTED_ABSTRACT;
    rule->below = path.length && path.text[path.length - 1] == '/';
    bool plain = address_rule_path_is_plain(path.text, path.length) || (path.length == 1 && rule->below);
    return plain && path.length <= PATH_MOST ? NULL : EXPECTED_PATH;
}

/* Reads a host without its ports. */
static const char *parse_host(struct span host, struct address_rule *rule)
{
    if (host.length == 1 && *host.text == '*') {
        rule->kind = RULE_ANY;
        return NULL;
    }
    if (host.length > 1 && *host.text == '[')
        return host.text[host.length - 1] == ']' &&
                       parse_network((struct span){ host.text + 1, host.length - 2 }, AF_INET6, rule)
                   ? NULL
                   : EXPECTED_V6;
    if (host.length && is_digit(*host.text) && (memchr(host.text, '/', host.length) || !is_name(host)))
        return parse_network(host, AF_INET, rule) ? NULL : EXPECTED_V4;
    return parse_name(host, rule) ? NULL : EXPECTED_HOST;
}

/* Where the colon before the ports is; the end if there is none. */
static size_t find_ports(struct span text)
{
    const char *bracket = memrchr(text.text, ']', text.length);
    size_t from = bracket ? (size_t)(bracket - text.text) : 0;
    const char *colon = memchr(text.text + from, ':', text.length - from);
    return colon ? (size_t)(colon - text.text) : text.length;
}

int address_rule_parse(const char *text, struct address_rule *rule, const char **expected)
{
    struct span all = { text, strlen(text) };
    *rule = (struct address_rule){ .text = text, .last_port = UINT16_MAX };
    if (!strncmp(text, "unix:", 5)) {
        *expected = parse_unix((struct span){ text + 5, all.length - 5 }, rule);
    } else {
        size_t colon = find_ports(all);
        *expected = parse_host((struct span){ text, colon }, rule);
        if (!*expected && colon < all.length &&
            !parse_ports((struct span){ text + colon + 1, all.length - colon - 1 }, rule))
            *expected = EXPECTED_PORTS;
    }
    return *expected ? -EINVAL : 0;
}

/* --- Matching --------------------------------------------------------------------------------- */

static bool is_localhost(const struct ip *ip)
{
    static const struct ip loopback = { { [15] = 1 } }, loopback_v4 = { { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
    return ip_same_prefix(ip, &loopback, IP_BITS) || ip_same_prefix(ip, &loopback_v4, IP_BITS);
}

/* Whether the rule's network has an address, and is inside of a class, unless that is NULL. */
static bool network_has(const struct address_rule *rule, const struct ip *ip, const struct address_class *class)
{
    /* A network of IPv6 has no IPv4 addresses, although these have a form in IPv6 here. */
    if (rule->bits < IP_V4_BITS && ip_is_v4(ip))
        return false;
    return ip_same_prefix(ip, &rule->network, rule->bits) && (!class || rule->bits >= class->bits);
}

bool address_rule_has_target(const struct address_rule *rule, const struct ip *ip, uint16_t port)
{
    if (!address_rule_has_port(rule, port))
        return false;
    switch (rule->kind) {
    case RULE_ANY:
        return !address_class_of(ip);
    case RULE_NETWORK:
        return network_has(rule, ip, address_class_of(ip));
    case RULE_LOCALHOST:
        return is_localhost(ip);
    default:
        return false;
    }
}

bool address_rule_has_own(const struct address_rule *rule, const struct ip *ip, uint16_t port)
{
    const struct address_class *class = address_class_of(ip);
    bool groups = class && class->of_groups;
    if (!address_rule_has_port(rule, port))
        return false;
    switch (rule->kind) {
    case RULE_ANY:
        return !groups;
    case RULE_NETWORK:
        return network_has(rule, ip, groups ? class : NULL);
    case RULE_LOCALHOST:
        return is_localhost(ip);
    default:
        return false;
    }
}

bool address_rule_has_path(const struct address_rule *rule, const char *path, size_t length, bool abstract)
{
    if (rule->kind != (abstract ? RULE_ABSTRACT : RULE_PATH))
        return false;
    if (!abstract && !address_rule_path_is_plain(path, length))
        return false;
    if (rule->below ? length <= rule->length : length != rule->length)
        return false;
    return !memcmp(path, rule->name, rule->length);
}

/* Whether a name is below another: "a.b" below "b". */
static bool is_below(struct span name, struct span other)
{
    if (name.length <= other.length + 1 || name.text[name.length - other.length - 1] != '.')
        return false;
    return same_name((struct span){ name.text + name.length - other.length, other.length }, other);
}

bool address_rule_has_name(const struct address_rule *rule, const char *host)
{
    struct span name = host_span(host), own = { rule->name, rule->length };
    switch (rule->kind) {
    case RULE_ANY:
        return true;
    case RULE_NAME:
        return rule->below ? is_below(name, own) : same_name(name, own);
    case RULE_LOCALHOST:
        return same_name(name, own);
    default:
        return false;
    }
}
