#include "lua/isolate/late_free.h"

/* Stored at the beginning of the block itself. */
struct late_block {
    struct late_block *next;
    size_t size;
};

void late_free_add(struct late_free *self, void *block, size_t size)
{
    struct late_block *late = block;
    late->next = self->first;
    late->size = size;
    self->first = late;
}

bool late_free_one(struct late_free *self, const struct alloc *alloc)
{
    struct late_block *block = self->first;
    if (!block)
        return false;
    self->first = block->next;
    alloc_resize(alloc, block, block->size, 0);
    return true;
}

void late_free_make_room(struct late_free *self, const struct alloc *alloc, size_t bytes)
{
    for (size_t freed = 0; freed < bytes && self->first;) {
        freed += self->first->size;
        late_free_one(self, alloc);
    }
}
