#include "time/handover.h"

#include "time/word.h"

#include <errno.h>

void timers_move_count(struct timer_shard *from, struct timer_shard *to)
{
    if (from == to)
        return;
    atomic_fetch_add(&to->timers->moves, 1);
    timer_count(to, to == timer_shard_current, 1);
    timer_count(from, from == timer_shard_current, -1);
}

uint64_t timers_count_at(struct orr_timer *timer, uint64_t word, struct timer_shard *shard)
{
    if (word & TIMER_SCHEDULED)
        timers_move_count(timers_shard(timer_owner(timer), timer_shard_number(word)), shard);
    return timer_with_shard(word, shard);
}

struct timer_shard *timers_least_loaded(struct timers *timers)
{
    struct timer_shard *best = timers_unowned(timers);
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < timers->shard_count; i++) {
        struct timer_shard *shard = timers_shard(timers, i);
        uint64_t load = atomic_load_explicit(&shard->load, memory_order_relaxed);
        if (atomic_load_explicit(&shard->living, memory_order_acquire) && load < least) {
            best = shard;
            least = load;
        }
    }
    return best;
}

/*
 * Worker 1 listens to its bell before it looks whether anything is in transit.  So either it sees
 * that nothing is, or it is rung.
 */
void timers_arrived(struct timers *timers, uint64_t count)
{
    if (count && atomic_fetch_sub(&timers->in_transit, count) == count && timers->clock == ORR_CLOCK_VIRTUAL)
        bell_ring(timers_shard(timers, 0)->bell);
}

void timers_recall(struct timers *timers)
{
    atomic_fetch_add(&timers->in_transit, 1);
    atomic_fetch_add(&timers->recalls, 1);
    timers->need_service(timers);
}

bool timers_post(struct timers *timers, struct timer_shard *shard, struct orr_timer *timer)
{
    /* The receiver of the letter may fire and free the timer, and then the timers. */
    struct bell *bell = shard->bell;
    if (shard == timers_unowned(timers) || !mailbox_post(&shard->mailbox, &timer_more(timer)->letter))
        return timers_orphan(timers, timer);
    bell_ring(bell);
    return true;
}

void timers_unpost(struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer);
    if (word & TIMER_SCHEDULED)
        timer_count(timers_shard(timer_owner(timer), timer_shard_number(word)), false, -1);
    word &= ~(TIMER_SCHEDULED | TIMER_POSTED);
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

bool timers_orphan(struct timers *timers, struct orr_timer *timer)
{
    timers_retain(timers); /* see timers_post() */
    atomic_fetch_add(&timers->in_transit, 1);
    uint64_t word = timer_lock(timer);
    /* A LINKED one is in a closing shard, which is about to send it away. */
    if (!(word & TIMER_LINKED))
        word = timers_count_at(timer, word, timers_unowned(timers));
    timer_unlock(timer, word);
    bool posted = mailbox_post(&timers->orphans, &timer_more(timer)->letter);
    if (posted)
        timers->need_service(timers);
    else
        timers_arrived(timers, 1);
    timers_release(timers);
    return posted;
}

void timers_complete_as_cancelled(struct timers *timers, struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer) & ~TIMER_POSTED;
    bool scheduled = word & TIMER_SCHEDULED;
    word &= ~TIMER_SCHEDULED;
    if (scheduled) {
        atomic_fetch_add_explicit(&timers->dropped, 1, memory_order_relaxed);
        timer_count(timers_shard(timers, timer_shard_number(word)), false, -1);
        if (word & TIMER_CALLS) {
            timer_unlock(timer, word | TIMER_RUNNING);
            timer->action.fire(timer, timer->data, -ECANCELED);
            word = timer_lock(timer) & ~(TIMER_RUNNING | TIMER_STOPPED);
        }
    }
    timer_unlock(timer, word);
    timer_settle(timer, word);
}
