/*
 * Reads JSON text (RFC 8259, strictly) as a Lua value, straight onto Lua's stack, a few thousand
 * values at a time, so that a task that reads much can be suspended in between.
 *
 * null is read as json.null, a light userdata that is NULL.  An empty array gets the array mark
 * (values/array_mark.h).
 *
 * What the reader allocates is on L's stack, above `base`, so it may raise at any point.  The text
 * and the stack above `base` must stay as they are until it is done.  The thread of L.
 */
#ifndef ORR_LUA_JSON_READ_H
#define ORR_LUA_JSON_READ_H

#include "lua/isolate/compat.h"
#include "lua/values/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JSON_NUMBER_MAX = 65536, /* bytes of one number */
    JSON_BUFFER = 512,       /* bytes of a string with escapes that need no allocation */
    JSON_NAMES = 64,         /* names of objects that are kept */
    JSON_NO_NAME = 255,
};

/* An array or object that is being read. */
struct json_level {
    const void *table; /* NULL: there is no table yet, and the values are on the stack */
    lua_Integer count; /* elements in the table */
    int index;         /* of the table on L's stack */
    int pending;       /* values, and keys, above it on the stack */
    bool object;
};

/* A name that is kept on L's stack: see read_string.h. */
struct json_name {
    uint64_t first, last;
};

struct json_reader {
    lua_State *L;
    const char *text, *at, *end;
    const char *counted; /* lines and columns are counted up to here, for errors */
    int lines, columns;
    bool floats; /* every number is read as a float */
    bool started;
    int base; /* the top of L's stack before it started; a buffer, or nil, is above; then names */
    int depth;
    int steps;          /* left until it answers -EAGAIN */
    uint8_t state;      /* what comes next: see read.c */
    bool keeps_names;   /* of objects */
    bool escaped;       /* the string that is read has had an escape */
    const char *string; /* its first byte */
    char *buffer;       /* NULL for `small`: what was read of a string with escapes */
    size_t used, capacity;
    char small[JSON_BUFFER];
    unsigned char name_sizes[JSON_NAMES]; /* JSON_NO_NAME for none */
    struct json_name names[JSON_NAMES];
    struct json_level levels[VALUES_DEPTH_MAX];
};

/* Begins to read a text, which stays where it is. */
void json_reader_begin(struct json_reader *r, const char *text, size_t size, bool floats);

/*
 * Goes on for about `steps` steps, or until `*hurry` is true.  -EAGAIN: there is more to read.  1:
 * the value is pushed.  Raises for malformed text, for lack of memory, and if the debug library has
 * changed L's stack meanwhile.
 */
int json_reader_step(struct json_reader *r, lua_State *L, int steps, const volatile bool *hurry);

#endif
