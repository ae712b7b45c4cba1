/*
 * Small blocks for one Lua state: up to SLAB_LARGEST bytes, in classes of sixteen bytes each.
 *
 * Blocks live in pages of 4 KB that hold one class each, and pages in chunks that are mapped from
 * the system.  A page's header is at its beginning, so a block's address leads to it.  A page that
 * is empty goes back to its chunk, for any class; chunks that are empty go back to the system when
 * slab_trim() finds more of them than may soon be needed.  So what a slab holds follows what is in
 * use, up to what a few blocks in each page can keep from being empty; `held` says how much that
 * is.
 *
 * Taking and giving back are a few instructions, and never walk over anything that grows.  That is
 * what malloc cannot promise: it puts off work and then does all of it at once, in the middle of a
 * turn.
 *
 * One thread at a time.  Nothing here blocks; slab_take() answers NULL when the system has no
 * memory.
 */
#ifndef ORR_LUA_ISOLATE_SLAB_H
#define ORR_LUA_ISOLATE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SLAB_PAGE = 4096,
    SLAB_GRAIN = 16,
    SLAB_LARGEST = 256,
    SLAB_CLASSES = SLAB_LARGEST / SLAB_GRAIN,
};

struct slab_chunk;

struct slab_page {
    void *free;    /* the first of its free blocks */
    unsigned used; /* blocks that are taken */
    uint16_t kind; /* its class */
    /* Whether it is in `partial`: it is neither the current one, nor full */
    uint16_t listed;
    struct slab_page *next; /* in `partial`, or among its chunk's free pages */
    struct slab_page *previous;
    struct slab_chunk *chunk;
};

struct slab {
    struct slab_page *current[SLAB_CLASSES]; /* where blocks are taken from */
    struct slab_page *partial[SLAB_CLASSES]; /* others with a free block */
    struct slab_chunk *chunks;               /* all */
    struct slab_chunk *roomy;                /* those with a free page */
    size_t held;                             /* bytes in pages that are in use */
    size_t mapped;                           /* bytes in chunks */
};

void slab_open(struct slab *slab);

/* Gives empty chunks back to the system: all, or all but for half of what is in use. */
void slab_trim(struct slab *slab, bool all);

/* Whether a block is in one of the slab's chunks.  Walks over all of them. */
bool slab_has(const struct slab *slab, const void *block);

/* Bytes in pages that are in use. */
static inline size_t slab_held(const struct slab *slab)
{
    return slab->held;
}

/* Unmaps everything, whatever is still taken. */
void slab_close(struct slab *slab);

/*
 * What the two below leave to be done: the current page has no free block; the page was full, or
 * has become empty.
 */
void *slab_take_slow(struct slab *slab, unsigned kind);
void slab_settle(struct slab *slab, struct slab_page *page);

/* A block of `size` bytes, 1 to SLAB_LARGEST, aligned to 16. */
static inline void *slab_take(struct slab *slab, size_t size)
{
    unsigned kind = (unsigned)((size - 1) / SLAB_GRAIN);
    struct slab_page *page = slab->current[kind];
    void *block = page->free;
    if (__builtin_expect(!block, 0))
        return slab_take_slow(slab, kind);
    page->free = *(void **)block;
    page->used++;
    return block;
}

/* Gives back a block that slab_take() has answered. */
static inline void slab_give(struct slab *slab, void *block)
{
    struct slab_page *page = (struct slab_page *)((uintptr_t)block & ~(uintptr_t)(SLAB_PAGE - 1));
    void *next = page->free;
    *(void **)block = next;
    page->free = block;
    if (__builtin_expect(--page->used == 0 || !next, 0))
        slab_settle(slab, page);
}

/* The bytes that a block may use, of which fewer were asked for. */
static inline size_t slab_size(const void *block)
{
    const struct slab_page *page = (const struct slab_page *)((uintptr_t)block & ~(uintptr_t)(SLAB_PAGE - 1));
    return ((size_t)page->kind + 1) * SLAB_GRAIN;
}

#endif
