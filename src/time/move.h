/*
 * The moves of a shard: timers whose entries are to be unlinked, or put where their deadlines say,
 * when the neighbours of the entries have come into the cache.  timer.h says why.
 *
 * A timer is noted at most once: MOVING in its word says that it is.  The owner alone sets and
 * clears MOVING, under the timer's lock.  Other threads may cancel, start or free the timer
 * meanwhile; a MOVING timer is LINKED, so its memory stays until the owner has moved it.
 *
 * The owner's thread only.
 */
#ifndef ORR_TIME_MOVE_H
#define ORR_TIME_MOVE_H

#include "time/word.h"

/* Makes all moves. */
void timer_make_moves(struct timer_shard *shard);

/*
 * Makes all moves if there are any.  Comes before each look at the wheel: see timer.h.  Never
 * called with a lock of one of the timers.
 */
static inline void shard_make_moves(struct timer_shard *shard)
{
    if (__builtin_expect(shard->move_count, 0))
        timer_make_moves(shard);
}

/*
 * Whether moving this timer's entry should wait.  One that is due must move at once: nothing may
 * change among those that are being sorted.  Few timers are in the cache anyway.
 */
static inline bool timer_moves_later(const struct timer_shard *shard, const struct orr_timer *timer, uint64_t word)
{
    return word & TIMER_MOVING || (timer->entry.deadline > shard->wheel.elapsed &&
                                   (shard->last_started == timer || shard->wheel.count >= TIMER_FEW));
}

/* Notes a locked, LINKED timer.  There is room: see timer_make_room().  Answers the new word. */
static inline uint64_t timer_move_soon(struct timer_shard *shard, struct orr_timer *timer, uint64_t word)
{
    if (word & TIMER_MOVING)
        return word;
    __builtin_prefetch(timer->entry.link.next, 1);
    __builtin_prefetch(timer->entry.link.prev, 1);
    shard->moves[shard->move_count++] = timer;
    return word | TIMER_MOVING;
}

/* Makes sure that one more timer can be noted.  Called with no lock. */
static inline void timer_make_room(struct timer_shard *shard)
{
    if (__builtin_expect(shard->move_count == TIMER_MOVES, 0))
        timer_make_moves(shard);
}

#endif
