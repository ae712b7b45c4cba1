/*
 * How a timer gets from one shard to another: by letter, and through the time service when its
 * shard has closed or nobody turns it.  Meanwhile it counts in the unowned shard.
 */
#ifndef ORR_TIME_HANDOVER_H
#define ORR_TIME_HANDOVER_H

#include "time/timers.h"

/* The living shard with the fewest timers; the unowned shard if none lives.  Any thread. */
struct timer_shard *timers_least_loaded(struct timers *timers);

/*
 * Sends a POSTED timer to a shard, or to the service if that shard has closed.  False if all is
 * closed.  Any thread.
 */
bool timers_post(struct timers *timers, struct timer_shard *shard, struct orr_timer *timer);

/*
 * Has a timer count at a shard from now on, if it counts at all.  The timer is locked, has this
 * word, and is in no wheel.  Answers the new word.
 */
uint64_t timers_count_at(struct orr_timer *timer, uint64_t word, struct timer_shard *shard);

/*
 * Ends the transit of `count` timers and recalls.  A virtual clock stands still while any is in
 * transit, and worker 1 moves it on: it is woken after the last.  Any thread.
 */
void timers_arrived(struct timers *timers, uint64_t count);

/* A shard is attended again: the service hands on what it holds.  Any thread. */
void timers_recall(struct timers *timers);

/* A timer could be posted nowhere: it is not scheduled any more. */
void timers_unpost(struct orr_timer *timer);

/* Gives a POSTED timer to the service.  False if the timers are closed.  Any thread. */
bool timers_orphan(struct timers *timers, struct orr_timer *timer);

/* Ends a POSTED timer that nobody will fire any more.  Its callback is told. */
void timers_complete_as_cancelled(struct timers *timers, struct orr_timer *timer);

/* A timer that counted in `from` counts in `to` now.  Any thread. */
void timers_move_count(struct timer_shard *from, struct timer_shard *to);

#endif
