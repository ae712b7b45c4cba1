#include "time/word.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "time/timers.h"

#include <sched.h>
#include <time.h>

_Thread_local struct timer_shard *timer_shard_current __attribute__((tls_model("initial-exec")));

uint64_t timer_lock_slowly(struct orr_timer *timer)
{
    uint64_t word;
    for (unsigned tries = 1; !timer_try_lock(timer, &word); tries++) {
        if (tries % 64)
            cpu_relax();
        else
            sched_yield(); /* the holder has lost its core */
    }
    return word;
}

/*
 * The kernel refuses the barrier, though it was possible: somebody has set a filter of system calls
 * meanwhile.  What the owner has written is visible to all when its processor has drained its store
 * buffer, which takes less than a microsecond; this waits ten thousand times as long.
 */
static void wait_for_stores(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/*
 * The owner says that it is `changing` a timer, then looks whether the shard is ALONE.  We say that
 * the shard is not, have a barrier in all threads, then look whether the owner is changing one.  If
 * the owner's barrier comes before its look, the owner sees that the shard is not ALONE, and takes
 * the lock.  If it comes after, what the owner said before its look is visible to us, and we wait
 * for it.  So when the shard is SHARED, the owner is in the middle of nothing, and will take locks.
 *
 * Threads that come while another is still at this do the same for themselves.
 */
static __attribute__((noinline)) void share(struct timer_shard *shard)
{
    unsigned alone = SHARD_ALONE;
    atomic_compare_exchange_strong_explicit(&shard->users, &alone, SHARD_SHARING, memory_order_relaxed,
                                            memory_order_relaxed);
    if (!barrier_in_all_threads())
        wait_for_stores();
    for (unsigned tries = 1; atomic_load_explicit(&shard->changing, memory_order_acquire); tries++) {
        if (tries % 64)
            cpu_relax();
        else
            sched_yield(); /* the owner has lost its core */
    }
    /* Release: whoever reads this sees what the owner did without locks. */
    atomic_store_explicit(&shard->users, SHARD_SHARED, memory_order_release);
}

void timer_share(struct orr_timer *timer)
{
    uint64_t word = atomic_load_explicit(&timer->word, memory_order_acquire);
    if (!(word & TIMER_OWN))
        return;
    struct timer_shard *shard = timers_shard(timer_owner(timer), timer_shard_number(word));
    if (shard != timer_shard_current && atomic_load_explicit(&shard->users, memory_order_acquire) != SHARD_SHARED)
        share(shard);
}

void timer_settle(struct orr_timer *timer, uint64_t word)
{
    if (!(word & TIMER_FREED) || word & TIMER_HELD)
        return;
    struct timers *timers = timer_owner(timer);
    timer_pool_give(&timers->pool, &timers->alloc, timer);
    timers_release(timers);
}

uint64_t timer_next_repeat(struct orr_timer *timer, uint64_t deadline, uint64_t now)
{
    uint64_t repeat = timer_more(timer)->repeat;
    uint64_t skipped = now > deadline ? (now - deadline) / repeat : 0;
    if (skipped)
        atomic_fetch_add_explicit(&timer_more(timer)->missed, skipped, memory_order_relaxed);
    return clock_after(deadline, (skipped + 1) * repeat);
}

struct timer_stripe *timer_own_stripe(struct timer_shard *shard)
{
    static _Atomic unsigned threads;
    static _Thread_local unsigned own __attribute__((tls_model("initial-exec")));
    if (!own)
        own = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % TIMER_STRIPES;
    return &shard->stripes[own - 1];
}

void timer_count(struct timer_shard *shard, bool own, int change)
{
    if (own)
        counter_add(&shard->scheduled, (uint64_t)(int64_t)change);
    else
        atomic_fetch_add(&timer_own_stripe(shard)->scheduled, change);
}

int64_t timer_scheduled(struct timer_shard *shard)
{
    int64_t sum = (int64_t)counter_read(&shard->scheduled);
    for (unsigned i = 0; i < TIMER_STRIPES; i++)
        sum += atomic_load(&shard->stripes[i].scheduled);
    return sum;
}
