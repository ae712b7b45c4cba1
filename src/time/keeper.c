#include "time/keeper.h"

#include "time/service.h"

#include <errno.h>
#include <string.h>

enum { LINE = 64 };

static size_t keeper_size(unsigned homes)
{
    return sizeof(struct timekeeper) + (homes + 1) * sizeof(struct timer_home) + LINE; /* with the limbo */
}

int keeper_open(struct timekeeper **out, const struct timekeeper_config *config)
{
    size_t size = keeper_size(config->homes);
    char *block = alloc_zeroed(&config->alloc, size);
    if (!block)
        return -ENOMEM;
    /* So that the stripes of the homes are cache lines. */
    size_t homes = (size_t)(uintptr_t)block + sizeof(struct timekeeper);
    struct timekeeper *keeper = (struct timekeeper *)(block + (LINE - homes % LINE) % LINE);
    keeper->block = block;
    keeper->size = size;
    keeper->alloc = config->alloc;
    keeper->log = config->log;
    keeper->wake = config->wake;
    keeper->rouse = config->rouse;
    keeper->references = 1;
    keeper->clock = config->clock;
    keeper->home_count = config->homes;
    keeper->virtual_now = NS_PER_SECOND; /* any time will do, but 0 is easily mistaken for none */
    pthread_mutex_init(&keeper->lock, NULL);
    for (unsigned i = 0; i < config->homes; i++)
        home_open(keeper_home(keeper, i), keeper, i, keeper_now(keeper));
    keeper_limbo(keeper)->keeper = keeper;
    keeper_limbo(keeper)->number = config->homes;
    *out = keeper;
    return 0;
}

void keeper_retain(struct timekeeper *keeper)
{
    atomic_fetch_add_explicit(&keeper->references, 1, memory_order_relaxed);
}

void keeper_release(struct timekeeper *keeper)
{
    if (atomic_fetch_sub_explicit(&keeper->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&keeper->lock);
    struct alloc alloc = keeper->alloc;
    alloc_free(&alloc, keeper->block, keeper->size);
}

void keeper_advance(struct timekeeper *keeper, uint64_t now)
{
    uint64_t before = atomic_load_explicit(&keeper->virtual_now, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak_explicit(&keeper->virtual_now, &before, now,
                                                                  memory_order_acq_rel, memory_order_relaxed))
        continue;
}

void keeper_advance_by(struct timekeeper *keeper, uint64_t ns)
{
    uint64_t before = atomic_load_explicit(&keeper->virtual_now, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&keeper->virtual_now, &before, clock_after(before, ns),
                                                  memory_order_acq_rel, memory_order_relaxed))
        continue;
}

bool keeper_idle(struct timekeeper *keeper)
{
    /* A timer that moves while we add up may be seen in neither home; but then a move has begun, and we look again. */
    for (;;) {
        uint64_t moves = atomic_load(&keeper->moves);
        int64_t sum = 0;
        for (unsigned i = 0; i <= keeper->home_count; i++) /* with the limbo */
            sum += timer_scheduled(keeper_home(keeper, i));
        if (sum != 0 || atomic_load(&keeper->moves) == moves)
            return sum == 0;
    }
}

void keeper_move_count(struct timer_home *from, struct timer_home *to)
{
    if (from == to)
        return;
    atomic_fetch_add(&to->keeper->moves, 1);
    timer_count(to, to == timer_home_current, 1);
    timer_count(from, from == timer_home_current, -1);
}

uint64_t keeper_count_at(struct orr_timer *timer, uint64_t word, struct timer_home *home)
{
    if (word & TIMER_SCHEDULED)
        keeper_move_count(keeper_home(timer->keeper, timer_home_number(word)), home);
    return timer_with_home(word, home);
}

struct timer_home *keeper_least_loaded(struct timekeeper *keeper)
{
    struct timer_home *best = keeper_limbo(keeper);
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < keeper->home_count; i++) {
        struct timer_home *home = keeper_home(keeper, i);
        uint64_t load = atomic_load_explicit(&home->load, memory_order_relaxed);
        if (atomic_load_explicit(&home->living, memory_order_acquire) && load < least) {
            best = home;
            least = load;
        }
    }
    return best;
}

/* Worker 1 listens to its bell before it looks whether anything is in transit: so either it sees that nothing is, or it is rung. */
void keeper_arrived(struct timekeeper *keeper, uint64_t count)
{
    if (count && atomic_fetch_sub(&keeper->in_transit, count) == count && keeper->clock == ORR_CLOCK_VIRTUAL)
        bell_ring(keeper_home(keeper, 0)->bell);
}

void keeper_recall(struct timekeeper *keeper)
{
    atomic_fetch_add(&keeper->in_transit, 1);
    atomic_fetch_add(&keeper->recalls, 1);
    service_need(keeper);
}

bool keeper_post(struct timekeeper *keeper, struct timer_home *home, struct orr_timer *timer)
{
    struct bell *bell = home->bell; /* whoever has the letter may fire and free the timer, and then the keeper */
    if (home == keeper_limbo(keeper) || !mailbox_post(&home->mailbox, &timer->letter))
        return keeper_orphan(keeper, timer);
    bell_ring(bell);
    return true;
}

void keeper_unpost(struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer);
    if (word & TIMER_SCHEDULED)
        timer_count(keeper_home(timer->keeper, timer_home_number(word)), false, -1);
    word &= ~(TIMER_SCHEDULED | TIMER_POSTED);
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

bool keeper_orphan(struct timekeeper *keeper, struct orr_timer *timer)
{
    keeper_retain(keeper); /* as in keeper_post() */
    atomic_fetch_add(&keeper->in_transit, 1);
    uint64_t word = timer_lock(timer);
    if (!(word & TIMER_LINKED)) /* else its home is closing, and about to send it away */
        word = keeper_count_at(timer, word, keeper_limbo(keeper));
    timer_unlock(timer, word);
    bool posted = mailbox_post(&keeper->orphans, &timer->letter);
    if (posted)
        service_need(keeper);
    else
        keeper_arrived(keeper, 1);
    keeper_release(keeper);
    return posted;
}

void keeper_complete_as_cancelled(struct timekeeper *keeper, struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer) & ~TIMER_POSTED;
    bool scheduled = word & TIMER_SCHEDULED;
    word &= ~TIMER_SCHEDULED;
    if (scheduled) {
        atomic_fetch_add_explicit(&keeper->dropped, 1, memory_order_relaxed);
        timer_count(keeper_home(keeper, timer_home_number(word)), false, -1);
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

static void complete_all(struct timekeeper *keeper, struct letter *letter)
{
    while (letter) {
        struct letter *next = letter->next;
        keeper_complete_as_cancelled(keeper, container_of(letter, struct orr_timer, letter));
        letter = next;
    }
}

void keeper_close(struct timekeeper *keeper)
{
    atomic_store_explicit(&keeper->closed, true, memory_order_release);
    service_stop(keeper);
    complete_all(keeper, keeper->held);
    complete_all(keeper, mailbox_close(&keeper->orphans));
    keeper_release(keeper);
}

uint64_t keeper_published(struct timekeeper *keeper, unsigned number)
{
    struct timer_home *home = keeper_home(keeper, number);
    if (keeper->clock == ORR_CLOCK_MONOTONIC && atomic_load_explicit(&home->turning, memory_order_relaxed)) {
        service_want_times(keeper);
        return atomic_load_explicit(&home->now, memory_order_relaxed);
    }
    return keeper_now(keeper); /* an owner that sleeps publishes nothing, and needs nobody to */
}
