/* Making, starting, cancelling and freeing timers: the functions orr_timer_*. */
#include "time/control.h"

#include "base/cpu.h"
#include "time/handover.h"
#include "time/timers.h"
#include "time/word.h"

#include <errno.h>

/* A shard with more than a few timers is not added up at each cancel. */
enum { DOZENS = 64, FEW = DOZENS * TIMER_STRIPES };

/*
 * Whether the timer that was cancelled was the last of a shard with few: the owner may be waiting
 * for that.  The owner publishes its load before it looks how many are scheduled; this thread
 * changes that count before it looks at the load.  So one of them sees the other.
 */
static bool was_last(struct timer_shard *shard)
{
    return atomic_load(&shard->load) <= FEW && timer_scheduled(shard) <= 0;
}

/* Has the owner look at the shard again, also if it is about to sleep. */
static void tell_owner(struct timer_shard *shard)
{
    atomic_store(&shard->littered, true);
    bell_ring(shard->bell);
}

/* The entry of a cancelled timer stays in the wheel.  Garbage by the dozen wakes the owner. */
static void leave_garbage(struct timer_shard *shard)
{
    int64_t before = atomic_fetch_add_explicit(&timer_own_stripe(shard)->garbage, 1, memory_order_relaxed);
    if (before % DOZENS == DOZENS - 1 || was_last(shard))
        tell_owner(shard);
}

static void take_garbage_back(struct timer_shard *shard)
{
    atomic_fetch_sub_explicit(&timer_own_stripe(shard)->garbage, 1, memory_order_relaxed);
}

static void count_cancel(struct timer_shard *shard, bool own)
{
    if (own)
        counter_add(&shard->cancelled, 1);
    else
        atomic_fetch_add_explicit(&timer_own_stripe(shard)->cancelled, 1, memory_order_relaxed);
}

static void count_rearm(struct timer_shard *shard, bool own)
{
    if (own)
        counter_add(&shard->rearmed, 1);
    else
        atomic_fetch_add_explicit(&timer_own_stripe(shard)->rearmed, 1, memory_order_relaxed);
}

int timer_new(struct timers *timers, const struct orr_timer_options *what, struct orr_timer **out)
{
    struct orr_timer *timer = alloc_zeroed(&timers->alloc, sizeof *timer);
    if (!timer)
        return -ENOMEM;
    timer->timers = timers;
    timers_retain(timers);
    uint64_t word = what->local ? TIMER_LOCAL : 0;
    if (what->fire) {
        word |= TIMER_CALLS;
        timer->action.fire = what->fire;
    } else {
        timer->action.waker = what->waker;
    }
    timer->data = what->data;
    timer_unlock(timer, word);
    *out = timer;
    return 0;
}

/*
 * Restarts a LINKED timer: at once if the shard is ours; by letter if the wheel would be too late.
 */
static uint64_t restart_linked(struct orr_timer *timer, uint64_t word, uint64_t deadline, bool *post)
{
    struct timer_shard *shard = timers_shard(timer->timers, timer_shard_number(word));
    bool own = shard == timer_shard_current;
    if (!(word & TIMER_SCHEDULED))
        take_garbage_back(shard);
    else
        count_rearm(shard, own);
    if (own) {
        if (!wheel_may_wait(&shard->wheel, &timer->entry, deadline)) {
            wheel_remove(&shard->wheel, &timer->entry);
            wheel_insert(&shard->wheel, &timer->entry, deadline);
        }
        word = timer_in_order(word & ~TIMER_GUEST, shard);
    } else if (deadline < timer->entry.deadline && !(word & TIMER_POSTED)) {
        word |= TIMER_POSTED;
        *post = true;
    }
    return word;
}

/* Starts a timer that is in no shard: in ours, or in another by letter. */
static uint64_t start_in_no_shard(struct orr_timer *timer, uint64_t word, uint64_t deadline, bool *post)
{
    struct timer_shard *shard = timer_shard_current;
    word &= ~TIMER_GUEST;
    if (shard && shard->timers == timer->timers && atomic_load_explicit(&shard->living, memory_order_relaxed)) {
        wheel_insert(&shard->wheel, &timer->entry, deadline);
        shard->changed = true;
        return timer_in_order(timer_with_shard(word, shard), shard) | TIMER_LINKED;
    }
    *post = true;
    shard = timers_least_loaded(timer->timers);
    /* Until its owner publishes the true count. */
    atomic_fetch_add_explicit(&shard->load, 1, memory_order_relaxed);
    return timer_with_shard(word, shard) | TIMER_POSTED;
}

/*
 * A timer that was freed while its callback runs cannot start.  A local timer needs a worker that
 * lives.
 */
static int may_start(const struct orr_timer *timer, uint64_t word)
{
    if (word & TIMER_FREED)
        return -EINVAL;
    if (!(word & TIMER_LOCAL))
        return 0;
    struct timer_shard *shard = timer_shard_current;
    if (!shard || shard->timers != timer->timers)
        return -EPERM;
    return atomic_load_explicit(&shard->living, memory_order_relaxed) ? 0 : -ESHUTDOWN;
}

