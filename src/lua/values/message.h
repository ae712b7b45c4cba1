/*
 * A message is Lua values on their way from one state to another.  The values are copied, so
 * neither state knows of the other.  The holder of a message owns it.  A message belongs to no
 * isolate and no thread: it may be made on one thread, handed to another and outlive both, as long
 * as its allocator exists, which is the runtime's.  One thread at a time may use it.
 *
 * The values are bytes in one buffer, in the form of format.h.  A long string is a block of its
 * own, a segment, which is not moved when the message grows: the string is copied once out of Lua
 * and once into Lua.  Objects that are passed by reference are attachments.
 *
 * These values can be copied: nil, booleans, integers, floats (bit for bit), strings, json.null,
 * and tables of those that have no metatable or the array mark (mark.h).  A table, a long
 * string or an attachment that occurs twice is copied once, and is one object in the copy, too.  An
 * empty table is a table: nothing tells whether it was meant as an array, unless it is marked.
 *
 * encode.h writes values into a message, decode.h reads them.
 */
#ifndef ORR_LUA_VALUES_MESSAGE_H
#define ORR_LUA_VALUES_MESSAGE_H

#include "base/alloc.h"
#include "lua/values/attachment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEGMENT_MIN = 64 * 1024 }; /* bytes; longer strings are segments */

struct quota;

struct segment {
    char *bytes;
    size_t size;
};

/* All zero is an empty message, which may be freed. */
struct message {
    struct alloc alloc;
    unsigned char *bytes;
    size_t size, capacity;
    unsigned char *room; /* the owner's, for a small message; NULL for none */
    size_t room_size;
    struct segment *segments;
    struct attachment **attachments;
    unsigned segment_count, segment_capacity, attachment_count, attachment_capacity;
    struct quota *quota; /* a reference; NULL for none */
    size_t charged;      /* to the quota */
    bool over_quota;     /* the quota has refused once */
    bool flat;           /* it becomes one string: it may have no segments and no attachments */
};

void message_init(struct message *m, const struct alloc *alloc);

/*
 * Gives the message room for its first bytes, so that a small message allocates nothing.  The
 * caller pays for the room, which lives as long as the message.  Such a message must not be moved.
 */
void message_give_room(struct message *m, void *room, size_t size);

/*
 * Charges the message, and all that is written into it until it is freed, to a quota; NULL for
 * none. -ENOMEM: the quota has no room for an empty message.
 */
int message_charge_to(struct message *m, struct quota *quota);

/* Empties it.  It stays charged to the same quota. */
void message_clear(struct message *m);

/* Empties it, and drops its quota.  May be called again.  The message may be used again. */
void message_free(struct message *m);

/* Charges bytes to the message's quota.  False if the quota refuses. */
bool message_take(struct message *m, size_t bytes);

/* Gives bytes that message_take() took back to the quota. */
void message_give(struct message *m, size_t bytes);

/* Makes room for more bytes.  -ENOMEM; -E2BIG beyond 4 GiB, which offsets cannot reach. */
int message_grow(struct message *m, size_t more);

/* Adds a copy of a string.  -ENOMEM. */
int message_add_segment(struct message *m, const char *bytes, size_t size);

/* Adds an attachment, and takes a reference to it.  -ENOMEM. */
int message_add_attachment(struct message *m, struct attachment *attachment);

#endif
