/* Making, starting, cancelling and freeing timers: the functions orr_timer_*. */
#include "time/control.h"

#include "base/barrier.h"
#include "base/cpu.h"
#include "time/handover.h"
#include "time/move.h"
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

/*
 * Where the calling thread makes a timer, if it may use it without a lock.  Few timers are in the
 * cache anyway: for them the kernel need not be asked for barriers.
 */
static const struct timer_shard *owner_of_new(const struct timers *timers, bool local)
{
    const struct timer_shard *shard = timer_shard_current;
    bool own = shard && shard->timers == timers && !local;
    return own && timer_pool_live(&timers->pool) >= TIMER_FEW && barrier_is_possible() ? shard : NULL;
}

int timer_new(struct timers *timers, const struct orr_timer_options *what, struct orr_timer **out)
{
    struct orr_timer *timer = timer_pool_take(&timers->pool, &timers->alloc, timers);
    if (!timer)
        return -ENOMEM;
    timers_retain(timers);
    uint64_t word = what->local ? TIMER_LOCAL : 0;
    const struct timer_shard *shard = owner_of_new(timers, what->local);
    if (shard)
        word = timer_with_shard(word, shard) | TIMER_OWN;
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

/* --- Starting --------------------------------------------------------------------------------- */

/* The timer is locked. */
static inline uint64_t set_times(struct orr_timer *timer, uint64_t word, uint64_t deadline, uint64_t repeat)
{
    atomic_store_explicit(&timer->deadline, deadline, memory_order_relaxed);
    if (!repeat)
        return word & ~TIMER_REPEATS;
    timer_more(timer)->repeat = repeat;
    return word | TIMER_REPEATS;
}

/* Starts a timer in the wheel of the calling thread's shard, which has it, or none has. */
static inline uint64_t start_here(struct timer_shard *shard, struct orr_timer *timer, uint64_t word, uint64_t deadline)
{
    struct wheel_entry *entry = &timer->entry;
    if (!(word & TIMER_LINKED)) {
        wheel_insert(&shard->wheel, entry, deadline);
        word = timer_with_shard(word, shard) | TIMER_LINKED;
        shard->last_started = timer;
        shard->changed = true;
    } else if (word & TIMER_MOVING || wheel_may_wait(&shard->wheel, entry, deadline)) {
        /* The entry stays where it is: see timer.h.  If it is MOVING, it moves soon anyway. */
    } else if (deadline < entry->deadline && timer_moves_later(shard, timer, word)) {
        word = timer_move_soon(shard, timer, word);
    } else {
        wheel_remove(&shard->wheel, entry);
        wheel_insert(&shard->wheel, entry, deadline);
    }
    return timer_in_order(word & ~TIMER_GUEST, shard);
}

/* Counts the start of a LINKED timer, before its word changes. */
static void count_restart(struct timer_shard *shard, uint64_t word, bool own)
{
    if (word & TIMER_SCHEDULED)
        count_rearm(shard, own);
    else if (!(word & TIMER_MOVING))
        take_garbage_back(shard);
}

/* Restarts a LINKED timer of another's shard: by letter if the wheel would be too late. */
static uint64_t restart_there(struct orr_timer *timer, uint64_t word, uint64_t deadline, bool *post)
{
    count_restart(timers_shard(timer_owner(timer), timer_shard_number(word)), word, false);
    if (deadline >= timer->entry.deadline || word & TIMER_POSTED)
        return word;
    *post = true;
    return word | TIMER_POSTED;
}

/* Starts a timer that is in no shard, by letter. */
static uint64_t start_by_letter(struct orr_timer *timer, uint64_t word, bool *post)
{
    struct timer_shard *shard = timers_least_loaded(timer_owner(timer));
    *post = true;
    /* Until its owner publishes the true count. */
    atomic_fetch_add_explicit(&shard->load, 1, memory_order_relaxed);
    return timer_with_shard(word & ~TIMER_GUEST, shard) | TIMER_POSTED;
}

/*
 * A timer that was freed while its callback runs cannot start.  A local timer needs a worker that
 * lives.
 */
static int may_start_elsewhere(const struct orr_timer *timer, uint64_t word)
{
    if (word & TIMER_FREED)
        return -EINVAL;
    if (!(word & TIMER_LOCAL))
        return 0;
    struct timer_shard *shard = timer_shard_current;
    if (!shard || shard->timers != timer_owner(timer))
        return -EPERM;
    return atomic_load_explicit(&shard->living, memory_order_relaxed) ? 0 : -ESHUTDOWN;
}

/* Starts a timer of another shard, one on its way, or one where this thread has no shard. */
static __attribute__((noinline)) int start_elsewhere(struct orr_timer *timer, uint64_t deadline, uint64_t repeat)
{
    struct timers *timers = timer_owner(timer);
    if (atomic_load_explicit(&timers->closed, memory_order_acquire))
        return -ESHUTDOWN;
    bool post = false;
    timer_share(timer);
    uint64_t word = timer_lock(timer);
    int refused = may_start_elsewhere(timer, word);
    if (refused) {
        timer_unlock(timer, word);
        return refused;
    }
    word = set_times(timer, word, deadline, repeat);
    /*
     * A timer that is SCHEDULED but not LINKED is on its way, or due and waiting for its own
     * callback: it is found there with the new time.
     */
    if (word & TIMER_LINKED)
        word = restart_there(timer, word, deadline, &post);
    else if (word & TIMER_SCHEDULED)
        count_rearm(timers_shard(timers, timer_shard_number(word)), false);
    else if (!(word & TIMER_POSTED))
        word = start_by_letter(timer, word, &post);
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

/* Whether a locked timer is in the calling thread's shard, or in none. */
static inline bool is_here(const struct timer_shard *shard, uint64_t word)
{
    if (word & TIMER_LINKED)
        return timer_is_of(word, shard);
    return !(word & (TIMER_SCHEDULED | TIMER_POSTED | TIMER_FREED));
}

/* The calling thread's shard, if it can hold this timer. */
static inline struct timer_shard *shard_for(const struct orr_timer *timer)
{
    struct timer_shard *shard = timer_shard_current;
    return shard && shard->timers == timer_owner(timer) && atomic_load_explicit(&shard->living, memory_order_relaxed)
               ? shard
               : NULL;
}

int orr_timer_start_at(struct orr_timer *timer, uint64_t deadline, uint64_t repeat)
{
    if (!timer)
        return -EINVAL;
    struct timer_shard *shard = shard_for(timer);
    if (!shard)
        return start_elsewhere(timer, deadline, repeat);
    timer_make_room(shard);
    uint64_t word = timer_lock_here(shard, timer);
    if (!is_here(shard, word)) {
        timer_unlock_here(shard, timer, word);
        /* Nobody but us can bring it here meanwhile. */
        return start_elsewhere(timer, deadline, repeat);
    }
    if (word & TIMER_LINKED)
        count_restart(shard, word, true);
    if (!(word & TIMER_SCHEDULED))
        counter_add(&shard->scheduled, 1);
    word = set_times(timer, word, deadline, repeat);
    word = start_here(shard, timer, word, deadline);
    timer_unlock_here(shard, timer, (word & ~TIMER_STOPPED) | TIMER_SCHEDULED);
    return 0;
}

int orr_timer_start(struct orr_timer *timer, uint64_t delay, uint64_t repeat)
{
    if (!timer)
        return -EINVAL;
    return orr_timer_start_at(timer, clock_after(timers_now(timer_owner(timer)), delay), repeat);
}

int orr_timer_again(struct orr_timer *timer)
{
    if (!timer)
        return -EINVAL;
    timer_share(timer);
    uint64_t word = timer_lock(timer);
    uint64_t repeat = word & TIMER_REPEATS ? timer_more(timer)->repeat : 0;
    timer_unlock(timer, word);
    return repeat ? orr_timer_start(timer, repeat, repeat) : -EINVAL;
}

/* --- Cancelling ------------------------------------------------------------------------------- */

/* Cancels a timer that is in the wheel of the calling thread's shard; false if it is not. */
static inline bool cancel_here(struct timer_shard *shard, struct orr_timer *timer)
{
    uint64_t word;
    timer_make_room(shard);
    if (!timer_try_lock_here(shard, timer, &word))
        return false;
    if (!timer_has(word, TIMER_SCHEDULED | TIMER_LINKED) || !timer_is_of(word, shard)) {
        timer_unlock_here(shard, timer, word);
        return false;
    }
    if (timer_moves_later(shard, timer, word)) {
        word = timer_move_soon(shard, timer, word);
    } else {
        wheel_remove(&shard->wheel, &timer->entry);
        word &= ~TIMER_LINKED;
    }
    if (word & TIMER_RUNNING)
        word |= TIMER_STOPPED;
    timer_unlock_here(shard, timer, word & ~TIMER_SCHEDULED);
    shard->changed = true;
    counter_subtract(&shard->scheduled, 1);
    counter_add(&shard->cancelled, 1);
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
    if ((word & (TIMER_LINKED | TIMER_MOVING)) == TIMER_LINKED)
        leave_garbage(shard);
    else if (shard->bell && was_last(shard))
        tell_owner(shard); /* which may have dropped the timer before it was counted */
    return true;
}

/* Cancels a timer that is in another's shard, or in none, or that another thread has locked. */
static __attribute__((noinline)) int cancel_anywhere(struct orr_timer *timer)
{
    const struct timer_shard *current = timer_shard_current;
    timer_share(timer);
    for (unsigned tries = 1;; tries++) {
        uint64_t word = atomic_load_explicit(&timer->word, memory_order_acquire);
        struct timer_shard *shard = timers_shard(timer_owner(timer), timer_shard_number(word));
        bool own = current && shard == current;
        if (word & TIMER_LOCKED) {
            if (tries % 64)
                cpu_relax();
            else
                sched_yield();
        } else if (own && timer_has(word, TIMER_SCHEDULED | TIMER_LINKED)) {
            if (cancel_here(shard, timer))
                return ORR_CANCELLED;
        } else if (word & TIMER_SCHEDULED) {
            if (cancel_foreign(shard, timer, word)) {
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

int orr_timer_cancel(struct orr_timer *timer)
{
    if (!timer)
        return -EINVAL;
    struct timer_shard *shard = timer_shard_current;
    if (shard && shard->timers == timer_owner(timer) && cancel_here(shard, timer))
        return ORR_CANCELLED;
    return cancel_anywhere(timer);
}

uint64_t orr_timer_due_in(struct orr_timer *timer)
{
    if (!timer || !(atomic_load_explicit(&timer->word, memory_order_acquire) & TIMER_SCHEDULED))
        return ORR_NEVER;
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    uint64_t now = timers_now(timer_owner(timer));
    return deadline > now ? deadline - now : 0;
}

uint64_t orr_timer_missed(struct orr_timer *timer)
{
    return timer ? atomic_load_explicit(&timer_more(timer)->missed, memory_order_relaxed) : 0;
}

void orr_timer_free(struct orr_timer *timer)
{
    if (!timer)
        return;
    orr_timer_cancel(timer);
    struct timer_shard *own = timer_shard_current;
    if (timer_load(timer) & TIMER_MOVING && own && own->timers == timer_owner(timer))
        shard_make_moves(own);
    timer_share(timer);
    uint64_t word = timer_lock(timer) | TIMER_FREED | TIMER_STOPPED;
    struct timer_shard *shard = timers_shard(timer_owner(timer), timer_shard_number(word));
    if (word & TIMER_LINKED && shard == timer_shard_current) {
        wheel_remove(&shard->wheel, &timer->entry); /* another thread had cancelled it */
        counter_add(&shard->scrubbed, 1);
        word &= ~TIMER_LINKED;
    }
    timer_unlock(timer, word);
    timer_settle(timer, word);
}
