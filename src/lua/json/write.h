/*
 * Writes a value as JSON text (RFC 8259), straight into a message, a few thousand values at a time,
 * so that a task that writes much can be suspended in between.
 *
 * json.null, a light userdata that is NULL, is written as null.  A table is an object unless its
 * keys are 1 to n, or it has the array mark (values/array_mark.h): an empty table that is meant as
 * an array has to be marked.
 *
 * The writer walks over tables (values/walk.h).  The values, and L's stack above `base`, must stay
 * as they are until it is done.  The thread of L.
 */
#ifndef ORR_LUA_JSON_WRITE_H
#define ORR_LUA_JSON_WRITE_H

#include "lua/values/format.h"
#include "lua/values/message.h"
#include "lua/values/path.h"

enum {
    JSON_INDENT_MAX = 16,
    JSON_PATH_BITS = 1024, /* of the filter for tables that contain themselves */
};

/* How the walk goes through a table. */
enum json_walk {
    JSON_WALK_NEW,    /* not known yet */
    JSON_WALK_LIST,   /* by lua_next(); the keys were 1, 2, 3, ... so far */
    JSON_WALK_CHECK,  /* by lua_next(), only to look at the keys */
    JSON_WALK_INDEX,  /* by index: the keys are 1 to n, but do not come in order, or some are nil */
    JSON_WALK_FIELDS, /* by lua_next(); the keys are names */
};

/* What of a table is written. */
enum json_written {
    JSON_WRITTEN_NOTHING,
    JSON_WRITTEN_BRACKET,
    JSON_WRITTEN_ITEMS,
};

/* A table that the walk is in. */
struct json_table {
    const void *table;
    lua_Integer last;     /* the key of the last element that was written */
    lua_Integer length;   /* the highest key that the check has found */
    lua_Integer elements; /* that the check has found */
    uint8_t walk;         /* enum json_walk */
    uint8_t written;      /* enum json_written */
    bool marked;          /* it has the array mark */
    bool others;          /* the check has found keys that are not 1 to n */
    bool filtered;        /* it has set its bit in the filter */
};

struct json_writer {
    lua_State *L;
    struct message *out;
    unsigned char *at;    /* the end of the text in `out`: see write_bytes.h */
    unsigned char *limit; /* of the room there */
    size_t longest;       /* bytes that the text may have */
    int value;            /* its index on L's stack */
    int base;             /* of the walk */
    int indent;           /* spaces a level; 0 for no line breaks */
    int depth;            /* tables that the walk is in */
    int steps;            /* left until it answers -EAGAIN */
    bool started;
    const char *reason; /* why a value is refused; NULL for a lack of memory */
    char refused[96];   /* room for a reason with a name in it */
    int string;         /* the stack index of a long string that is being written; 0 for none */
    bool is_key;        /* that string is a key */
    const char *text;   /* the bytes of that string */
    size_t text_size, text_at;
    uint64_t path[JSON_PATH_BITS / 64]; /* bits of the tables that the walk is in */
    struct json_table tables[VALUES_DEPTH_MAX];
};

/*
 * Begins to write the value at an index into `out`, which is empty and flat.  `indent` is the
 * number of spaces a level; with 0 there are no line breaks.  A text of more than `longest` bytes
 * is refused; 0 for any length.
 */
void json_writer_begin(struct json_writer *w, struct message *out, lua_State *L, int index, int indent, size_t longest);

/* Moves a writer, and its text to `out`. */
void json_writer_move(struct json_writer *to, const struct json_writer *from, struct message *out);

/*
 * Goes on for about `steps` steps, or until `*hurry` is true.  -EAGAIN: there is more to write.  0:
 * the text is complete.  Otherwise the message is freed, and a text that says where and why is
 * pushed: -EINVAL for a value that JSON does not have, -E2BIG for one that is too deep or too
 * large, -ENOMEM.  Raises only if the debug library has changed L's stack meanwhile.
 */
int json_writer_step(struct json_writer *w, lua_State *L, int steps, const volatile bool *hurry);

#endif
