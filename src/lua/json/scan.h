/*
 * Looks at many bytes of a JSON string at once.  A byte is plain if it stands for itself, and is
 * ASCII: it is no control character, quote or backslash.
 */
#ifndef ORR_LUA_JSON_SCAN_H
#define ORR_LUA_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The four or eight bytes at `at`, the first of them lowest. */
static inline uint32_t scan_word4(const void *at)
{
    uint32_t word;
    memcpy(&word, at, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline uint64_t scan_word8(const void *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/*
 * The top bits of bytes that are not plain.  The lowest bit that is set is exact: a subtraction
 * borrows only from a byte above one that is not plain.
 */
static inline uint64_t scan_special8(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    uint64_t quotes = word ^ (ones * '"'), slashes = word ^ (ones * '\\');
    return ((word - ones * ' ') | (quotes - ones) | (slashes - ones) | word) & tops;
}

/* How many of the eight bytes at `at` are plain, up to the first that is not. */
static inline size_t scan_plain8(const void *at)
{
    uint64_t special = scan_special8(scan_word8(at));
    return special ? (size_t)__builtin_ctzll(special) / 8 : 8;
}

/* How many of the sixteen bytes at `at` are plain, up to the first that is not. */
static inline size_t scan_plain16(const void *at)
{
#ifdef __SSE2__
    __m128i bytes = _mm_loadu_si128(at);
    __m128i special = _mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')); /* signed: also those above 0x7f */
    special = _mm_or_si128(special, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    special = _mm_or_si128(special, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    unsigned mask = (unsigned)_mm_movemask_epi8(special);
    return mask ? (size_t)__builtin_ctz(mask) : 16;
#else
    size_t count = scan_plain8(at);
    return count < 8 ? count : 8 + scan_plain8((const char *)at + 8);
#endif
}

/* `count` bytes at `at`, fewer than eight, the first of them lowest; the rest is zero. */
static inline uint64_t scan_few(const void *at, size_t count)
{
    const unsigned char *bytes = at;
    if (count >= 4)
        return scan_word4(bytes) | (uint64_t)scan_word4(bytes + count - 4) << (8 * (count - 4));
    if (!count)
        return 0;
    size_t middle = count / 2, last = count - 1;
    return bytes[0] | (uint64_t)bytes[middle] << (8 * middle) | (uint64_t)bytes[last] << (8 * last);
}

/*
 * Copies the plain ones of `count` bytes, fewer than eight, up to the first that is not.  Answers
 * how many.  May store more: `out` has room for eight.
 */
static inline size_t scan_copy_few(void *out, const void *at, size_t count)
{
    uint64_t word = scan_few(at, count);
    size_t plain = (size_t)__builtin_ctzll(scan_special8(word)) / 8; /* zero is not plain */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(out, &word, 8);
    return plain;
}

/* Copies up to sixteen bytes, if all are plain.  May store up to eight bytes more. */
static inline bool scan_copy_short(void *out, const void *at, size_t count)
{
    if (count < 8)
        return scan_copy_few(out, at, count) == count;
    const char *last = (const char *)at + count - 8;
    memcpy(out, at, 8);
    memcpy((char *)out + count - 8, last, 8);
    return !scan_special8(scan_word8(at)) && !scan_special8(scan_word8(last));
}

#endif
