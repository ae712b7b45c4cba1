/*
 * The owner's side of timers: what a worker does with its shard in a turn, and when it ends.  All
 * of it on the thread of the shard's owner.
 */
#ifndef ORR_TIME_SHARD_H
#define ORR_TIME_SHARD_H

#include "time/move.h"

enum {
    SHARD_LETTERS = 1024,          /* timers received in a turn, at most */
    SHARD_FIRES = 1024,            /* timers fired in a turn, at most */
    SHARD_SCRUB_TURNS = 16,        /* one turn in this many looks for garbage: looking costs */
    SHARD_SCRUB_STEPS = 16,        /* entries looked at in such a turn */
    SHARD_SCRUB_HARD_STEPS = 2048, /* entries looked at when there is much garbage */
    SHARD_GARBAGE_SHARE = 8,       /* much: more than one entry in this many */
};

void shard_open(struct timer_shard *shard, struct timers *timers, unsigned number, uint64_t now);

/*
 * The shard is attended from now on: somebody turns its owner; or it is not.  When it is not any
 * more, the timers that the time service has sent here go back to it, and it hands them on.  But if
 * no other shard is attended, they stay: there is no better shard.  The owner, or before there is
 * one.
 */
void shard_attend(struct timer_shard *shard);
void shard_unattend(struct timer_shard *shard);

/*
 * Posts a letter if the shard is attended.  False if it is not: then the caller still owns the
 * letter.  The time service.
 */
bool shard_send(struct timer_shard *shard, struct letter *letter);

/* Timers that others have cancelled and that are still in the wheel.  Any thread. */
uint64_t shard_garbage(struct timer_shard *shard);

/*
 * Whether other threads have left something here.  Sequentially consistent, as leaving it is.  Any
 * thread.
 */
static inline bool shard_has_news(struct timer_shard *shard)
{
    return !mailbox_empty(&shard->mailbox) || atomic_load(&shard->littered);
}

/* Takes in timers that others have posted. */
void shard_receive(struct timer_shard *shard);

/*
 * Fires up to `fires` timers that are due at `now`.  Callbacks run here.  With `only`, it stops at
 * a timer that calls another function.
 */
void shard_fire(struct timer_shard *shard, uint64_t now, unsigned fires, orr_timer_fn *only);

/*
 * Sets a sleeper that is not set: at its time it is handed to the timers' `sleep_over`, with what
 * it is part of.
 */
static inline void shard_sleep(struct timer_shard *shard, struct sleeper *sleeper, unsigned part_of, uint64_t deadline)
{
    uint64_t word = TIMER_LOCAL | TIMER_SLEEPER | TIMER_SCHEDULED | (uint64_t)part_of << TIMER_SHARD_SHIFT;
    sleeper->word = timer_in_order(word, shard);
    wheel_insert(&shard->wheel, &sleeper->entry, deadline);
    shard->changed = true;
    timer_count(shard, true, 1);
}

/* Takes back a sleeper that is set. */
static inline void shard_wake_early(struct timer_shard *shard, struct sleeper *sleeper)
{
    sleeper->word = 0;
    wheel_remove(&shard->wheel, &sleeper->entry);
    shard->changed = true;
    timer_count(shard, true, -1);
    counter_add(&shard->cancelled, 1);
}

/* Looks for garbage for a while. */
void shard_scrub(struct timer_shard *shard);

/* True if there is so much garbage that the owner should not sleep before it is gone. */
bool shard_littered(struct timer_shard *shard);

/* When a timer is due; ORR_NEVER if there is none. */
static inline uint64_t shard_next(struct timer_shard *shard)
{
    shard_make_moves(shard);
    return wheel_next(&shard->wheel);
}

/*
 * How many timers are set here, including those on their way here, without those that others have
 * cancelled.
 */
uint64_t shard_pending(struct timer_shard *shard);

/*
 * Called when the owner has nothing to do.  True if a timer has come or gone since the last call,
 * and none is left.
 */
bool shard_comes_to_rest(struct timer_shard *shard);

/* Publishes the time and the next deadline for other threads. */
static inline void shard_publish(struct timer_shard *shard, uint64_t now, bool turning)
{
    atomic_store_explicit(&shard->now, now, memory_order_relaxed);
    atomic_store_explicit(&shard->next, shard_next(shard), memory_order_relaxed);
    atomic_store_explicit(&shard->turning, turning, memory_order_relaxed);
}

/*
 * Closes the shard: nothing reaches it from now on, and timers that are still to fire go to the
 * time service.
 */
void shard_close(struct timer_shard *shard);

#endif
