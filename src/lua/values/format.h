/*
 * The bytes of a message: a version (a byte), the number of slots for names (a byte), the number of
 * values (32 bits), and one value after the other.  Numbers of more than one byte are
 * little-endian.  A value begins with a tag:
 *
 *     0x80 + n      the integer n, from 0 to 127
 *     INT8 … INT64  a signed integer of that many bits
 *     FLOAT         its 64 bits
 *     NAME          a slot (a byte), a length (a byte) and a string of at most NAME_MAX_SIZE bytes,
 *                   which goes into the slot: one that was used before, or the next
 *     SAME_NAME     a slot: the string in it
 *     STRING        a length (32 bits) and a string
 *     SEGMENT       the number (32 bits) of a segment; only in a message that has segments
 *     TABLE         how many elements and how many pairs (32 bits each); the elements, for the keys
 *                   from 1 on; then the pairs, each a key and a value
 *     ARRAY         as TABLE; the table has the array mark
 *     ERROR         as TABLE; the table has the error mark
 *     ATTACHMENT    the number (32 bits) of an attachment; only in a message that has attachments
 *     REFERENCE     the offset (32 bits) of the tag of an object that ended before this tag; that
 *                   tag has the bit SHARED
 *
 * A decoder trusts no count before it has seen as many bytes: each element takes at least one byte,
 * and each pair two.  Names are numbered by slots rather than by order, so that a decoder keeps at
 * most NAME_SLOTS strings.
 */
#ifndef ORR_LUA_VALUES_FORMAT_H
#define ORR_LUA_VALUES_FORMAT_H

#include <stdint.h>

enum {
    FORMAT_VERSION = 1,
    FORMAT_HEADER = 6,  /* bytes before the first value */
    TABLE_HEADER = 9,   /* bytes of a table before its first element */
    NAME_MAX_SIZE = 40, /* Lua keeps one copy of each string up to this length */
    NAME_SLOTS = 128,
    SMALL_INT = 0x80,
    SHARED = 0x40,
    VALUES_DEPTH_MAX = 200, /* tables inside of one another */
};

enum tag {
    TAG_NIL,
    TAG_FALSE,
    TAG_TRUE,
    TAG_NULL, /* json.null */
    TAG_INT8,
    TAG_INT16,
    TAG_INT32,
    TAG_INT64,
    TAG_FLOAT,
    TAG_NAME,
    TAG_SAME_NAME,
    TAG_STRING,
    TAG_SEGMENT,
    TAG_TABLE,
    TAG_ARRAY,
    TAG_ATTACHMENT,
    TAG_REFERENCE,
    TAG_ERROR,
};

/* On a little-endian machine each of these compiles to one instruction. */

static inline void store16(unsigned char *at, uint16_t value)
{
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

static inline void store32(unsigned char *at, uint32_t value)
{
    store16(at, (uint16_t)value);
    store16(at + 2, (uint16_t)(value >> 16));
}

static inline void store64(unsigned char *at, uint64_t value)
{
    store32(at, (uint32_t)value);
    store32(at + 4, (uint32_t)(value >> 32));
}

static inline uint16_t load16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t load32(const unsigned char *at)
{
    return (uint32_t)load16(at) | (uint32_t)load16(at + 2) << 16;
}

static inline uint64_t load64(const unsigned char *at)
{
    return (uint64_t)load32(at) | (uint64_t)load32(at + 4) << 32;
}

#endif
