/*
 * The timers of a runtime: its clock, the shards of its timers, and the time service.
 *
 * Every timer holds a reference to its struct timers, so that a timer may be used after its runtime
 * is gone: the struct timers is closed then, and refuses.
 *
 * The time service is a thread, started when it is first needed.  It takes in the timers of shards
 * that have closed, or are not attended any more, and hands each to an attended shard.  While there
 * is none it holds them, and when the timers are closed they complete as cancelled.  Until they
 * have another shard, they count in the *unowned* shard, which no worker owns and which is never
 * attended.  While somebody reads the time that workers publish, the service keeps that fresh for
 * workers in the middle of a long turn, and nudges those that are past a deadline.  Otherwise it
 * sleeps without end.
 */
#ifndef ORR_TIME_TIMERS_H
#define ORR_TIME_TIMERS_H

#include "base/bell.h"
#include "base/clock.h"
#include "base/log.h"
#include "time/pool.h"
#include "time/timer.h"

#include <pthread.h>

struct timers {
    struct alloc alloc;
    struct log log;
    struct timer_pool pool;
    _Atomic uint64_t references;
    void (*wake)(struct orr_waker waker);
    void (*sleep_over)(struct sleeper *sleeper, unsigned part_of);
    void (*need_service)(struct timers *timers); /* starts or wakes the time service */
    _Atomic bool closed;

    enum orr_clock clock;
    _Atomic uint64_t virtual_now;

    /* The time service. */
    pthread_mutex_t lock; /* held while the thread is started */
    bool started;
    pthread_t thread;
    struct bell bell;
    struct mailbox orphans;
    _Atomic bool stopping;
    _Atomic uint64_t wanted_until; /* until then published times are kept fresh */
    struct letter *held;           /* the service's own; after its end, the closing thread's */
    _Atomic uint64_t held_count;
    _Atomic unsigned attended_shards;
    /*
     * Requests to hand on what is held, since a shard is attended again; each counts in
     * `in_transit`, too.
     */
    _Atomic uint64_t recalls;
    _Atomic uint64_t in_transit; /* orphans that no shard has received yet */
    _Atomic uint64_t moves;      /* moves of timers between shards that have begun */
    _Atomic uint64_t wake_ups, dropped, lag;

    unsigned shard_count;
    size_t size; /* bytes of the allocation at `block` */
    void *block;
    struct timer_shard shards[]; /* behind them the unowned shard */
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

/* Moves a virtual clock forward by `ns`, at most to the end of time. */
void timers_advance_by(struct timers *timers, uint64_t ns);

static inline struct timer_shard *timers_shard(struct timers *timers, unsigned number)
{
    return &timers->shards[number];
}

/* The unowned shard: where timers count that have no shard at the moment. */
static inline struct timer_shard *timers_unowned(struct timers *timers)
{
    return &timers->shards[timers->shard_count];
}

/* Whether any shard is attended.  Any thread. */
static inline bool timers_is_attended(struct timers *timers)
{
    return atomic_load_explicit(&timers->attended_shards, memory_order_relaxed);
}

#endif
