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
    /* The sleeper's time has come; on the thread of its shard's owner. */
    void (*sleep_over)(struct sleeper *sleeper, unsigned part_of);
};

int timers_open(struct timers **out, const struct timers_config *config);

/*
 * Closes the timers after every shard has closed.  Timers that are left complete as cancelled, here
 * and now.
 */
void timers_close(struct timers *timers);

/* Whether no timer of any shard is scheduled, or runs.  Any thread. */
bool timers_idle(struct timers *timers);

/*
 * The time that a shard's owner last published; from now on kept fresh to about a millisecond.  Any
 * thread.
 */
uint64_t timers_published(struct timers *timers, unsigned number);

#endif
