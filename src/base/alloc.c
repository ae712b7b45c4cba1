#include "base/alloc.h"

#include <string.h>

void *alloc_libc(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    (void)old_size;
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

struct alloc alloc_from(orr_alloc_fn *fn, void *data)
{
    return (struct alloc){ .fn = fn ? fn : alloc_libc, .data = data };
}

void *alloc_new(const struct alloc *alloc, size_t size)
{
    return alloc->fn(alloc->data, NULL, 0, size);
}

void *alloc_zeroed(const struct alloc *alloc, size_t size)
{
    if (alloc->fn == alloc_libc)
        return calloc(1, size); /* does not touch memory that the system has zeroed */
    void *block = alloc_new(alloc, size);
    if (block)
        memset(block, 0, size);
    return block;
}

void alloc_free(const struct alloc *alloc, void *block, size_t size)
{
    if (block)
        alloc->fn(alloc->data, block, size, 0);
}

char *alloc_copy(const struct alloc *alloc, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = alloc_new(alloc, size);
    return copy ? memcpy(copy, text, size) : NULL;
}
