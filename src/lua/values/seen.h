/*
 * What has been met while values are written, by address, and where in the message it is: a hash table with open addressing, at most
 * three quarters full.  Small ones need no memory but their own.  Nothing is ever taken out.
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

struct seen {
    struct message *message; /* whose allocator and quota it uses */
    struct sight *sights;
    size_t mask, count;
    struct sight inlined[SEEN_INLINE];
};

void seen_init(struct seen *seen, struct message *message);
void seen_free(struct seen *seen);

/* 1 if it has been met, and where; 0 if it was not, and is now, at `*place`; or -ENOMEM. */
int seen_meet(struct seen *seen, const void *what, uint32_t *place);

#endif
