/*
 * The state of a reader of JSON (read.h), which the files that read parts of the text share.
 */
#ifndef ORR_LUA_JSON_READER_H
#define ORR_LUA_JSON_READER_H

#include "lua/isolate/compat.h"
#include "lua/values/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JSON_NUMBER_MAX = 65536, /* bytes of one number */
    JSON_BUFFER = 512,       /* bytes of a string with escapes that need no allocation */
    JSON_KEPT = 64,          /* strings of a kind that are kept for when they come again */
};

/* An array or object that is being read. */
struct json_level {
    const void *table; /* NULL: there is no table yet, and the values are on the stack */
    lua_Integer count; /* elements in the table */
    int index;         /* of the table on L's stack */
    int pending;       /* values, and keys, above it on the stack */
    bool object;
};

/* Short strings that are kept on L's stack: see read_string.h. */
struct json_kept {
    int index;                      /* of the first on L's stack */
    int credit;                     /* what it has saved so far; not above zero: it is not used */
    unsigned char sizes[JSON_KEPT]; /* of the strings; more than 15 for none */
    struct {
        uint64_t first, last; /* eight bytes */
    } bytes[JSON_KEPT];
};

struct json_reader {
    lua_State *L;
    const char *text, *at, *end;
    const char *counted; /* lines and columns are counted up to here, for errors */
    int lines, columns;
    bool floats; /* every number is read as a float */
    bool started;
    int base; /* the top of L's stack before it started; a buffer, or nil, is above; then strings */
    int depth;
    int steps;          /* left until it answers -EAGAIN */
    uint8_t state;      /* what comes next: see read.c */
    bool escaped;       /* the string that is read has had an escape */
    const char *string; /* its first byte */
    char *buffer;       /* NULL for `small`: what was read of a string with escapes */
    size_t used, capacity;
    char small[JSON_BUFFER];
    struct json_kept names, values;
    struct json_level levels[VALUES_DEPTH_MAX];
};

#endif
