/*
 * An alarm calls a function at a time of the runtime's clock: a timer that is part of another
 * struct, so it needs no memory of its own and setting it cannot fail.  The function is called on
 * the worker's thread, between polls; it may set the alarm again, and free it.
 *
 * An alarm that is set counts as a timer: a virtual clock jumps to it.  All of it belongs to the
 * worker's owner.
 */
#ifndef ORR_EXEC_ALARM_H
#define ORR_EXEC_ALARM_H

#include "exec/wait.h"

struct alarm {
    struct sleeper sleeper;
    void (*ring)(struct alarm *alarm);
};

static inline bool alarm_is_set(const struct alarm *alarm)
{
    return alarm->sleeper.word;
}

/* Sets an alarm in zeroed memory, or one that has rung or was stopped. */
static inline void alarm_set(struct alarm *alarm, struct worker *worker, uint64_t deadline)
{
    shard_sleep(worker->shard, &alarm->sleeper, SLEEPER_OF_ALARM, deadline);
}

/* Does nothing if it is not set. */
static inline void alarm_stop(struct alarm *alarm, struct worker *worker)
{
    if (alarm_is_set(alarm))
        shard_wake_early(worker->shard, &alarm->sleeper);
}

/* For sleep.c: the time has come. */
static inline void alarm_over(struct sleeper *sleeper)
{
    struct alarm *alarm = container_of(sleeper, struct alarm, sleeper);
    alarm->ring(alarm);
}

#endif
