/*
 * The state of a writer of JSON (write.h), which the files that write parts of the text share.
 */
#ifndef ORR_LUA_JSON_WRITER_H
#define ORR_LUA_JSON_WRITER_H

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

#endif
