/*
 * The objects that an encoder has seen, by address, each with its offset in the message: a hash
 * table with open addressing, at most three quarters full.  A small one allocates nothing.  No
 * entry is ever removed.
 *
 * No single call takes long, however many entries there are.  A large table is a list of pages; a
 * page is made when it gets its first entry.  When a table grows, the old one is kept beside it,
 * and each new entry moves a few old ones over.  Until all have moved, both are searched.
 *
 * One thread at a time.
 */
#ifndef ORR_LUA_VALUES_SEEN_H
#define ORR_LUA_VALUES_SEEN_H

#include "lua/values/message.h"

#include <stdint.h>

enum { SEEN_INLINE = 16 };

struct seen_entry {
    const void *object; /* NULL if the entry is free */
    uint32_t offset;
};

struct seen_table {
    struct seen_entry *only;   /* all entries, if they fit into a page; else NULL */
    struct seen_entry **pages; /* else the pages; each NULL until it has an entry */
    size_t mask;               /* how many entries, less 1 */
};

struct seen {
    struct message *message;    /* its allocator and quota are used */
    struct seen_table now, old; /* `old` is all zero if all its entries have moved */
    size_t count;               /* objects */
    size_t moved;               /* entries of `old` */
    struct seen_entry inlined[SEEN_INLINE];
};

void seen_init(struct seen *seen, struct message *message);

/* May be called again. */
void seen_free(struct seen *seen);

/* Moves it.  `from` must not be used afterwards.  `message` must outlive `to`. */
void seen_move(struct seen *to, const struct seen *from, struct message *message);

/*
 * 1 if the object was seen before: sets `*offset`.  0 if not: notes it, with `*offset`.  Or
 * -ENOMEM.
 */
int seen_find_or_add(struct seen *seen, const void *object, uint32_t *offset);

#endif
