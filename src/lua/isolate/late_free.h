/*
 * Large blocks that are freed later.
 *
 * A step of the collector can free a hundred large blocks, and giving so much memory back to the
 * system takes many milliseconds.  So the blocks that a step frees only go into a list.  They are
 * off the account already. Between two steps they are freed one by one.  Before a large block is
 * made, as many bytes of them are freed: so there is never more in use than there was.
 *
 * The list is made of the blocks themselves: nothing here allocates.  The isolate's worker's
 * thread.
 */
#ifndef ORR_LUA_ISOLATE_LATE_FREE_H
#define ORR_LUA_ISOLATE_LATE_FREE_H

#include "base/alloc.h"

#include <stdbool.h>

enum { LATE_LEAST = 64 << 10 }; /* bytes of a block that is worth it */

struct late_block;

struct late_free {
    bool on; /* a step of the collector is under way */
    struct late_block *first;
};

static inline void late_free_switch(struct late_free *self, bool on)
{
    self->on = on;
}

static inline bool late_free_wants(const struct late_free *self, size_t size)
{
    return self->on && size >= LATE_LEAST;
}

static inline bool late_free_any(const struct late_free *self)
{
    return self->first;
}

/* Frees a block later. */
void late_free_add(struct late_free *self, void *block, size_t size);

/* Frees one of them; false if there is none. */
bool late_free_one(struct late_free *self, const struct alloc *alloc);

/* Frees as many of them as make up so many bytes. */
void late_free_make_room(struct late_free *self, const struct alloc *alloc, size_t bytes);

#endif
