/*
 * Writing values into a message a few at a time, so that whoever writes many can be suspended in between.  values_encode() in
 * message.h does all of it at once.
 *
 * The walk keeps one key and one value on L's stack for each table that it is in, from `base` on; everything else is here.  The values and
 * what is on the stack above `base` must stay as they are until it is over.
 */
#ifndef ORR_LUA_VALUES_ENCODE_H
#define ORR_LUA_VALUES_ENCODE_H

#include "lua/values/format.h"
#include "lua/values/message.h"
#include "lua/values/seen.h"

/* A table that the walk is in. */
struct encoder_table {
    const void *table;
    lua_Integer last; /* the last key, as long as keys come in order */
    size_t header;    /* where in the message it is */
    uint32_t pairs;
};

struct encoder {
    lua_State *L;
    struct message *m;
    const char *root;
    int first, count; /* of the values on L's stack */
    int number;       /* of those that are written */
    int base;         /* below the keys and values of the walk */
    int depth;        /* of the table that the walk is in */
    int steps;        /* until it asks for a pause */
    bool started;
    const char *reason;
    char refused[96]; /* a reason that had to be made */
    unsigned slots_used;
    struct seen seen;
    /* By a hash of its address, a name and the slot that it is in.  One that takes another's place takes its slot, too. */
    const char *names[NAME_SLOTS];
    unsigned char slots[NAME_SLOTS];
    struct encoder_table tables[VALUES_DEPTH_MAX];
};

/* As values_encode().  Whatever comes of it, encoder_free() is due in the end. */
void encoder_begin(struct encoder *e, struct message *m, lua_State *L, int first, int count, const char *root);

/* Moves it elsewhere, and the message, too, unless `m` is NULL. */
void encoder_move(struct encoder *to, const struct encoder *from, struct message *m);

/*
 * Goes on for about so many steps, or until `*hurry` is true.  -EAGAIN if that was not all.  Else answers as values_encode() does, with the
 * stack as it was before.  Raises only if somebody has changed L's stack meanwhile.
 */
int encoder_step(struct encoder *e, lua_State *L, int steps, const volatile bool *hurry);

/* What it has needed besides the message.  May be called again. */
void encoder_free(struct encoder *e);

#endif
