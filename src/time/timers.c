#include "time/timers.h"

#include "time/service.h"

#include <errno.h>
#include <string.h>

enum { LINE = 64 };

static size_t timers_size(unsigned shards)
{
    return sizeof(struct timers) + (shards + 1) * sizeof(struct timer_shard) + LINE; /* with the limbo */
}

int timers_open(struct timers **out, const struct timers_config *config)
{
    size_t size = timers_size(config->shards);
    char *block = alloc_zeroed(&config->alloc, size);
    if (!block)
        return -ENOMEM;
    /* So that the stripes of the shards are cache lines. */
    size_t shards = (size_t)(uintptr_t)block + sizeof(struct timers);
    struct timers *timers = (struct timers *)(block + (LINE - shards % LINE) % LINE);
    timers->block = block;
    timers->size = size;
    timers->alloc = config->alloc;
    timers->log = config->log;
    timers->wake = config->wake;
    timers->rouse = config->rouse;
    timers->references = 1;
    timers->clock = config->clock;
    timers->shard_count = config->shards;
    timers->virtual_now = NS_PER_SECOND; /* any time will do, but 0 is easily mistaken for none */
    pthread_mutex_init(&timers->lock, NULL);
    for (unsigned i = 0; i < config->shards; i++)
        shard_open(timers_shard(timers, i), timers, i, timers_now(timers));
    timers_limbo(timers)->timers = timers;
    timers_limbo(timers)->number = config->shards;
    *out = timers;
    return 0;
}

void timers_retain(struct timers *timers)
{
    atomic_fetch_add_explicit(&timers->references, 1, memory_order_relaxed);
}

void timers_release(struct timers *timers)
{
    if (atomic_fetch_sub_explicit(&timers->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&timers->lock);
    struct alloc alloc = timers->alloc;
    alloc_free(&alloc, timers->block, timers->size);
}

void timers_advance(struct timers *timers, uint64_t now)
{
    uint64_t before = atomic_load_explicit(&timers->virtual_now, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak_explicit(&timers->virtual_now, &before, now,
                                                                  memory_order_acq_rel, memory_order_relaxed))
        continue;
}

void timers_advance_by(struct timers *timers, uint64_t ns)
{
    uint64_t before = atomic_load_explicit(&timers->virtual_now, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&timers->virtual_now, &before, clock_after(before, ns),
                                                  memory_order_acq_rel, memory_order_relaxed))
        continue;
}

bool timers_idle(struct timers *timers)
{
    /* A timer that moves while we add up may be seen in neither shard; but then a move has begun, and we look again. */
    for (;;) {
        uint64_t moves = atomic_load(&timers->moves);
        int64_t sum = 0;
        for (unsigned i = 0; i <= timers->shard_count; i++) /* with the limbo */
            sum += timer_scheduled(timers_shard(timers, i));
        if (sum != 0 || atomic_load(&timers->moves) == moves)
            return sum == 0;
    }
}

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
        timers_move_count(timers_shard(timer->timers, timer_shard_number(word)), shard);
    return timer_with_shard(word, shard);
}

struct timer_shard *timers_least_loaded(struct timers *timers)
{
    struct timer_shard *best = timers_limbo(timers);
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

/* Worker 1 listens to its bell before it looks whether anything is in transit: so either it sees that nothing is, or it is rung. */
void timers_arrived(struct timers *timers, uint64_t count)
{
    if (count && atomic_fetch_sub(&timers->in_transit, count) == count && timers->clock == ORR_CLOCK_VIRTUAL)
        bell_ring(timers_shard(timers, 0)->bell);
}

void timers_recall(struct timers *timers)
{
    atomic_fetch_add(&timers->in_transit, 1);
    atomic_fetch_add(&timers->recalls, 1);
    service_need(timers);
}

bool timers_post(struct timers *timers, struct timer_shard *shard, struct orr_timer *timer)
{
    struct bell *bell = shard->bell; /* whoever has the letter may fire and free the timer, and then the timers */
    if (shard == timers_limbo(timers) || !mailbox_post(&shard->mailbox, &timer->letter))
        return timers_orphan(timers, timer);
    bell_ring(bell);
    return true;
}

void timers_unpost(struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer);
    if (word & TIMER_SCHEDULED)
        timer_count(timers_shard(timer->timers, timer_shard_number(word)), false, -1);
    word &= ~(TIMER_SCHEDULED | TIMER_POSTED);
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

bool timers_orphan(struct timers *timers, struct orr_timer *timer)
{
    timers_retain(timers); /* as in timers_post() */
    atomic_fetch_add(&timers->in_transit, 1);
    uint64_t word = timer_lock(timer);
    if (!(word & TIMER_LINKED)) /* else its shard is closing, and about to send it away */
        word = timers_count_at(timer, word, timers_limbo(timers));
    timer_unlock(timer, word);
    bool posted = mailbox_post(&timers->orphans, &timer->letter);
    if (posted)
        service_need(timers);
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
        word += TIMER_GENERATION;
        if (word & TIMER_CALLS) {
            timer_unlock(timer, word | TIMER_RUNNING);
            timer->action.fire(timer, timer->data, -ECANCELED);
            word = timer_lock(timer) & ~(TIMER_RUNNING | TIMER_STOPPED);
        }
    }
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

static void complete_all(struct timers *timers, struct letter *letter)
{
    while (letter) {
        struct letter *next = letter->next;
        timers_complete_as_cancelled(timers, container_of(letter, struct orr_timer, letter));
        letter = next;
    }
}

void timers_close(struct timers *timers)
{
    atomic_store_explicit(&timers->closed, true, memory_order_release);
    service_stop(timers);
    complete_all(timers, timers->held);
    complete_all(timers, mailbox_close(&timers->orphans));
    timers_release(timers);
}

uint64_t timers_published(struct timers *timers, unsigned number)
{
    struct timer_shard *shard = timers_shard(timers, number);
    if (timers->clock == ORR_CLOCK_MONOTONIC && atomic_load_explicit(&shard->turning, memory_order_relaxed)) {
        service_want_times(timers);
        return atomic_load_explicit(&shard->now, memory_order_relaxed);
    }
    return timers_now(timers); /* an owner that sleeps publishes nothing, and needs nobody to */
}
