/*
 * What has been met while values are written, by address, and where in the message it is: a hash table with open addressing, at most
 * three quarters full.  Small ones need no memory but their own.  Nothing is ever taken out.
 *
 * No single call takes long, however many entries there are.  A large table is a list of pages, each of which is made when the first entry
 * comes into it.  A table that grows keeps the smaller one beside it, and each new entry moves a few of the old ones over; until all have
 * moved, an entry is looked for in both.
 */
#ifndef ORR_LUA_VALUES_SEEN_H
#define ORR_LUA_VALUES_SEEN_H

#include "lua/values/message.h"

#include <stdint.h>

enum { SEEN_INLINE = 16 };

struct sight {
    const void *what; /* NULL: free */
    uint32_t place;
};

struct sights {
    struct sight *only;   /* all places, if they are one page or less; else NULL */
    struct sight **pages; /* else these; each NULL until it has an entry */
    size_t mask;
};

struct seen {
    struct message *message; /* whose allocator and quota it uses */
    struct sights now, old;  /* `old` has neither if all its entries have moved */
    size_t count, moved;
    struct sight inlined[SEEN_INLINE];
};

void seen_init(struct seen *seen, struct message *message);

/* May be called again. */
void seen_free(struct seen *seen);

/* Moves it to another place; the old place is not to be used any more, and `message` must outlive the new one. */
void seen_move(struct seen *to, const struct seen *from, struct message *message);

/* 1 if it has been met, and where; 0 if it was not, and is now, at `*place`; or -ENOMEM. */
int seen_meet(struct seen *seen, const void *what, uint32_t *place);

#endif
