/*
 * A decoder reads values from a message, or from bytes of any origin, a few at a time, so that a
 * task that reads many values can be suspended in between.
 *
 * The values that it has read are on L's stack, above `base`.  The rest of its state is in the
 * struct, and nothing of it needs to be freed.  The message or the bytes, and the stack above
 * `base`, must stay as they are until the decoder is done.  The thread of L.
 */
#ifndef ORR_LUA_VALUES_DECODE_H
#define ORR_LUA_VALUES_DECODE_H

#include "lua/values/format.h"
#include "lua/values/message.h"

/* A table that is being filled. */
struct decoder_table {
    const void *table;
    const unsigned char *begin; /* its tag */
    int index;                  /* on L's stack */
    uint32_t elements, pairs;   /* that it gets */
    uint32_t at;                /* how many of both it has */
    uint8_t mark;               /* enum mark */
    bool shared;
    bool has_key; /* a key is on the stack: its value comes next */
};

struct decoder {
    lua_State *L;
    const unsigned char *start, *at, *end;
    const struct message *m; /* NULL if it reads bytes */
    size_t unclaimed;        /* bytes that no table has claimed for its content */
    int base;                /* the top of L's stack before it started */
    int names;               /* the stack index of the first slot for names */
    unsigned slots, taken;   /* how many slots there are; how many of the first have a name */
    int shared;              /* the stack index of a table of shared objects, or of nil */
    uint32_t count, number;  /* how many values there are; how many are read */
    int depth;               /* tables that are being filled */
    int steps;               /* left until it answers -EAGAIN */
    bool started;
    struct decoder_table tables[VALUES_DEPTH_MAX];
};

/* Reads a message, or if `m` is NULL, bytes of any origin. */
void decoder_begin(struct decoder *d, const struct message *m, const void *bytes, size_t size);

/*
 * Goes on for about `steps` steps, or until `*hurry` is true.  -EAGAIN: there is more to read. 
 * Otherwise answers how many values were pushed.  Raises for lack of memory, for malformed bytes,
 * and if the debug library has changed L's stack meanwhile.
 */
int decoder_step(struct decoder *d, lua_State *L, int steps, const volatile bool *hurry);

/*
 * Pushes the values of a message, without a pause.  Answers how many.  Raises only for lack of
 * memory.
 */
int values_decode(const struct message *m, lua_State *L);

/*
 * Pushes the values from bytes of any origin, as values_encode() writes them into a flat message,
 * without a pause.  Answers how many.  Raises for malformed bytes, too.
 */
int values_decode_bytes(lua_State *L, const void *bytes, size_t size);

#endif
