#include "io/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

static_assert(sizeof((struct orr_address *)0)->bytes >= sizeof(struct sockaddr_storage), "every address fits");

enum { PATH_MAX_LENGTH = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

bool address_is_sound(const struct orr_address *address)
{
    if (!address || address->length < sizeof(sa_family_t) || address->length > sizeof address->bytes)
        return false;
    switch (address_family(address)) {
    case AF_INET:
        return address->length >= sizeof(struct sockaddr_in);
    case AF_INET6:
        return address->length >= sizeof(struct sockaddr_in6);
    case AF_UNIX:
        return address->length <= sizeof(struct sockaddr_un);
    default:
        return false;
    }
}

void address_from_kernel(struct orr_address *address, const struct sockaddr *from, socklen_t length)
{
    *address = (struct orr_address){ .length = length < sizeof address->bytes ? length : sizeof address->bytes };
    memcpy(address->bytes, from, address->length);
}

int address_of_socket(int fd, enum orr_end end, struct orr_address *address)
{
    *address = (struct orr_address){ 0 };
    socklen_t length = sizeof address->bytes;
    struct sockaddr *kernel = (struct sockaddr *)address->bytes;
    if ((end == ORR_LOCAL ? getsockname(fd, kernel, &length) : getpeername(fd, kernel, &length)) < 0)
        return -errno;
    address->length = length < sizeof address->bytes ? length : sizeof address->bytes;
    return 0;
}

/* --- Text to address -------------------------------------------------------------------------- */

/* A part of a text. */
struct span {
    const char *text;
    size_t length;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool parse_number(struct span digits, uint32_t most, uint32_t *number)
{
    uint64_t value = 0;
    if (!digits.length || digits.length > 10)
        return false;
    for (size_t i = 0; i < digits.length; i++) {
        if (!is_digit(digits.text[i]))
            return false;
        value = 10 * value + (uint64_t)(digits.text[i] - '0');
    }
    *number = (uint32_t)value;
    return value <= most;
}

/* Splits HOST:PORT or [HOST]:PORT.  Answers false if it is neither. */
static bool split(struct span text, struct span *host, uint16_t *port, bool *bracketed)
{
    const char *colon = text.length ? memrchr(text.text, ':', text.length) : NULL;
    uint32_t number;
    if (!colon)
        return false;
    size_t before = (size_t)(colon - text.text);
    struct span digits = { colon + 1, text.length - before - 1 };
    if (digits.length > 5 || !parse_number(digits, UINT16_MAX, &number))
        return false;
    *port = (uint16_t)number;
    *bracketed = before > 2 && text.text[0] == '[' && colon[-1] == ']';
    *host = *bracketed ? (struct span){ text.text + 1, before - 2 } : (struct span){ text.text, before };
    return host->length && !memchr(host->text, '\0', host->length) &&
           (*bracketed || !memchr(host->text, ':', host->length));
}

/* Copies a part that is shorter than the room, and ends it with a NUL. */
static bool copy_span(struct span part, char *out, size_t room)
{
    if (part.length >= room)
        return false;
    memcpy(out, part.text, part.length);
    out[part.length] = '\0';
    return true;
}

/* The index behind the %: a number, or the name of an interface. */
static int parse_scope(struct span scope, uint32_t *index)
{
    char name[IF_NAMESIZE];
    if (parse_number(scope, UINT32_MAX, index))
        return 0;
    if (!scope.length || !copy_span(scope, name, sizeof name))
        return -EINVAL;
    *index = if_nametoindex(name);
    return *index ? 0 : -ENODEV;
}

static int parse_v6(struct span host, uint16_t port, struct orr_address *address)
{
    char digits[INET6_ADDRSTRLEN];
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    const char *percent = memchr(host.text, '%', host.length);
    if (percent) {
        size_t before = (size_t)(percent - host.text);
        int error = parse_scope((struct span){ percent + 1, host.length - before - 1 }, &in6.sin6_scope_id);
        if (error)
            return error;
        host.length = before;
    }
    if (!copy_span(host, digits, sizeof digits) || inet_pton(AF_INET6, digits, &in6.sin6_addr) != 1)
        return -EINVAL;
    address_from_kernel(address, (const struct sockaddr *)&in6, sizeof in6);
    return 0;
}

static bool is_in_names(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '_' || c == '.' ||
           (unsigned char)c >= 0x80;
}

/*
 * Whether the host is a name: labels with dots between them, and perhaps one at the end.  The last
 * label does not begin with a digit: such names are addresses with a mistake in them.
 */
static bool is_name(struct span host)
{
    size_t label = 0; /* where the last label begins */
    if (!host.length || host.length >= ORR_HOST_TEXT)
        return false;
    if (host.text[host.length - 1] == '.')
        host.length--;
    for (size_t i = 0; i < host.length; i++) {
        if (!is_in_names(host.text[i]) || (host.text[i] == '.' && i == label))
            return false;
        if (host.text[i] == '.')
            label = i + 1;
    }
    return label < host.length && !is_digit(host.text[label]);
}

static int parse_v4(struct span host, uint16_t port, struct orr_address *address)
{
    char digits[INET_ADDRSTRLEN];
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
    if (copy_span(host, digits, sizeof digits) && inet_pton(AF_INET, digits, &in.sin_addr) == 1) {
        address_from_kernel(address, (const struct sockaddr *)&in, sizeof in);
        return 0;
    }
    return is_name(host) ? -EDESTADDRREQ : -EINVAL;
}

static int parse_unix(struct span path, struct orr_address *address)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    bool abstract = path.length && path.text[0] == '@';
    if (!path.length || (abstract && path.length == 1))
        return -EINVAL;
    if (path.length > (size_t)PATH_MAX_LENGTH + abstract)
        return -ENAMETOOLONG;
    if (!abstract && memchr(path.text, '\0', path.length))
        return -EINVAL;
    memcpy(un.sun_path, path.text, path.length);
    if (abstract)
        un.sun_path[0] = '\0';
    size_t length = offsetof(struct sockaddr_un, sun_path) + path.length + !abstract;
    address_from_kernel(address, (const struct sockaddr *)&un, (socklen_t)length);
    return 0;
}

static bool take_prefix(struct span *text, const char *prefix)
{
    size_t length = strlen(prefix);
    if (text->length < length || memcmp(text->text, prefix, length) != 0)
        return false;
    text->text += length;
    text->length -= length;
    return true;
}

int orr_address_parse(const char *text, size_t length, struct orr_address *address)
{
    struct span all = { text, length }, host;
    uint16_t port;
    bool bracketed;
    if (!text || !address)
        return -EINVAL;
    if (take_prefix(&all, "unix:"))
        return parse_unix(all, address);
    if (!split(all, &host, &port, &bracketed))
        return -EINVAL;
    return (bracketed ? parse_v6 : parse_v4)(host, port, address);
}

int orr_address_split(const char *text, size_t length, char host[ORR_HOST_TEXT], uint16_t *port)
{
    struct orr_address address;
    struct span part;
    bool bracketed;
    if (!text || !host || !port || take_prefix(&(struct span){ text, length }, "unix:") ||
        !split((struct span){ text, length }, &part, port, &bracketed) || !copy_span(part, host, ORR_HOST_TEXT))
        return -EINVAL;
    int error = (bracketed ? parse_v6 : parse_v4)(part, *port, &address);
    return error == -EDESTADDRREQ ? 0 : error;
}

/* --- Address to text -------------------------------------------------------------------------- */

static int print_v4(const struct sockaddr_in *in, char *text, size_t size)
{
    char digits[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &in->sin_addr, digits, sizeof digits);
    return snprintf(text, size, "%s:%u", digits, ntohs(in->sin_port));
}

static int print_v6(const struct sockaddr_in6 *in6, char *text, size_t size)
{
    char digits[INET6_ADDRSTRLEN], name[IF_NAMESIZE] = "", scope[16] = "";
    inet_ntop(AF_INET6, &in6->sin6_addr, digits, sizeof digits);
    if (in6->sin6_scope_id && !if_indextoname(in6->sin6_scope_id, name))
        snprintf(scope, sizeof scope, "%u", (unsigned)in6->sin6_scope_id);
    const char *of = name[0] ? name : scope;
    return snprintf(text, size, "[%s%s%s]:%u", digits, of[0] ? "%" : "", of, ntohs(in6->sin6_port));
}

/* A path that begins with @ would be read as an abstract name. */
static int print_unix(const struct sockaddr_un *un, size_t length, char *text, size_t size)
{
    size_t header = offsetof(struct sockaddr_un, sun_path);
    size_t bytes = length > header ? length - header : 0;
    bool abstract = bytes && !un->sun_path[0];
    if (!abstract)
        bytes = strnlen(un->sun_path, bytes);
    const char *prefix = abstract ? "unix:@" : bytes && un->sun_path[0] == '@' ? "unix:./" : "unix:";
    size_t before = strlen(prefix);
    bytes -= abstract;
    if (before + bytes >= size)
        return (int)(before + bytes);
    memcpy(text, prefix, before);
    memcpy(text + before, un->sun_path + abstract, bytes);
    text[before + bytes] = '\0';
    return (int)(before + bytes);
}

int orr_address_print(const struct orr_address *address, char *text, size_t size)
{
    if (!address_is_sound(address) || !text || !size)
        return -EINVAL;
    const void *kernel = address_kernel(address);
    int length = address_family(address) == AF_INET    ? print_v4(kernel, text, size)
                 : address_family(address) == AF_INET6 ? print_v6(kernel, text, size)
                                                       : print_unix(kernel, address->length, text, size);
    if ((size_t)length < size)
        return length;
    text[0] = '\0';
    return -ENOSPC;
}
