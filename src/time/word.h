/*
 * The word of a timer: its lock, its flags, the shard that it counts in.  timer.h has the rules.
 * Any thread, except where a comment names the owner.
 */
#ifndef ORR_TIME_WORD_H
#define ORR_TIME_WORD_H

#include "time/timer.h"

/* The shard that the calling thread owns at the moment; or NULL. */
extern _Thread_local struct timer_shard *timer_shard_current __attribute__((tls_model("initial-exec")));

static inline unsigned timer_shard_number(uint64_t word)
{
    return (unsigned)(word >> TIMER_SHARD_SHIFT) & TIMER_SHARD_MASK;
}

/* Whether the word names this shard. */
static inline bool timer_is_of(uint64_t word, const struct timer_shard *shard)
{
    return timer_shard_number(word) == shard->number;
}

/* The word of a timer that goes to a shard. */
static inline uint64_t timer_with_shard(uint64_t word, const struct timer_shard *shard)
{
    if (timer_is_of(word, shard))
        return word;
    word &= ~(((uint64_t)TIMER_SHARD_MASK << TIMER_SHARD_SHIFT) | TIMER_OWN);
    return word | (uint64_t)shard->number << TIMER_SHARD_SHIFT;
}

static inline uint64_t timer_load(const struct orr_timer *timer)
{
    return atomic_load_explicit(&timer->word, memory_order_relaxed);
}

/* Takes the lock if it is free; false if it is not. */
static inline bool timer_try_lock(struct orr_timer *timer, uint64_t *word)
{
    *word = timer_load(timer);
    if (*word & TIMER_LOCAL)
        return true;
    return !(*word & TIMER_LOCKED) &&
           atomic_compare_exchange_strong_explicit(&timer->word, word, *word | TIMER_LOCKED, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Waits until the lock is free and takes it.  Answers the word without it. */
uint64_t timer_lock_slowly(struct orr_timer *timer);

/* Takes the lock.  Answers the word without it. */
static inline uint64_t timer_lock(struct orr_timer *timer)
{
    uint64_t word;
    return __builtin_expect(timer_try_lock(timer, &word), 1) ? word : timer_lock_slowly(timer);
}

static inline void timer_unlock(struct orr_timer *timer, uint64_t word)
{
    /* Pairs with the acquire in timer_lock(). */
    atomic_store_explicit(&timer->word, word, memory_order_release);
}

/*
 * Locks a timer for the owner of `shard`, if that can be done at once.  One of its OWN needs no
 * lock while the shard is ALONE.  The other side is timer_share(), which says why that is safe.
 */
static inline bool timer_try_lock_here(struct timer_shard *shard, struct orr_timer *timer, uint64_t *word)
{
    *word = timer_load(timer);
    if (*word & TIMER_LOCAL)
        return true;
    if (__builtin_expect((*word & TIMER_OWNER) != shard->owner, 0))
        return timer_try_lock(timer, word);
    atomic_store_explicit(&shard->changing, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* for the compiler */
    /* If the shard is ALONE now, nobody else has changed the word since it was read. */
    if (__builtin_expect(atomic_load_explicit(&shard->users, memory_order_relaxed) == SHARD_ALONE, 1))
        return true;
    atomic_store_explicit(&shard->changing, false, memory_order_release);
    return timer_try_lock(timer, word);
}

static inline uint64_t timer_lock_here(struct timer_shard *shard, struct orr_timer *timer)
{
    uint64_t word;
    return __builtin_expect(timer_try_lock_here(shard, timer, &word), 1) ? word : timer_lock_slowly(timer);
}

static inline void timer_unlock_here(struct timer_shard *shard, struct orr_timer *timer, uint64_t word)
{
    timer_unlock(timer, word);
    /* Pairs with the acquire in timer_share().  Without a test: it may have been false before. */
    atomic_store_explicit(&shard->changing, false, memory_order_release);
}

/*
 * Has the owner of the timer's shard use locks, if it does not yet.  Every thread calls this before
 * it first changes a timer whose shard it does not own.  Once for each shard, it costs a system
 * call.
 */
void timer_share(struct orr_timer *timer);

/* Whether all bits of `flags` are set. */
static inline bool timer_has(uint64_t word, uint64_t flags)
{
    return (word & flags) == flags;
}

/* The word of a timer or sleeper that is started in a shard now.  The owner. */
static inline uint64_t timer_in_order(uint64_t word, struct timer_shard *shard)
{
    return (word & TIMER_BELOW_ORDER) | ++shard->starts << TIMER_ORDER_SHIFT;
}

/* The calling thread's stripe of a shard; threads are numbered as they come. */
struct timer_stripe *timer_own_stripe(struct timer_shard *shard);

/*
 * Counts a timer.  Every scheduled timer counts in the shard that its word names, and one whose
 * callback runs counts in the shard that runs it.  The sum over all shards is what is still to
 * happen.  `own`: the calling thread is the owner of `shard`.
 */
void timer_count(struct timer_shard *shard, bool own, int change);

/*
 * How many timers are scheduled in a shard.  Exact when nothing changes; never 0 by mistake for one
 * thread's timers.  Any thread.
 */
int64_t timer_scheduled(struct timer_shard *shard);

/*
 * Frees the timer if its user has let go of it and nothing else holds it.  `word` is the word that
 * it was unlocked with.
 */
void timer_settle(struct orr_timer *timer, uint64_t word);

/*
 * The first deadline after `now` that is a multiple of `repeat` after `deadline`; counts those
 * skipped.
 */
uint64_t timer_next_repeat(struct orr_timer *timer, uint64_t deadline, uint64_t now);

#endif
