/*
 * A counter that one thread writes and any may read.  A relaxed load and store compile to a plain
 * add; there is no read-modify-write, because there is no second writer.
 */
#ifndef ORR_BASE_COUNTER_H
#define ORR_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

struct counter {
    _Atomic uint64_t value;
};

static inline uint64_t counter_read(const struct counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

static inline void counter_add(struct counter *counter, uint64_t amount)
{
    atomic_store_explicit(&counter->value, counter_read(counter) + amount, memory_order_relaxed);
}

static inline void counter_subtract(struct counter *counter, uint64_t amount)
{
    atomic_store_explicit(&counter->value, counter_read(counter) - amount, memory_order_relaxed);
}

#endif
