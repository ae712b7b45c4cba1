/* Checks UTF-8 by RFC 3629: no surrogates, nothing beyond U+10FFFF, no overlong forms. */
#ifndef ORR_LUA_JSON_UTF8_H
#define ORR_LUA_JSON_UTF8_H

#include "lua/json/scan.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The size of the character whose first bytes are `word`, the first of them lowest; 0 if it is
 * malformed.
 */
static inline size_t utf8_size_of(uint32_t word)
{
    if (!(word & 0x80))
        return 1;
    if ((word & 0xc0e0) == 0x80c0)
        return word & 0x1e ? 2 : 0; /* else overlong */
    if ((word & 0xc0c0f0) == 0x8080e0) {
        uint32_t range = word & 0x200f;
        return range != 0 && range != 0x200d ? 3 : 0; /* else overlong, or a surrogate */
    }
    if ((word & 0xc0c0c0f8) == 0x808080f0) {
        uint32_t first = word & 7, second = word & 0x3000;
        return (first == 0 ? second != 0 : first < 4 || (first == 4 && second == 0)) ? 4 : 0;
    }
    return 0;
}

/* How many bytes the character at `at`, before `end`, has; 0 if it is malformed. */
static inline size_t utf8_character(const unsigned char *at, const unsigned char *end)
{
    size_t left = (size_t)(end - at);
    if (left >= 4)
        return utf8_size_of(scan_word4(at));
    uint32_t word = 0; /* a zero byte continues no character */
    for (size_t i = 0; i < left; i++)
        word |= (uint32_t)at[i] << (8 * i);
    return left ? utf8_size_of(word) : 0;
}

#endif
