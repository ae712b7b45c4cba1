/* The timers of a runtime as a whole: opening and closing them, and what they tell the runtime. */
#ifndef ORR_TIME_OPEN_H
#define ORR_TIME_OPEN_H

#include "time/timers.h"

struct timers_config {
    unsigned shards;
    enum orr_clock clock;
    struct alloc alloc;
    struct log log;
    void (*wake)(struct orr_waker waker);
    void (*rouse)(struct sleeper *sleeper, unsigned part_of); /* on the thread of its shard's owner */
};

int timers_open(struct timers **out, const struct timers_config *config);

/* Every shard has closed.  What is left completes as cancelled, here and now. */
void timers_close(struct timers *timers);

/* Whether no timer of any shard is scheduled, or runs.  Any thread. */
bool timers_idle(struct timers *timers);

/*
 * The time that a shard's owner last published, fresh to about a millisecond from now on.  Any
 * thread.
 */
uint64_t timers_published(struct timers *timers, unsigned number);

#endif
