/*
 * The owner's side of timers: what a worker does with its shard in a turn, and when it ends.  All
 * of it on the thread of the shard's owner.
 */
#ifndef ORR_TIME_SHARD_H
#define ORR_TIME_SHARD_H

#include "time/word.h"

enum {
    SHARD_LETTERS = 1024,          /* timers received in a turn, at most */
    SHARD_FIRES = 1024,            /* timers taken in a turn, at most, while nothing else limits them */
    SHARD_SCRUB_TURNS = 16,        /* short turns are many, and looking costs: one in so many looks for garbage */
    SHARD_SCRUB_STEPS = 16,        /* entries looked at then */
    SHARD_SCRUB_HARD_STEPS = 2048, /* the same, when garbage has got the upper hand */
    SHARD_GARBAGE_SHARE = 8,       /* which it has when it is more than one part in so many */
};

void shard_open(struct timer_shard *shard, struct timers *timers, unsigned number, uint64_t now);

/*
 * Somebody turns the shard's owner from now on; or nobody does.  Then the timers that the time
 * service has sent here go back to it, and it hands them on.  But if no other shard is attended,
 * this one stays so: there is no better place.  The owner's thread, or before there is one.
 */
void shard_attend(struct timer_shard *shard);
void shard_unattend(struct timer_shard *shard);

/*
 * Posts a letter if the shard is attended.  False if it did not: the letter is the caller's still.
 * The time service.
 */
bool shard_send(struct timer_shard *shard, struct letter *letter);

/* What others have cancelled, and is still in the wheel.  Any thread. */
uint64_t shard_garbage(struct timer_shard *shard);

/*
 * Whether others have left something here.  Sequentially consistent, as leaving it is.  Any thread.
 */
static inline bool shard_has_news(struct timer_shard *shard)
{
    return !mailbox_empty(&shard->mailbox) || atomic_load(&shard->littered);
}

/* Takes in timers that others have posted. */
void shard_receive(struct timer_shard *shard);

/* Fires what is due at `now`, up to so many.  Callbacks run here. */
void shard_fire(struct timer_shard *shard, uint64_t now, unsigned fires);

/*
 * Has `sleeper`, which is not set, handed to the timers's `rouse` at its time, with what it is part
 * of.
 */
static inline void shard_sleep(struct timer_shard *shard, struct sleeper *sleeper, unsigned part_of, uint64_t deadline)
{
    sleeper->word = TIMER_LOCAL | TIMER_SLEEPER | TIMER_SCHEDULED | part_of * TIMER_GENERATION;
    wheel_insert(&shard->wheel, &sleeper->entry, deadline);
    shard->stirred = true;
    timer_count(shard, true, 1);
}

/* Takes back a sleeper that is set. */
static inline void shard_wake_early(struct timer_shard *shard, struct sleeper *sleeper)
{
    sleeper->word = 0;
    wheel_remove(&shard->wheel, &sleeper->entry);
    shard->stirred = true;
    timer_count(shard, true, -1);
    counter_add(&shard->cancelled, 1);
}

/* Looks for garbage for a while. */
void shard_scrub(struct timer_shard *shard);

/* True if there is so much garbage that the owner should not sleep before it is gone. */
bool shard_littered(struct timer_shard *shard);

/* When a timer is due; ORR_NEVER if there is none. */
static inline uint64_t shard_next(const struct timer_shard *shard)
{
    return wheel_next(&shard->wheel);
}

/* How many timers are set here, on their way here included, and what others have cancelled not. */
uint64_t shard_pending(struct timer_shard *shard);

/*
 * When the owner has nothing to do.  True if a timer has come or gone since the last time, and none
 * is left.
 */
bool shard_comes_to_rest(struct timer_shard *shard);

/* For all to see. */
static inline void shard_publish(struct timer_shard *shard, uint64_t now, bool turning)
{
    atomic_store_explicit(&shard->now, now, memory_order_relaxed);
    atomic_store_explicit(&shard->next, shard_next(shard), memory_order_relaxed);
    atomic_store_explicit(&shard->turning, turning, memory_order_relaxed);
}

/*
 * Ends the shard: nothing reaches it from now on, and what is still to fire goes to the time
 * service.
 */
void shard_close(struct timer_shard *shard);

#endif
