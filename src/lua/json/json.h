/*
 * JSON text, for scripts: RFC 8259, strictly.  Both ways go straight between the text and Lua's values, without a tree in between, a few
 * thousand values at a time, so that whoever writes or reads much can be suspended meanwhile.
 *
 * null is json.null, a light userdata that is NULL.  A table is an object unless its keys are 1 to n, or json.array() has marked it; so
 * an empty one that is meant as an array has to be marked, and the empty arrays that are read are.
 */
#ifndef ORR_LUA_JSON_JSON_H
#define ORR_LUA_JSON_JSON_H

#include "lua/values/message.h"

enum {
    JSON_DEPTH_MAX = VALUES_DEPTH_MAX,
    JSON_INDENT_MAX = 16,
    JSON_NUMBER_MAX = 65536, /* bytes of one number */
    JSON_BUFFER = 256,       /* bytes of a string with escapes, that need no memory */
};

/* --- Writing -------------------------------------------------------------------------------------------------------- */

/* A table that the walk is in. */
struct json_table {
    const void *table;
    lua_Integer last;     /* the key of the last element that was written */
    lua_Integer length;   /* once it has been checked */
    lua_Integer elements; /* that the check has found */
    uint8_t mode;
    bool marked;  /* by json.array() */
    bool others;  /* the check has found keys that are not 1 to n */
    bool begun;   /* its bracket is written */
    bool written; /* and something after that */
};

struct json_writer {
    lua_State *L;
    struct message *out;
    size_t longest;
    int value;  /* on L's stack */
    int base;   /* below the keys and values of the walk */
    int indent; /* spaces a level; 0: no line breaks */
    int depth;
    int steps; /* until it asks for a pause */
    bool started;
    const char *reason;
    char refused[96];
    int string; /* where on L's stack a long string is that is being written; 0 for none */
    bool is_key;
    const char *text; /* its bytes */
    size_t text_size, text_at;
    struct json_table tables[JSON_DEPTH_MAX];
};

/*
 * Begins to write the value at an index as text into `out`, which is empty and flat, with so many spaces a level, or none and no line
 * breaks.  Texts of more than `longest` bytes are refused; 0 for any length.
 */
void json_writer_begin(struct json_writer *w, struct message *out, lua_State *L, int index, int indent, size_t longest);

/* Moves it elsewhere, and the text, too. */
void json_writer_move(struct json_writer *to, const struct json_writer *from, struct message *out);

/* As encoder_step(). */
int json_writer_step(struct json_writer *w, lua_State *L, int steps, const volatile bool *hurry);

/* All of it at once.  Answers and never raises as values_encode() does. */
int json_write(struct message *out, lua_State *L, int index, int indent, size_t longest);

/* --- Reading -------------------------------------------------------------------------------------------------------- */

/* An array or object that is being read. */
struct json_level {
    const void *table; /* NULL: its values are on the stack, and there is none yet */
    int index;         /* where it is on L's stack */
    int pending;       /* values, and keys, above it on the stack */
    lua_Integer count; /* elements in the table */
    bool object;
};

struct json_reader {
    lua_State *L;
    const char *text, *at, *end;
    const char *counted; /* up to here the lines, and the characters of the last, have been counted, for errors */
    int lines, columns;
    bool floats;
    bool started;
    int base; /* L's stack as it was; then comes a buffer, or nil */
    int depth;
    int steps;          /* until it asks for a pause */
    uint8_t state;      /* what comes next */
    bool in_name;       /* the string that is being read is one */
    const char *string; /* what is being read of a string and not in the buffer */
    char *buffer;       /* NULL: the one in here */
    size_t used, capacity;
    char small[JSON_BUFFER];
    struct json_level levels[JSON_DEPTH_MAX];
};

/* Begins to read a text, which stays where it is.  With `floats` every number is one. */
void json_reader_begin(struct json_reader *r, const char *text, size_t size, bool floats);

/*
 * Goes on for about so many steps, or until `*hurry` is true.  -EAGAIN if that was not all; else 1, and the value is pushed.  Raises for
 * what is wrong with the text, and if somebody has changed L's stack meanwhile.  What it holds is on L's stack.
 */
int json_reader_step(struct json_reader *r, lua_State *L, int steps, const volatile bool *hurry);

/* All of it at once: pushes what a text says. */
int json_read(lua_State *L, const char *text, size_t size, bool floats);

#endif
