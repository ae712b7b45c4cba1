/*
 * The timers of a runtime: its clock, the shards of its timers, and the time service.
 *
 * Every timer holds a reference to its timers, so that a timer may be used after its runtime is
 * gone: the timers then is closed, and refuses.
 *
 * The time service is a thread, started when it is first needed.  It takes in the timers of shards
 * that have closed, or are attended no more, and hands each to an attended shard; while there is
 * none it holds them, and when the timers closes they complete as cancelled.  Until they have
 * another shard, they count in the *limbo*, a shard that nobody owns and that is never attended.
 * While somebody reads the time that workers publish, it keeps that fresh for workers in the middle
 * of a long turn, from the clock, and nudges those that have overslept a deadline.  Otherwise it
 * sleeps without end.
 */
#ifndef ORR_TIME_TIMERS_H
#define ORR_TIME_TIMERS_H

#include "base/bell.h"
#include "base/clock.h"
#include "base/log.h"
#include "time/timer.h"

#include <pthread.h>

struct timers {
    struct alloc alloc;
    struct log log;
    _Atomic uint64_t references;
    void (*wake)(struct orr_waker waker);
    void (*rouse)(struct sleeper *sleeper, unsigned part_of);
    void (*need_service)(struct timers *timers); /* starts or wakes the time service */
    _Atomic bool closed;

    enum orr_clock clock;
    _Atomic uint64_t virtual_now;

    /* The service. */
    pthread_mutex_t lock; /* around starting the thread */
    bool started;
    pthread_t thread;
    struct bell bell;
    struct mailbox orphans;
    _Atomic bool stopping;
    _Atomic uint64_t wanted_until; /* somebody reads published times */
    struct letter *held;           /* the service's own, or its heir's */
    _Atomic uint64_t held_count;
    _Atomic unsigned attended_shards;
    _Atomic uint64_t recalls;    /* of what is held, since a shard is attended again: each is in transit, too */
    _Atomic uint64_t in_transit; /* orphans that are with nobody yet */
    _Atomic uint64_t moves;      /* begun, of timers that count in one shard and then in another */
    _Atomic uint64_t wake_ups, dropped, lag;

    unsigned shard_count;
    size_t size; /* of the allocation that begins at `block` */
    void *block;
    struct timer_shard shards[]; /* and behind them the limbo */
};

void timers_retain(struct timers *timers);
void timers_release(struct timers *timers);

static inline uint64_t timers_now(const struct timers *timers)
{
    if (timers->clock == ORR_CLOCK_MONOTONIC)
        return clock_now();
    return atomic_load_explicit(&timers->virtual_now, memory_order_acquire);
}

/* Moves a virtual clock forward to a time, never back. */
void timers_advance(struct timers *timers, uint64_t now);

/* Moves it on by so much, to the end of all time at the most. */
void timers_advance_by(struct timers *timers, uint64_t ns);

static inline struct timer_shard *timers_shard(struct timers *timers, unsigned number)
{
    return &timers->shards[number];
}

/* Where timers count that have no shard at the moment. */
static inline struct timer_shard *timers_limbo(struct timers *timers)
{
    return &timers->shards[timers->shard_count];
}

/* Whether any shard is attended.  Any thread. */
static inline bool timers_is_attended(struct timers *timers)
{
    return atomic_load_explicit(&timers->attended_shards, memory_order_relaxed);
}

#endif
