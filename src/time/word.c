#include "time/word.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "time/timers.h"

#include <sched.h>

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
