/* Whether bytes are UTF-8, as RFC 3629 has it: no surrogates, nothing beyond U+10FFFF, nothing longer than it need be. */
#ifndef ORR_LUA_JSON_UTF8_H
#define ORR_LUA_JSON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of one character at `at`, before `end`; 0 if there is none. */
static inline size_t utf8_character(const unsigned char *at, const unsigned char *end)
{
    size_t size = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0;
    if (!size || (size_t)(end - at) < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f)) /* too long; a surrogate */
        return 0;
    if ((*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f)) /* too long; too large */
        return 0;
    return size;
}

/*
 * Whether the eight bytes at `at` are ASCII that stands for itself in a string of JSON: no control character, quote or backslash.  The
 * sum's top bits tell what is below a space, and the differences what is equal; bytes above 0x7f are told by their own top bits.
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
