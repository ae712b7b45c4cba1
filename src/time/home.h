/*
 * The owner's side of timers: what a worker does with its home in a turn, and when it ends.  All of it on the thread of
 * the home's owner.
 */
#ifndef ORR_TIME_HOME_H
#define ORR_TIME_HOME_H

#include "time/timer.h"

enum {
    HOME_LETTERS = 1024,          /* timers received in a turn, at most */
    HOME_FIRES = 1024,            /* timers taken in a turn, at most, while nothing else limits them */
    HOME_SCRUB_TURNS = 16,        /* short turns are many, and looking costs: one in so many looks for garbage */
    HOME_SCRUB_STEPS = 16,        /* entries looked at then */
    HOME_SCRUB_HARD_STEPS = 2048, /* the same, when garbage has got the upper hand */
    HOME_GARBAGE_SHARE = 8,       /* which it has when it is more than one part in so many */
};

void home_open(struct timer_home *home, struct timekeeper *keeper, unsigned number, uint64_t now);

/*
 * Somebody turns the home's owner from now on; or nobody does.  Then the timers that the time service has sent here go back to it, and it
 * hands them on.  But if no other home is attended, this one stays so: there is no better place.  The owner's thread, or before there is one.
 */
void home_attend(struct timer_home *home);
void home_unattend(struct timer_home *home);

/* Posts a letter if the home is attended.  False if it did not: the letter is the caller's still.  The time service. */
bool home_send(struct timer_home *home, struct letter *letter);

/* What others have cancelled, and is still in the wheel.  Any thread. */
uint64_t home_garbage(struct timer_home *home);

/* Whether others have left something here.  Sequentially consistent, as leaving it is.  Any thread. */
static inline bool home_has_news(struct timer_home *home)
{
    return !mailbox_empty(&home->mailbox) || atomic_load(&home->littered);
}

/* Takes in timers that others have posted. */
void home_receive(struct timer_home *home);

/* Fires what is due at `now`, up to so many.  Callbacks run here. */
void home_fire(struct timer_home *home, uint64_t now, unsigned fires);

/* Has `sleeper`, which is not set, handed to the keeper's `rouse` at its time, with what it is part of. */
static inline void home_sleep(struct timer_home *home, struct sleeper *sleeper, unsigned part_of, uint64_t deadline)
{
    sleeper->word = TIMER_LOCAL | TIMER_SLEEPER | TIMER_SCHEDULED | part_of * TIMER_GENERATION;
    wheel_insert(&home->wheel, &sleeper->entry, deadline);
    home->stirred = true;
    timer_count(home, true, 1);
}

/* Takes back a sleeper that is set. */
static inline void home_wake_early(struct timer_home *home, struct sleeper *sleeper)
{
    sleeper->word = 0;
    wheel_remove(&home->wheel, &sleeper->entry);
    home->stirred = true;
    timer_count(home, true, -1);
    counter_add(&home->cancelled, 1);
}

/* Looks for garbage for a while. */
void home_scrub(struct timer_home *home);

/* True if there is so much garbage that the owner should not sleep before it is gone. */
bool home_littered(struct timer_home *home);

/* When a timer is due; ORR_NEVER if there is none. */
static inline uint64_t home_next(const struct timer_home *home)
{
    return wheel_next(&home->wheel);
}

/* How many timers are set here, on their way here included, and what others have cancelled not. */
uint64_t home_pending(struct timer_home *home);

/* When the owner has nothing to do.  True if a timer has come or gone since the last time, and none is left. */
bool home_comes_to_rest(struct timer_home *home);

/* For all to see. */
static inline void home_publish(struct timer_home *home, uint64_t now, bool turning)
{
    atomic_store_explicit(&home->now, now, memory_order_relaxed);
    atomic_store_explicit(&home->next, home_next(home), memory_order_relaxed);
    atomic_store_explicit(&home->turning, turning, memory_order_relaxed);
}

/* Ends the home: nothing reaches it from now on, and what is still to fire goes to the time service. */
void home_close(struct timer_home *home);

#endif
