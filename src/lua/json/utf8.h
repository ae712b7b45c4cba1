/* Checks UTF-8 by RFC 3629: no surrogates, nothing beyond U+10FFFF, no overlong forms. */
#ifndef ORR_LUA_JSON_UTF8_H
#define ORR_LUA_JSON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many bytes the character at `at`, before `end`, has; 0 if it is malformed. */
static inline size_t utf8_character(const unsigned char *at, const unsigned char *end)
{
    size_t size = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0;
    if (!size || (size_t)(end - at) < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f)) /* overlong; a surrogate */
        return 0;
    if ((*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f)) /* overlong; too large */
        return 0;
    return size;
}

/*
 * Whether the eight bytes at `at` are ASCII that needs no escape in a JSON string: no control
 * character, quote or backslash.  A top bit of a difference is set for a byte below a space, or one
 * that is equal; a byte above 0x7f has its own top bit set.
 */
static inline bool utf8_plain8(const void *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    uint64_t bytes;
    memcpy(&bytes, at, 8);
    uint64_t quotes = bytes ^ (ones * '"'), slashes = bytes ^ (ones * '\\');
    uint64_t found = (bytes - ones * ' ') | (quotes - ones) | (slashes - ones) | bytes;
    return !(found & tops);
}

#endif
