/*
 * The allocator a runtime was given.  Sizes are passed back when freeing, as lua_Alloc does, so
 * that a host can keep an account without headers of its own.  As thread-safe as the host's
 * function is.
 */
#ifndef ORR_BASE_ALLOC_H
#define ORR_BASE_ALLOC_H

#include "orrery.h"

#include <stdlib.h>

struct alloc {
    orr_alloc_fn *fn;
    void *data;
};

/* The host's function, or libc's if the host gave none. */
struct alloc alloc_from(orr_alloc_fn *fn, void *data);

/* Libc's allocator, with the signature of the host's. */
orr_alloc_fn alloc_libc;

/*
 * Calls the function.  libc's is called directly, not through a pointer: Lua uses it for everything
 * that it makes.
 */
static inline void *alloc_resize(const struct alloc *alloc, void *block, size_t old_size, size_t size)
{
    if (alloc->fn != alloc_libc)
        return alloc->fn(alloc->data, block, old_size, size);
    if (size)
        return block ? realloc(block, size) : malloc(size);
    free(block);
    return NULL;
}

/* NULL when there is no memory. */
void *alloc_new(const struct alloc *alloc, size_t size);
void *alloc_zeroed(const struct alloc *alloc, size_t size);

/* A copy of a string; NULL when there is no memory. */
char *alloc_copy(const struct alloc *alloc, const char *text);

/* `block` may be NULL. */
void alloc_free(const struct alloc *alloc, void *block, size_t size);

#endif
