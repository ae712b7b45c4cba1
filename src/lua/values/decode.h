/*
 * Reading values from a message a few at a time, so that whoever reads many can be suspended in between.  values_decode() and
 * values_decode_bytes() in message.h do all of it at once.
 *
 * What is read so far is on L's stack, from where it was on; everything else is here, and nothing of it needs to be freed.  The message or
 * the bytes, and what is on the stack, must stay as they are until it is over.
 */
#ifndef ORR_LUA_VALUES_DECODE_H
#define ORR_LUA_VALUES_DECODE_H

#include "lua/values/message.h"

/* A table that is being filled. */
struct decoder_table {
    const void *table;
    const unsigned char *begin; /* its tag */
    int index;                  /* on L's stack */
    uint32_t elements, pairs;   /* of which it has been given */
    uint32_t at;                /* so many, both together */
    bool array, shared;
    bool has_key; /* on the stack: its value comes next */
};

struct decoder {
    lua_State *L;
    const unsigned char *start, *at, *end;
    const struct message *m; /* or NULL */
    size_t unclaimed;        /* bytes that no table has claimed for its content */
    int base;                /* L's stack as it was */
    int names;               /* the first slot's index */
    unsigned slots, taken;   /* how many there are; how many, from the first on, have a name in them */
    int shared;             /* index of the table of what may be referred to, by offset; nil until there is something */
    uint32_t count, number; /* of the values; of those that are read */
    int depth;              /* tables that are being filled */
    int steps;              /* until it asks for a pause */
    bool started;
    struct decoder_table tables[VALUES_DEPTH_MAX];
};

/* From a message, or if that is NULL, from bytes of anybody's making. */
void decoder_begin(struct decoder *d, const struct message *m, const void *bytes, size_t size);

/*
 * Goes on for about so many steps, or until `*hurry` is true.  -EAGAIN if that was not all; else the number of values, which are
 * pushed.  Raises as values_decode() and values_decode_bytes() do, and if somebody has changed L's stack meanwhile.
 */
int decoder_step(struct decoder *d, lua_State *L, int steps, const volatile bool *hurry);

#endif
