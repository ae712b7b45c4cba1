#include "time/timers.h"

void timers_retain(struct timers *timers)
{
    atomic_fetch_add_explicit(&timers->references, 1, memory_order_relaxed);
}

void timers_release(struct timers *timers)
{
    if (atomic_fetch_sub_explicit(&timers->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&timers->lock);
    timer_pool_end(&timers->pool);
    struct alloc alloc = timers->alloc;
    alloc_free(&alloc, timers->block, timers->size);
}

void timers_advance(struct timers *timers, uint64_t now)
{
    uint64_t before = atomic_load_explicit(&timers->virtual_now, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak_explicit(&timers->virtual_now, &before, now,
                                                                  memory_order_acq_rel, memory_order_relaxed))
        continue;
}

void timers_advance_by(struct timers *timers, uint64_t ns)
{
    uint64_t before = atomic_load_explicit(&timers->virtual_now, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&timers->virtual_now, &before, clock_after(before, ns),
                                                  memory_order_acq_rel, memory_order_relaxed))
        continue;
}
