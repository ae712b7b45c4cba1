/*
 * The memory of a runtime's timers.
 *
 * What starting and cancelling touch is one cache line, and these lines lie side by side: among a
 * million timers, how many lines and pages an operation touches is what it costs.  So timers come
 * from blocks of many.  A block has the lines first and the rest of each timer behind them.  The
 * first blocks are small, so that one timer costs little; later ones have as many timers as there
 * are already, up to a limit.  A block is freed with the last of its timers.
 *
 * Where there are very many timers, the processor has to look up the page of almost every line that
 * it touches.  Then blocks are large enough for huge pages, and ask the kernel for them.
 *
 * Any thread may make and free timers: a mutex guards the pool, for some dozen instructions and, at
 * times, one call of the allocator.
 */
#ifndef ORR_TIME_POOL_H
#define ORR_TIME_POOL_H

#include "base/alloc.h"
#include "base/list.h"
#include "time/timer.h"

#include <pthread.h>

struct timer_pool {
    pthread_mutex_t lock;
    struct orr_link blocks; /* blocks that have room */
    _Atomic size_t live;    /* timers in use; any thread reads */
};

/*
 * `fresh` timers at the end were never used, so making a block touches none of its lines.  The
 * others that are free are in `unused`, linked by their letters.  Threads read `owner` and `lines`
 * at any time; the pool's mutex guards the rest.
 */
struct timer_block {
    struct timers *owner;
    struct orr_timer *lines; /* begin inside the allocation, behind `more` */
    struct orr_link in_pool; /* in a list of its own while the block is full */
    struct letter *unused;
    unsigned count, fresh, used;
    struct timer_more more[];
};

static inline struct timers *timer_owner(const struct orr_timer *timer)
{
    return timer->block->owner;
}

static inline struct timer_more *timer_more(const struct orr_timer *timer)
{
    return &timer->block->more[timer - timer->block->lines];
}

static inline struct orr_timer *timer_of_letter(struct letter *letter)
{
    struct timer_more *more = container_of(letter, struct timer_more, letter);
    return &more->block->lines[more - more->block->more];
}

/* How many timers are in use, or were a moment ago.  Any thread. */
static inline size_t timer_pool_live(const struct timer_pool *pool)
{
    return atomic_load_explicit(&pool->live, memory_order_relaxed);
}

void timer_pool_init(struct timer_pool *pool);

/* No timer is in use any more. */
void timer_pool_end(struct timer_pool *pool);

/* A timer of `owner`, otherwise zero; NULL when there is no memory. */
struct orr_timer *timer_pool_take(struct timer_pool *pool, const struct alloc *alloc, struct timers *owner);

/* The allocator is that of the timer's birth. */
void timer_pool_give(struct timer_pool *pool, const struct alloc *alloc, struct orr_timer *timer);

#endif
