/*
 * An array that grows without moving: chunk k holds 64 << k elements, so a handful of pointers
 * reach four million of them, an element's address never changes, and a reader needs no lock to
 * find it.
 *
 *     index    0..63   64..191   192..447   ...
 *     chunk      0        1         2
 */
#ifndef ORR_BASE_CHUNKS_H
#define ORR_BASE_CHUNKS_H

#include <stdint.h>

enum {
    CHUNK_FIRST = 64,
    CHUNK_COUNT = 17, /* enough for any 22-bit index */
};

struct chunk_position {
    unsigned chunk;
    uint32_t offset;
};

static inline struct chunk_position chunk_position(uint32_t index)
{
    uint32_t shifted = index + CHUNK_FIRST;
    unsigned chunk = 25u - (unsigned)__builtin_clz(shifted); /* log2(shifted) - log2(CHUNK_FIRST) */
    return (struct chunk_position){ .chunk = chunk, .offset = shifted - ((uint32_t)CHUNK_FIRST << chunk) };
}

static inline uint32_t chunk_length(unsigned chunk)
{
    return (uint32_t)CHUNK_FIRST << chunk;
}

#endif