int orr_timer_start_at(struct orr_timer *timer, uint64_t deadline, uint64_t repeat)
{
    if (!timer)
        return -EINVAL;
    struct timers *timers = timer->timers;
    if (atomic_load_explicit(&timers->closed, memory_order_acquire))
        return -ESHUTDOWN;
    bool post = false;
    uint64_t word = timer_lock(timer);
    int refused = may_start(timer, word);
    if (refused) {
        timer_unlock(timer, word);
        return refused;
    }
    atomic_store_explicit(&timer->deadline, deadline, memory_order_relaxed);
    timer->repeat = repeat;
    /*
     * A timer that is SCHEDULED but not LINKED is on its way, or due and waiting for its own
     * callback: it is found there with the new time.
     */
    if (word & TIMER_LINKED)
        word = restart_linked(timer, word, deadline, &post);
    else if (word & TIMER_SCHEDULED)
        count_rearm(timers_shard(timers, timer_shard_number(word)), false);
    else if (!(word & TIMER_POSTED))
        word = start_in_no_shard(timer, word, deadline, &post);
    struct timer_shard *shard = timers_shard(timers, timer_shard_number(word));
    if (!(word & TIMER_SCHEDULED))
        timer_count(shard, shard == timer_shard_current, 1);
    word = (word & ~TIMER_STOPPED) | TIMER_SCHEDULED;
    timer_unlock(timer, word);
    if (!post || timers_post(timers, shard, timer))
        return 0;
    timers_unpost(timer);
    return -ESHUTDOWN;
}

int orr_timer_start(struct orr_timer *timer, uint64_t delay, uint64_t repeat)
{
    if (!timer)
        return -EINVAL;
    return orr_timer_start_at(timer, clock_after(timers_now(timer->timers), delay), repeat);
}

int orr_timer_again(struct orr_timer *timer)
{
    if (!timer)
        return -EINVAL;
    uint64_t word = timer_lock(timer);
    uint64_t repeat = timer->repeat;
    timer_unlock(timer, word);
    return repeat ? orr_timer_start(timer, repeat, repeat) : -EINVAL;
}

/* The owner takes the entry out at once. */
static bool cancel_own(struct timer_shard *shard, struct orr_timer *timer)
{
    uint64_t word;
    if (!timer_try_lock(timer, &word))
        return false;
    if ((word & (TIMER_SCHEDULED | TIMER_LINKED)) != (TIMER_SCHEDULED | TIMER_LINKED)) {
        timer_unlock(timer, word);
        return false;
    }
    wheel_remove(&shard->wheel, &timer->entry);
    shard->changed = true;
    timer_count(shard, true, -1);
    if (word & TIMER_RUNNING)
        word |= TIMER_STOPPED;
    timer_unlock(timer, word & ~(TIMER_SCHEDULED | TIMER_LINKED));
    return true;
}

/* Cancels a timer in another's shard, by the word alone. */
static bool cancel_foreign(struct timer_shard *shard, struct orr_timer *timer, uint64_t word)
{
    uint64_t next = word & ~TIMER_SCHEDULED;
    if (word & TIMER_RUNNING)
        next |= TIMER_STOPPED;
    /*
     * Release and acquire: a timer that fires later sees what we did before, and we see what fired
     * before.
     */
    if (!atomic_compare_exchange_strong_explicit(&timer->word, &word, next, memory_order_acq_rel, memory_order_relaxed))
        return false;
    timer_count(shard, false, -1);
    if (word & TIMER_LINKED)
        leave_garbage(shard);
    else if (shard->bell && was_last(shard))
        tell_owner(shard); /* which may have dropped the timer before it was counted */
    return true;
}

int orr_timer_cancel(struct orr_timer *timer)
{
    if (!timer)
        return -EINVAL;
    for (unsigned tries = 1;; tries++) {
        uint64_t word = atomic_load_explicit(&timer->word, memory_order_acquire);
        struct timer_shard *shard = timers_shard(timer->timers, timer_shard_number(word));
        bool own = shard == timer_shard_current;
        if (word & TIMER_LOCKED) {
            if (tries % 64)
                cpu_relax();
            else
                sched_yield();
        } else if (word & TIMER_SCHEDULED) {
            if (own && word & TIMER_LINKED ? cancel_own(shard, timer) : cancel_foreign(shard, timer, word)) {
                count_cancel(shard, own);
                return ORR_CANCELLED;
            }
        } else if (!(word & TIMER_RUNNING)) {
            return ORR_TOO_LATE;
        } else if (atomic_compare_exchange_strong_explicit(&timer->word, &word, word | TIMER_STOPPED,
                                                           memory_order_relaxed, memory_order_relaxed)) {
            return ORR_RUNNING;
        }
    }
}

uint64_t orr_timer_due_in(struct orr_timer *timer)
{
    if (!timer || !(atomic_load_explicit(&timer->word, memory_order_acquire) & TIMER_SCHEDULED))
        return ORR_NEVER;
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    uint64_t now = timers_now(timer->timers);
    return deadline > now ? deadline - now : 0;
}

uint64_t orr_timer_missed(struct orr_timer *timer)
{
    return timer ? atomic_load_explicit(&timer->missed, memory_order_relaxed) : 0;
}

void orr_timer_free(struct orr_timer *timer)
{
    if (!timer)
        return;
    orr_timer_cancel(timer);
    uint64_t word = timer_lock(timer) | TIMER_FREED | TIMER_STOPPED;
    struct timer_shard *shard = timers_shard(timer->timers, timer_shard_number(word));
    if (word & TIMER_LINKED && shard == timer_shard_current) {
        wheel_remove(&shard->wheel, &timer->entry); /* another thread had cancelled it */
        counter_add(&shard->scrubbed, 1);
        word &= ~TIMER_LINKED;
    }
    timer_unlock(timer, word);
    timer_settle(timer, word);
}
