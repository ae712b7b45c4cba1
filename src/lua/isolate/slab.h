/*
 * A slab holds the small blocks of one Lua state: up to SLAB_LARGEST bytes, in size classes 16
 * bytes apart.
 *
 * Blocks live in pages of 4 KB.  A page holds blocks of one class, and pages live in chunks that
 * are mapped from the system.  The page's header is at its beginning, so the address of a block
 * leads to the header.  An empty page goes back to its chunk, for any class.  Empty chunks go back
 * to the system when slab_trim() finds more of them than may soon be needed.  So the pages of a
 * slab follow the blocks in use, but a few blocks can keep each page from being empty.  `held` says
 * how many bytes the pages in use take.  From 32 MB on, chunks are huge pages (base/pages.h): the
 * process holds all of such a chunk when the first of its pages is used.  `held` counts pages of 4
 * KB all the same, so a limit of memory means the same with huge pages and without.
 *
 * Taking a block and giving it back take a few instructions, and never walk over anything that
 * grows. malloc cannot promise that: it puts off work and then does all of it at once, in the
 * middle of a turn.
 *
 * Only one thread at a time may use a slab.  Nothing here blocks. slab_take() returns NULL when the
 * system has no memory.
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
    void *free;    /* the first free block */
    unsigned used; /* number of blocks taken */
    uint16_t kind; /* index of the size class */
    /* Whether the page is in `partial`: it is neither the current page nor full */
    uint16_t listed;
    struct slab_page *next; /* the next in `partial`, or in its chunk's list of free pages */
    struct slab_page *previous;
    struct slab_chunk *chunk;
};

struct slab {
    struct slab_page *current[SLAB_CLASSES]; /* pages that blocks are taken from */
    struct slab_page *partial[SLAB_CLASSES]; /* other pages with a free block */
    struct slab_chunk *chunks;               /* all */
    struct slab_chunk *roomy;                /* chunks with a free page */
    size_t held;                             /* bytes in pages that are in use */
    size_t mapped;                           /* bytes in all chunks */
};

void slab_open(struct slab *slab);

/*
 * Gives empty chunks back to the system: all of them, or all but a reserve of half the bytes held,
 * and a megabyte.
 */
void slab_trim(struct slab *slab, bool all);

/* Whether a block is in a chunk of the slab.  Walks over all chunks. */
bool slab_has(const struct slab *slab, const void *block);

/* Bytes in pages that are in use. */
static inline size_t slab_held(const struct slab *slab)
{
    return slab->held;
}

/* Unmaps all chunks, even if blocks are still taken. */
void slab_close(struct slab *slab);

/*
 * The slow paths of the two functions below.  slab_take_slow(): the current page has no free block.
 * slab_settle(): the page was full, or has become empty.
 */
void *slab_take_slow(struct slab *slab, unsigned kind);
void slab_settle(struct slab *slab, struct slab_page *page);

static inline unsigned slab_kind(size_t size)
{
    return (unsigned)((size - 1) / SLAB_GRAIN);
}

/*
 * A block of `size` bytes, 1 to SLAB_LARGEST, aligned to 16; NULL if the current page of its class
 * is full.
 */
static inline void *slab_take_at_hand(struct slab *slab, size_t size)
{
    struct slab_page *page = slab->current[slab_kind(size)];
    void *block = page->free;
    if (__builtin_expect(!block, 0))
        return NULL;
    page->free = *(void **)block;
    page->used++;
    return block;
}

/* A block of `size` bytes, 1 to SLAB_LARGEST, aligned to 16; NULL for lack of memory. */
static inline void *slab_take(struct slab *slab, size_t size)
{
    void *block = slab_take_at_hand(slab, size);
    return block ? block : slab_take_slow(slab, slab_kind(size));
}

/* Gives back a block that slab_take() returned. */
static inline void slab_give(struct slab *slab, void *block)
{
    struct slab_page *page = (struct slab_page *)((uintptr_t)block & ~(uintptr_t)(SLAB_PAGE - 1));
    void *next = page->free;
    *(void **)block = next;
    page->free = block;
    if (__builtin_expect(--page->used == 0 || !next, 0))
        slab_settle(slab, page);
}

/* The capacity of a block: the size asked for, rounded up to its class. */
static inline size_t slab_size(const void *block)
{
    const struct slab_page *page = (const struct slab_page *)((uintptr_t)block & ~(uintptr_t)(SLAB_PAGE - 1));
    return ((size_t)page->kind + 1) * SLAB_GRAIN;
}

#endif
