/*
 * How a timer gets from one shard to another: by letter, and through the time service when its
 * shard has closed or nobody turns it.  Meanwhile it counts in the limbo.
 */
#ifndef ORR_TIME_HANDOVER_H
#define ORR_TIME_HANDOVER_H

#include "time/timers.h"

/* The living shard with the fewest timers; the limbo if none lives.  Any thread. */
struct timer_shard *timers_least_loaded(struct timers *timers);

/*
 * Sends a timer, POSTED, to a shard, or to the service if that has closed.  False if all is closed.
 * Any thread.
 */
bool timers_post(struct timers *timers, struct timer_shard *shard, struct orr_timer *timer);

/*
 * A timer, locked, with this word, and in no wheel: it counts at a shard from now on, if it counts.
 * Answers the word that says so.
 */
uint64_t timers_count_at(struct orr_timer *timer, uint64_t word, struct timer_shard *shard);

/*
 * So many timers and recalls are in transit no more.  A virtual clock stands still while any is,
 * and worker 1 moves it on: that is woken after the last.  Any thread.
 */
void timers_arrived(struct timers *timers, uint64_t count);

/* There is a shard again that is attended: the service is to hand on what it holds.  Any thread. */
void timers_recall(struct timers *timers);

/* For a timer that could be posted nowhere: it is not scheduled any more. */
void timers_unpost(struct orr_timer *timer);

/* Gives a timer, POSTED, to the service.  False if the timers is closed.  Any thread. */
bool timers_orphan(struct timers *timers, struct orr_timer *timer);

/* For a timer, POSTED, that nobody will fire any more.  Its callback is told. */
void timers_complete_as_cancelled(struct timers *timers, struct orr_timer *timer);

/* A timer that counted in `from` counts in `to` now.  Any thread. */
void timers_move_count(struct timer_shard *from, struct timer_shard *to);

#endif
