/*
 * A message is values of Lua on their way from one state to another: copied, so that neither state knows of the other, and owned by
 * whoever holds it.  It belongs to no isolate and no thread: it may be made on one thread, handed to another and outlive both, as long as
 * the allocator, which is the runtime's, is there.  One thread at a time may use it.
 *
 * The values are bytes in one buffer, in the form of format.h; except that a long string is a block of its own, which the message's
 * growth never moves: it is copied once when it comes out of Lua and once when it goes in.  What is passed by reference is an attachment.
 *
 * Copied are nil, booleans, integers, floats (every bit of them), strings, json.null, and tables of those without metatables, but for the
 * mark of json.array.  A table, a long string or an attachment that is met twice is copied once, and is one and the same in the copy.
 * An empty table is a table: there is no telling whether it was meant as an array, unless it is marked.  All access is raw: no script runs.
 */
#ifndef ORR_LUA_VALUES_MESSAGE_H
#define ORR_LUA_VALUES_MESSAGE_H

#include "base/alloc.h"
#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VALUES_DEPTH_MAX = 200,  /* tables in one another */
    SEGMENT_MIN = 64 * 1024, /* strings from here on are blocks of their own */
    VALUES_ERROR_SLOTS = 6,  /* of L's stack, which the caller of values_encode() leaves free */
};

/*
 * The head of what isolates share by reference, and of nothing else: a userdata whose metatable attachment_mark() has marked is a block
 * that begins with a pointer to one.  All three may be called on any thread; `push` on that of L.
 */
struct attachment {
    size_t size; /* what it takes to keep it: charged to each message that it is part of */
    void (*ref)(struct attachment *self);
    void (*unref)(struct attachment *self);
    int (*push)(
        lua_State *L,
        struct attachment *self); /* one userdata, with a reference of its own; raises only for lack of memory */
};

struct quota;

struct segment {
    char *bytes;
    size_t size;
};

/* All zero is a message with nothing in it, which may be freed. */
struct message {
    struct alloc alloc;
    unsigned char *bytes;
    size_t size, capacity;
    struct segment *segments;
    struct attachment **attachments;
    unsigned segment_count, segment_capacity, attachment_count, attachment_capacity;
    struct quota *quota; /* a reference; NULL if nobody counts */
    size_t charged;      /* to that */
    bool over_quota;     /* which has refused */
    bool flat;           /* it is to be one string: no segments, no attachments */
};

void message_init(struct message *m, const struct alloc *alloc);

/* What is written into it from now on is taken from this quota, until it is freed; NULL for none.  -ENOMEM: there is no room even for
 * an empty one. */
int message_charge_to(struct message *m, struct quota *quota);

/* Empties it.  What is written into it next is on the same quota. */
void message_clear(struct message *m);

/* Empties it, and gives up the references.  May be called again, and the message be used again, on nobody's quota. */
void message_free(struct message *m);

/* Bytes that it holds, segments included. */
size_t message_size(const struct message *m);

/*
 * Copies `count` values from index `first` of L on into a message, which is empty.  0; or with nothing in the message and one text
 * pushed on L, which says where and why: -EINVAL for what cannot be copied, -E2BIG for what is too deep or too large, -ENOMEM.  The text
 * begins with `root`, the word for all the values: "args.x" if there is one, "args[2].x" if there are more.  Never raises.
 */
int values_encode(struct message *m, lua_State *L, int first, int count, const char *root);

/* Pushes the values; answers how many.  Raises only for lack of memory; the message is the caller's before and after. */
int values_decode(const struct message *m, lua_State *L);

/* The same from bytes of anybody's making, as values_encode() has put them into a flat message.  Raises for what is wrong with them. */
int values_decode_bytes(lua_State *L, const void *bytes, size_t size);

/* Marks the metatable at the top of L: its userdata begin with a struct attachment *.  May raise. */
void attachment_mark(lua_State *L);

/* That of the userdata at an index; NULL if it has none.  Scripts that cannot change the metatables of userdata cannot forge one. */
struct attachment *attachment_test(lua_State *L, int index);

/* Pushes the metatable that marks a table as an array, which json.array() sets; nil in a state that has none. */
void values_push_array_mark(lua_State *L);

/* Makes it.  May raise. */
void values_make_array_mark(lua_State *L);

/* For encode.c: takes more from the message's quota, and gives it back.  False if there is no more. */
bool message_take(struct message *m, size_t bytes);
void message_give(struct message *m, size_t bytes);

/* For encode.c.  0 or -ENOMEM; -E2BIG beyond what an offset can name.  The attachment's reference is taken here. */
int message_grow(struct message *m, size_t more);
int message_add_segment(struct message *m, const char *bytes, size_t size);
int message_add_attachment(struct message *m, struct attachment *attachment);

#endif
