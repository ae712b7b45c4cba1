#include "lua/isolate/deferred_free.h"

/* At the beginning of the block itself. */
struct deferred_block {
    struct deferred_block *next;
    size_t size;
};

void deferred_free_add(struct deferred_free *self, void *block, size_t size)
{
    struct deferred_block *deferred = block;
    deferred->next = self->first;
    deferred->size = size;
    self->first = deferred;
}

bool deferred_free_one(struct deferred_free *self, const struct alloc *alloc)
{
    struct deferred_block *block = self->first;
    if (!block)
        return false;
    self->first = block->next;
    alloc_resize(alloc, block, block->size, 0);
    return true;
}

void deferred_free_make_room(struct deferred_free *self, const struct alloc *alloc, size_t bytes)
{
    for (size_t freed = 0; freed < bytes && self->first;) {
        freed += self->first->size;
        deferred_free_one(self, alloc);
    }
}
