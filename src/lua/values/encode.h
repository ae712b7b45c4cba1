/*
 * An encoder writes values into a message, a few at a time, so that a task that writes many values
 * can be suspended in between.
 *
 * The encoder walks over tables (walk.h): its keys and values are on L's stack above `base`.  The
 * values, and the stack above `base`, must stay as they are until the encoder is done.  All access
 * is raw: no script runs.  The thread of L.
 */
#ifndef ORR_LUA_VALUES_ENCODE_H
#define ORR_LUA_VALUES_ENCODE_H

#include "lua/values/format.h"
#include "lua/values/message.h"
#include "lua/values/path.h"
#include "lua/values/seen.h"

/* A table that the walk is in. */
struct encoder_table {
    const void *table;
    lua_Integer last; /* the last key, as long as the keys are 1, 2, 3, ... */
    size_t header;    /* the offset of its header in the message */
    uint32_t pairs;   /* written so far */
};

struct encoder {
    lua_State *L;
    struct message *m;
    const char *root;
    int first, count; /* the values on L's stack */
    int number;       /* how many of them are written */
    int base;         /* of the walk */
    int depth;        /* tables that the walk is in */
    int steps;        /* left until it answers -EAGAIN */
    bool started;
    const char *reason; /* why a value is refused; NULL for a lack of memory */
    char refused[96];   /* room for a reason with a name in it */
    unsigned slots_used;
    struct seen seen;
    /*
     * By a hash of its address: a name, and its slot.  A name that replaces another takes its slot.
     */
    const char *names[NAME_SLOTS];
    unsigned char slots[NAME_SLOTS];
    struct encoder_table tables[VALUES_DEPTH_MAX];
};

/*
 * Takes the arguments of values_encode().  The caller calls encoder_free() in the end, in any case.
 */
void encoder_begin(struct encoder *e, struct message *m, lua_State *L, int first, int count, const char *root);

/* Moves an encoder; and its message to `m`, unless `m` is NULL. */
void encoder_move(struct encoder *to, const struct encoder *from, struct message *m);

/*
 * Goes on for about `steps` steps, or until `*hurry` is true.  -EAGAIN: there is more to write. 
 * Otherwise answers as values_encode() does, with the stack as it was before.  Raises only if the
 * debug library has changed L's stack meanwhile.
 */
int encoder_step(struct encoder *e, lua_State *L, int steps, const volatile bool *hurry);

/* Frees all but the message.  May be called again. */
void encoder_free(struct encoder *e);

/*
 * Copies `count` values from index `first` of L on into an empty message, without a pause.  On
 * failure the message is empty, and a text that says where and why is pushed: -EINVAL for a value
 * that cannot be copied, -E2BIG for values that are too deep or too large, -ENOMEM.  The text
 * begins with `root`, the word for all the values: "args.x" if there is one value, "args[2].x" if
 * there are more.  Never raises.
 */
int values_encode(struct message *m, lua_State *L, int first, int count, const char *root);

#endif
