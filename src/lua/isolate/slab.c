#include "lua/isolate/slab.h"

#include "base/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

enum {
    HEADER = (sizeof(struct slab_page) + SLAB_GRAIN - 1) / SLAB_GRAIN * SLAB_GRAIN,
};

struct slab_chunk {
    struct slab_chunk *next, *previous;
    struct slab_chunk *next_roomy, *previous_roomy;
    struct slab_page *free; /* free pages that were in use before */
    char *base;
    unsigned pages, used;
    unsigned touched; /* pages from this index on have never been in use */
    bool roomy;       /* the chunk is in the list `roomy` */
};

/* The current page of a class that has no page yet.  It looks full.  Nobody writes to it. */
static struct slab_page nothing;

void slab_open(struct slab *slab)
{
    *slab = (struct slab){ 0 };
    for (int kind = 0; kind < SLAB_CLASSES; kind++)
        slab->current[kind] = &nothing;
}

/* --- Chunks ----------------------------------------------------------------------------------- */

static void add_roomy(struct slab *slab, struct slab_chunk *chunk)
{
    chunk->roomy = true;
    chunk->previous_roomy = NULL;
    chunk->next_roomy = slab->roomy;
    if (slab->roomy)
        slab->roomy->previous_roomy = chunk;
    slab->roomy = chunk;
}

static void remove_roomy(struct slab *slab, struct slab_chunk *chunk)
{
    chunk->roomy = false;
    if (chunk->previous_roomy)
        chunk->previous_roomy->next_roomy = chunk->next_roomy;
    else
        slab->roomy = chunk->next_roomy;
    if (chunk->next_roomy)
        chunk->next_roomy->previous_roomy = chunk->previous_roomy;
}

/*
 * A small state maps little; a large one asks the system rarely.  Chunks of a very large one are
 * huge pages, because its collector touches all of them in no order.
 */
static size_t next_chunk_size(const struct slab *slab)
{
    if (slab->mapped < 256 * KB)
        return 64 * KB;
    return slab->mapped < 4 * MB ? 256 * KB : slab->mapped < 32 * MB ? MB : PAGES_HUGE;
}

static char *map_bytes(size_t size)
{
    if (size == PAGES_HUGE)
        return pages_map_huge(size);
    char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static struct slab_chunk *map_chunk(struct slab *slab)
{
    size_t size = next_chunk_size(slab);
    struct slab_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->base = map_bytes(size);
    if (!chunk->base) {
        free(chunk);
        return NULL;
    }
    chunk->pages = (unsigned)(size / SLAB_PAGE);
    chunk->next = slab->chunks;
    if (slab->chunks)
        slab->chunks->previous = chunk;
    slab->chunks = chunk;
    slab->mapped += size;
    add_roomy(slab, chunk);
    return chunk;
}

static void unmap_chunk(struct slab *slab, struct slab_chunk *chunk)
{
    if (chunk->roomy)
        remove_roomy(slab, chunk);
    if (chunk->previous)
        chunk->previous->next = chunk->next;
    else
        slab->chunks = chunk->next;
    if (chunk->next)
        chunk->next->previous = chunk->previous;
    slab->mapped -= (size_t)chunk->pages * SLAB_PAGE;
    munmap(chunk->base, (size_t)chunk->pages * SLAB_PAGE);
    free(chunk);
}

bool slab_has(const struct slab *slab, const void *block)
{
    for (const struct slab_chunk *chunk = slab->chunks; chunk; chunk = chunk->next)
        if ((uintptr_t)block - (uintptr_t)chunk->base < (size_t)chunk->pages * SLAB_PAGE)
            return true;
    return false;
}

void slab_close(struct slab *slab)
{
    while (slab->chunks)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        unmap_chunk(slab, slab->chunks);
    slab_open(slab);
}

/* --- Pages ------------------------------------------------------------------------------------ */

static struct slab_page *take_page(struct slab *slab)
{
    struct slab_chunk *chunk = slab->roomy ? slab->roomy : map_chunk(slab);
    if (!chunk)
        return NULL;
    struct slab_page *page = chunk->free;
    if (page)
        chunk->free = page->next;
    else
        page = (struct slab_page *)(chunk->base + (size_t)chunk->touched++ * SLAB_PAGE);
    if (++chunk->used == chunk->pages)
        remove_roomy(slab, chunk);
    page->chunk = chunk;
    slab->held += SLAB_PAGE;
    return page;
}

static void give_page(struct slab *slab, struct slab_page *page)
{
    struct slab_chunk *chunk = page->chunk;
    page->next = chunk->free;
    chunk->free = page;
    slab->held -= SLAB_PAGE;
    if (!chunk->roomy)
        add_roomy(slab, chunk);
    --chunk->used;
}

void slab_trim(struct slab *slab, bool all)
{
    size_t spare = all ? 0 : slab->held / 2 + MB;
    for (struct slab_chunk *chunk = slab->roomy, *next; chunk; chunk = next) {
        next = chunk->next_roomy;
        if (!chunk->used && slab->mapped > slab->held + spare)
            unmap_chunk(slab, chunk);
    }
}

/*
 * Links all blocks of a page into its free list, in the order of their addresses.  The blocks end
 * where the page ends.  So a block whose size is a power of two is aligned to it, and a table of
 * Lua, which has 56 bytes, lies in one line of the cache.
 */
static void cut(struct slab_page *page, unsigned kind)
{
    size_t size = (kind + 1) * (size_t)SLAB_GRAIN;
    char *end = (char *)page + SLAB_PAGE, *last = end - size;
    char *first = end - (SLAB_PAGE - HEADER) / size * size;
    for (char *block = first; block < last; block += size)
        *(void **)block = block + size;
    *(void **)last = NULL;
    page->free = first;
    page->used = 0;
    page->kind = (uint16_t)kind;
    page->listed = false;
}

static void list(struct slab *slab, struct slab_page *page)
{
    struct slab_page **first = &slab->partial[page->kind];
    page->listed = true;
    page->previous = NULL;
    page->next = *first;
    if (*first)
        (*first)->previous = page;
    *first = page;
}

static void unlist(struct slab *slab, struct slab_page *page)
{
    page->listed = false;
    if (page->previous)
        page->previous->next = page->next;
    else
        slab->partial[page->kind] = page->next;
    if (page->next)
        page->next->previous = page->previous;
}

void *slab_take_slow(struct slab *slab, unsigned kind)
{
    struct slab_page *page = slab->partial[kind];
    if (page) {
        unlist(slab, page);
    } else {
        page = take_page(slab);
        if (!page)
            return NULL;
        cut(page, kind);
    }
    slab->current[kind] = page; /* the old current page is full, and in no list */
    void *block = page->free;
    page->free = *(void **)block;
    page->used++;
    return block;
}

void slab_settle(struct slab *slab, struct slab_page *page)
{
    if (page == slab->current[page->kind])
        return;
    if (page->used) {
        list(slab, page); /* the page was full */
        return;
    }
    if (page->listed)
        unlist(slab, page);
    give_page(slab, page);
}
