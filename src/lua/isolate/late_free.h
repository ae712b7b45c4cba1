/*
 * Large blocks that are freed later.
 *
 * A step of the collector can free a hundred large blocks, and giving that much memory back to the
 * system takes many milliseconds.  So a step only puts its large blocks into a list.  They are off
 * the account already.  Between two steps they are freed one by one.  Before a large block is made,
 * at least as many bytes of the list are freed: so the list never raises the peak of memory.
 *
 * The list is made of the blocks themselves: nothing here allocates.  Only the isolate's worker
 * thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_LATE_FREE_H
#define ORR_LUA_ISOLATE_LATE_FREE_H

#include "base/alloc.h"

#include <stdbool.h>

enum { LATE_LEAST = 64 << 10 }; /* bytes: smaller blocks are freed at once */

struct late_block;

struct late_free {
    bool on; /* a step of the collector is running */
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

/* Adds a block to the list. */
void late_free_add(struct late_free *self, void *block, size_t size);

/* Frees one block of the list; false if the list is empty. */
bool late_free_one(struct late_free *self, const struct alloc *alloc);

/* Frees blocks of the list until they add up to `bytes`, or the list is empty. */
void late_free_make_room(struct late_free *self, const struct alloc *alloc, size_t bytes);

#endif
