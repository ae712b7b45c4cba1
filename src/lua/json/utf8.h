/* Whether bytes are UTF-8, as RFC 3629 has it: no surrogates, nothing beyond U+10FFFF, nothing longer than it need be. */
#ifndef ORR_LUA_JSON_UTF8_H
#define ORR_LUA_JSON_UTF8_H

#include <stddef.h>

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

/* How many bytes from the beginning on are; all, if it is `size`. */
static inline size_t utf8_valid(const char *bytes, size_t size)
{
    const unsigned char *start = (const unsigned char *)bytes;
    const unsigned char *end = start + size;
    const unsigned char *at = start;
    for (size_t step; at < end; at += step) {
        step = utf8_character(at, end);
        if (!step)
            break;
    }
    return (size_t)(at - start);
}

#endif
