/*
 * The timekeeper of a runtime: its clock, the homes of its timers, and the time service.
 *
 * Every timer holds a reference to its keeper, so that a timer may be used after its runtime is gone: the keeper then
 * is closed, and refuses.
 *
 * The time service is a thread, started when it is first needed.  It takes in the timers of homes that have closed, or are attended no
 * more, and hands each to an attended home; while there is none it holds them, and when the keeper closes they complete as
 * cancelled.  Until they have another home, they count in the *limbo*, a home that nobody owns and that is never attended.  While somebody reads the time that workers publish, it keeps that fresh for workers in the middle of
 * a long turn, from the clock, and nudges those that have overslept a deadline.  Otherwise it sleeps without end.
 */
#ifndef ORR_TIME_KEEPER_H
#define ORR_TIME_KEEPER_H

#include "base/bell.h"
#include "base/clock.h"
#include "base/log.h"
#include "time/home.h"
#include "time/timer.h"

#include <pthread.h>

struct timekeeper {
    struct alloc alloc;
    struct log log;
    _Atomic uint64_t references;
    void (*wake)(struct orr_waker waker);
    void (*rouse)(struct sleeper *sleeper, unsigned part_of);
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
    _Atomic unsigned attended_homes;
    _Atomic uint64_t recalls;    /* of what is held, since a home is attended again: each is in transit, too */
    _Atomic uint64_t in_transit; /* orphans that are with nobody yet */
    _Atomic uint64_t moves;      /* begun, of timers that count in one home and then in another */
    _Atomic uint64_t wake_ups, dropped, lag;

    unsigned home_count;
    size_t size; /* of the allocation that begins at `block` */
    void *block;
    struct timer_home homes[]; /* and behind them the limbo */
};

struct timekeeper_config {
    unsigned homes;
    enum orr_clock clock;
    struct alloc alloc;
    struct log log;
    void (*wake)(struct orr_waker waker);
    void (*rouse)(struct sleeper *sleeper, unsigned part_of); /* on the thread of its home's owner */
};

int keeper_open(struct timekeeper **out, const struct timekeeper_config *config);

/* Every home has closed.  What is left completes as cancelled, here and now. */
void keeper_close(struct timekeeper *keeper);

void keeper_retain(struct timekeeper *keeper);
void keeper_release(struct timekeeper *keeper);

static inline uint64_t keeper_now(const struct timekeeper *keeper)
{
    if (keeper->clock == ORR_CLOCK_MONOTONIC)
        return clock_now();
    return atomic_load_explicit(&keeper->virtual_now, memory_order_acquire);
}

/* Moves a virtual clock forward to a time, never back. */
void keeper_advance(struct timekeeper *keeper, uint64_t now);

/* Moves it on by so much, to the end of all time at the most. */
void keeper_advance_by(struct timekeeper *keeper, uint64_t ns);

static inline struct timer_home *keeper_home(struct timekeeper *keeper, unsigned number)
{
    return &keeper->homes[number];
}

/* Where timers count that have no home at the moment. */
static inline struct timer_home *keeper_limbo(struct timekeeper *keeper)
{
    return &keeper->homes[keeper->home_count];
}

/* The living home with the fewest timers; the limbo if none lives.  Any thread. */
struct timer_home *keeper_least_loaded(struct timekeeper *keeper);

/* Sends a timer, POSTED, to a home, or to the service if that has closed.  False if all is closed.  Any thread. */
bool keeper_post(struct timekeeper *keeper, struct timer_home *home, struct orr_timer *timer);

/* A timer, locked, with this word, and in no wheel: it counts at a home from now on, if it counts.  Answers the word that says so. */
uint64_t keeper_count_at(struct orr_timer *timer, uint64_t word, struct timer_home *home);

/* Whether any home is attended.  Any thread. */
static inline bool keeper_is_attended(struct timekeeper *keeper)
{
    return atomic_load_explicit(&keeper->attended_homes, memory_order_relaxed);
}

/*
 * So many timers and recalls are in transit no more.  A virtual clock stands still while any is, and worker 1 moves it on: that is woken
 * after the last.  Any thread.
 */
void keeper_arrived(struct timekeeper *keeper, uint64_t count);

/* There is a home again that is attended: the service is to hand on what it holds.  Any thread. */
void keeper_recall(struct timekeeper *keeper);

/* For a timer that could be posted nowhere: it is not scheduled any more. */
void keeper_unpost(struct orr_timer *timer);

/* Gives a timer, POSTED, to the service.  False if the keeper is closed.  Any thread. */
bool keeper_orphan(struct timekeeper *keeper, struct orr_timer *timer);

/* For a timer, POSTED, that nobody will fire any more.  Its callback is told. */
void keeper_complete_as_cancelled(struct timekeeper *keeper, struct orr_timer *timer);

/* Whether no timer of any home is scheduled, or runs.  Any thread. */
bool keeper_idle(struct timekeeper *keeper);

/* A timer that counted in `from` counts in `to` now.  Any thread. */
void keeper_move_count(struct timer_home *from, struct timer_home *to);

/* The time that a home's owner last published, fresh to about a millisecond from now on.  Any thread. */
uint64_t keeper_published(struct timekeeper *keeper, unsigned number);

#endif
