#include "time/move.h"

/* Puts the entry of one timer where it belongs: out of the wheel if it was cancelled. */
static void make_move(struct timer_shard *shard, struct orr_timer *timer)
{
    uint64_t word = timer_lock_here(shard, timer) & ~TIMER_MOVING;
    struct wheel_entry *entry = &timer->entry;
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    if (!(word & TIMER_SCHEDULED)) {
        wheel_remove(&shard->wheel, entry);
        word &= ~TIMER_LINKED;
    } else if (deadline <= entry->deadline) { /* if equal, its order has changed */
        wheel_remove(&shard->wheel, entry);
        wheel_restore(&shard->wheel, entry, deadline);
    }
    timer_unlock_here(shard, timer, word);
    timer_settle(timer, word);
}

void timer_make_moves(struct timer_shard *shard)
{
    for (unsigned i = 0; i < shard->move_count; i++)
        make_move(shard, shard->moves[i]);
    shard->move_count = 0;
}
