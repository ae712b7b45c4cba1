#include "time/pool.h"

#include "base/pages.h"

enum {
    FEWEST = 4,
    MOST = 512,
    /* From MANY timers on, blocks have LARGE, and lie on huge pages: see pool.h. */
    MANY = 1 << 17,
    LARGE = 1 << 16,
};

void timer_pool_init(struct timer_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    list_init(&pool->blocks);
    atomic_init(&pool->live, 0);
}

void timer_pool_end(struct timer_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
}

static size_t block_size(unsigned count)
{
    return sizeof(struct timer_block) + count * (sizeof(struct timer_more) + sizeof(struct orr_timer)) + TIMER_LINE;
}

static unsigned next_count(const struct timer_pool *pool)
{
    size_t live = timer_pool_live(pool);
    if (live >= MANY)
        return LARGE;
    return live < FEWEST ? FEWEST : live < MOST ? (unsigned)live : MOST;
}

static struct timer_block *new_block(struct timer_pool *pool, const struct alloc *alloc, struct timers *owner)
{
    unsigned count = next_count(pool);
    struct timer_block *block = alloc_new(alloc, block_size(count));
    if (!block)
        return NULL;
    if (count == LARGE)
        pages_want_huge(block, block_size(count));
    char *end = (char *)&block->more[count];
    *block = (struct timer_block){ .owner = owner, .count = count, .fresh = count };
    block->lines = (struct orr_timer *)(end + -(uintptr_t)end % TIMER_LINE);
    list_append(&pool->blocks, &block->in_pool);
    return block;
}

/* Changes the count.  The mutex is held. */
static void count(struct timer_pool *pool, int change)
{
    size_t live = atomic_load_explicit(&pool->live, memory_order_relaxed);
    atomic_store_explicit(&pool->live, live + (size_t)change, memory_order_relaxed);
}

/* Takes a free place of a block that has one. */
static struct timer_more *take_place(struct timer_block *block)
{
    struct timer_more *more;
    if (block->unused) {
        more = container_of(block->unused, struct timer_more, letter);
        block->unused = block->unused->next;
    } else {
        more = &block->more[block->count - block->fresh--];
    }
    if (++block->used == block->count)
        list_remove(&block->in_pool);
    return more;
}

struct orr_timer *timer_pool_take(struct timer_pool *pool, const struct alloc *alloc, struct timers *owner)
{
    struct orr_timer *timer = NULL;
    pthread_mutex_lock(&pool->lock);
    struct timer_block *block = list_empty(&pool->blocks)
                                    ? new_block(pool, alloc, owner)
                                    : container_of(pool->blocks.next, struct timer_block, in_pool);
    if (block) {
        struct timer_more *more = take_place(block);
        timer = &block->lines[more - block->more];
        *more = (struct timer_more){ .block = block };
        *timer = (struct orr_timer){ .block = block };
        count(pool, 1);
    }
    pthread_mutex_unlock(&pool->lock);
    return timer;
}

void timer_pool_give(struct timer_pool *pool, const struct alloc *alloc, struct orr_timer *timer)
{
    struct timer_more *more = timer_more(timer);
    struct timer_block *block = timer->block;
    pthread_mutex_lock(&pool->lock);
    count(pool, -1);
    if (block->used-- == block->count)
        list_append(&pool->blocks, &block->in_pool);
    more->letter.next = block->unused;
    block->unused = &more->letter;
    if (block->used)
        block = NULL;
    else
        list_remove(&block->in_pool);
    pthread_mutex_unlock(&pool->lock);
    if (block)
        alloc_free(alloc, block, block_size(block->count));
}
