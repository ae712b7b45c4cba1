#include "time/pool.h"

#include "time/timer.h"

#include <string.h>

enum { FEWEST = 4, MOST = 512 };

/*
 * `fresh` timers at the end were never used, so making a block touches none of its lines.  The
 * others that are free are in `unused`, linked by their letters.
 */
struct timer_block {
    struct orr_link in_pool; /* in a list of its own while the block is full */
    struct letter *unused;
    unsigned count, fresh, used;
    struct orr_timer *timers; /* the first line, which begins inside the allocation */
    struct timer_more more[]; /* then the lines */
};

void timer_pool_init(struct timer_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    list_init(&pool->blocks);
    pool->live = 0;
}

void timer_pool_end(struct timer_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
}

static size_t block_size(unsigned count)
{
    return sizeof(struct timer_block) + count * (sizeof(struct timer_more) + sizeof(struct orr_timer)) + TIMER_LINE;
}

static struct timer_block *new_block(struct timer_pool *pool, const struct alloc *alloc)
{
    size_t like = pool->live < FEWEST ? FEWEST : pool->live < MOST ? pool->live : MOST;
    unsigned count = (unsigned)like;
    struct timer_block *block = alloc_new(alloc, block_size(count));
    if (!block)
        return NULL;
    char *end = (char *)&block->more[count];
    *block = (struct timer_block){ .count = count, .fresh = count };
    block->timers = (struct orr_timer *)(end + -(uintptr_t)end % TIMER_LINE);
    list_append(&pool->blocks, &block->in_pool);
    return block;
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

struct orr_timer *timer_pool_take(struct timer_pool *pool, const struct alloc *alloc)
{
    struct orr_timer *timer = NULL;
    pthread_mutex_lock(&pool->lock);
    struct timer_block *block = list_empty(&pool->blocks)
                                    ? new_block(pool, alloc)
                                    : container_of(pool->blocks.next, struct timer_block, in_pool);
    if (block) {
        struct timer_more *more = take_place(block);
        timer = &block->timers[more - block->more];
        *more = (struct timer_more){ .block = block };
        memset(timer, 0, sizeof *timer);
        timer->more = more;
        pool->live++;
    }
    pthread_mutex_unlock(&pool->lock);
    return timer;
}

void timer_pool_give(struct timer_pool *pool, const struct alloc *alloc, struct orr_timer *timer)
{
    struct timer_more *more = timer->more;
    struct timer_block *block = more->block;
    pthread_mutex_lock(&pool->lock);
    pool->live--;
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

struct orr_timer *timer_of_letter(struct letter *letter)
{
    struct timer_more *more = container_of(letter, struct timer_more, letter);
    return &more->block->timers[more - more->block->more];
}
