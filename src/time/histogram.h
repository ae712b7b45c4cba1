/*
 * Counts durations in classes a quarter of a power of two wide, so that a quantile is right to a
 * fifth.  One thread writes, any may read.
 */
#ifndef ORR_TIME_HISTOGRAM_H
#define ORR_TIME_HISTOGRAM_H

#include "base/counter.h"

enum { HISTOGRAM_CLASSES = 4 * 63 };

struct histogram {
    struct counter classes[HISTOGRAM_CLASSES];
    struct counter longest;
};

/* Four classes for each power of two from 4 on; below, a class for each number. */
static inline unsigned histogram_class(uint64_t ns)
{
    if (ns < 4)
        return (unsigned)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns);
    return 4 * (power - 1) + (unsigned)(ns >> (power - 2) & 3);
}

/* The longest duration of a class. */
static inline uint64_t histogram_limit(unsigned class)
{
    if (class < 4)
        return class;
    unsigned power = class / 4 + 1;
    return ((UINT64_C(5) + class % 4) << (power - 2)) - 1;
}

static inline void histogram_add(struct histogram *histogram, uint64_t ns)
{
    counter_add(&histogram->classes[histogram_class(ns)], 1);
    if (ns > counter_read(&histogram->longest))
        counter_add(&histogram->longest, ns - counter_read(&histogram->longest));
}

#endif
