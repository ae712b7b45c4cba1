/*
 * Large blocks that are freed later.
 *
 * A step of the collector can free a hundred large blocks, and giving so much memory back to the system takes
 * many milliseconds.  So the blocks that a step frees only go into a list.  They are off the account already.
 * Between two steps they are freed one by one.  Before a large block is made, as many bytes of them are
 * freed: so there is never more in use than there was.
 *
 * The list is made of the blocks themselves: nothing here allocates.  The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_DEFERRED_FREE_H
#define ORR_LUA_ISOLATE_DEFERRED_FREE_H

#include "base/alloc.h"

#include <stdbool.h>

enum { DEFERRED_LEAST = 64 << 10 }; /* bytes of a block that is worth it */

struct deferred_block;

struct deferred_free {
    bool on; /* a step of the collector is under way */
    struct deferred_block *first;
};

static inline void deferred_free_switch(struct deferred_free *self, bool on)
{
    self->on = on;
}

static inline bool deferred_free_wants(const struct deferred_free *self, size_t size)
{
    return self->on && size >= DEFERRED_LEAST;
}

static inline bool deferred_free_any(const struct deferred_free *self)
{
    return self->first;
}

/* Frees a block later. */
void deferred_free_add(struct deferred_free *self, void *block, size_t size);

/* Frees one of them; false if there is none. */
bool deferred_free_one(struct deferred_free *self, const struct alloc *alloc);

/* Frees as many of them as make up so many bytes. */
void deferred_free_make_room(struct deferred_free *self, const struct alloc *alloc, size_t bytes);

#endif
