/* Counters of preemptions and time-outs.  The isolate's worker's thread. */
#ifndef ORR_LUA_LIMITS_STATISTICS_H
#define ORR_LUA_LIMITS_STATISTICS_H

#include <stdint.h>

struct limit_statistics {
    uint64_t preemptions; /* slices that were suspended */
    uint64_t timeouts;    /* calls and tasks that were ended */
};

static inline void statistics_count_preemption(struct limit_statistics *self)
{
    self->preemptions++;
}

static inline void statistics_count_timeout(struct limit_statistics *self)
{
    self->timeouts++;
}

static inline void statistics_reset(struct limit_statistics *self)
{
    *self = (struct limit_statistics){ 0 };
}

/* Returns a copy of the counters, for the host and for scripts. */
static inline struct limit_statistics statistics_read(const struct limit_statistics *self)
{
    return *self;
}

#endif
