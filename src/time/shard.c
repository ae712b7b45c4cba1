#include "time/shard.h"

#include "base/cpu.h"
#include "time/handover.h"

#include <limits.h>
#include <sched.h>

static struct orr_timer *timer_of_entry(struct wheel_entry *entry)
{
    return container_of(entry, struct orr_timer, entry);
}

/* An entry may be a sleeper's: then only the word may be read. */
static bool is_sleeper(struct wheel_entry *entry)
{
    return timer_load(timer_of_entry(entry)) & TIMER_SLEEPER;
}

/* --- Attended or not -------------------------------------------------------------------------- */

/*
 * The service holds timers while no shard is attended.  It counts them as held, then looks once
 * more whether a shard is attended; this function says that the shard is attended, then looks
 * whether the service holds any.  All of it is sequentially consistent, so one sees the other.
 * Until the service has handed them on, they are in transit, and a virtual clock stands still.
 */
void shard_attend(struct timer_shard *shard)
{
    struct timers *timers = shard->timers;
    if (atomic_load_explicit(&shard->attended, memory_order_relaxed))
        return;
    atomic_store(&shard->attended, true);
    atomic_fetch_add(&timers->attended_shards, 1);
    if (atomic_load(&timers->held_count))
        timers_recall(timers);
}

static void stop_attending(struct timer_shard *shard)
{
    if (!atomic_load_explicit(&shard->attended, memory_order_relaxed))
        return;
    atomic_store(&shard->attended, false);
    atomic_fetch_sub(&shard->timers->attended_shards, 1);
}

/*
 * The service says that it sends, then looks whether the shard is attended; the owner says that it
 * is not, then looks whether the service sends.  All four are sequentially consistent.  So either
 * the service sees that nobody attends, and does not post; or the owner sees that it sends, waits
 * the few instructions that this takes, and finds the letter.
 */
bool shard_send(struct timer_shard *shard, struct letter *letter)
{
    atomic_store(&shard->sending, true);
    bool sent = atomic_load(&shard->attended) && mailbox_post(&shard->mailbox, letter);
    /* Release: a thread that reads this finds the letter.  Pairs with the load below. */
    atomic_store_explicit(&shard->sending, false, memory_order_release);
    if (sent)
        bell_ring(shard->bell);
    return sent;
}

static void wait_for_service(struct timer_shard *shard)
{
    for (unsigned tries = 1; atomic_load(&shard->sending); tries++) {
        if (tries % 64)
            cpu_relax();
        else
            sched_yield(); /* the service has lost its core */
    }
}

/* Whether the first was started before the other, if the owner started both. */
static bool starts_before(const struct orr_link *first, const struct orr_link *other)
{
    const struct orr_timer *a = container_of(first, const struct orr_timer, entry.link);
    const struct orr_timer *b = container_of(other, const struct orr_timer, entry.link);
    uint64_t ahead = (timer_load(a) & ~TIMER_BELOW_ORDER) - (timer_load(b) & ~TIMER_BELOW_ORDER);
    return (int64_t)ahead < 0;
}

void shard_open(struct timer_shard *shard, struct timers *timers, unsigned number, uint64_t now)
{
    shard->timers = timers;
    shard->number = number;
    shard->owner = TIMER_OWN | (uint64_t)number << TIMER_SHARD_SHIFT;
    wheel_init(&shard->wheel, now, starts_before);
    atomic_store_explicit(&shard->now, now, memory_order_relaxed);
    atomic_store_explicit(&shard->next, ORR_NEVER, memory_order_relaxed);
    atomic_store_explicit(&shard->living, true, memory_order_release);
}

uint64_t shard_garbage(struct timer_shard *shard)
{
    int64_t sum = -(int64_t)counter_read(&shard->scrubbed);
    for (unsigned i = 0; i < TIMER_STRIPES; i++)
        sum += atomic_load_explicit(&shard->stripes[i].garbage, memory_order_relaxed);
    return sum > 0 ? (uint64_t)sum : 0;
}

uint64_t shard_pending(struct timer_shard *shard)
{
    int64_t scheduled = timer_scheduled(shard);
    return scheduled > 0 ? (uint64_t)scheduled : 0;
}

bool shard_comes_to_rest(struct timer_shard *shard)
{
    if (!shard->changed)
        return false;
    /* Published before the count is read again: see leave_garbage() in control.c. */
    atomic_store(&shard->load, shard_pending(shard));
    /*
     * It stays changed: the thread that cancelled the last timer may not have counted that yet,
     * and rings when it has.
     */
    if (timer_scheduled(shard) > 0)
        return false;
    shard->changed = false;
    return true;
}

/* The entry of a cancelled timer is out of the wheel.  The timer is locked. */
static void collect_garbage(struct timer_shard *shard, struct orr_timer *timer, uint64_t word)
{
    shard->changed = true;
    counter_add(&shard->scrubbed, 1);
    word &= ~TIMER_LINKED;
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

/*
 * Shown each entry on the way, which is out of the wheel for the moment: releases garbage, keeps
 * all else.
 */
static bool keep_unless_garbage(void *data, struct wheel_entry *entry)
{
    struct orr_timer *timer = timer_of_entry(entry);
    uint64_t word = timer_load(timer); /* a sleeper is always scheduled */
    if (word & (TIMER_SCHEDULED | TIMER_LOCKED) || !timer_try_lock(timer, &word))
        return true;
    if (word & TIMER_SCHEDULED) {
        timer_unlock(timer, word);
        return true;
    }
    collect_garbage(data, timer, word);
    return false;
}

/*
 * Shown each entry that is spilled, which is out of the wheel for the moment.  One that was
 * re-armed for later goes to its true time.  The timer is locked for that: another thread that
 * re-arms it compares with where the entry is.
 */
static bool keep_at_true_time(void *data, struct wheel_entry *entry)
{
    struct orr_timer *timer = timer_of_entry(entry);
    uint64_t word = timer_load(timer);
    if (word & TIMER_SLEEPER)
        return true;
    if (!(word & TIMER_SCHEDULED))
        return keep_unless_garbage(data, entry);
    if (atomic_load_explicit(&timer->deadline, memory_order_relaxed) <= entry->deadline ||
        !timer_try_lock(timer, &word))
        return true;
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    if (deadline > entry->deadline)
        entry->deadline = deadline;
    timer_unlock(timer, word);
    return true;
}

/* Puts a scheduled, locked timer that is in no wheel into this one, wherever it counted before. */
static uint64_t settle_in(struct timer_shard *shard, struct orr_timer *timer, uint64_t word)
{
    timers_move_count(timers_shard(shard->timers, timer_shard_number(word)), shard);
    wheel_insert(&shard->wheel, &timer->entry, atomic_load_explicit(&timer->deadline, memory_order_relaxed));
    return timer_in_order(timer_with_shard(word, shard), shard) | TIMER_LINKED;
}

static void receive_one(struct timer_shard *shard, struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer) & ~TIMER_POSTED;
    shard->changed = true;
    if (word & TIMER_LINKED && timer_shard_number(word) != shard->number) {
        /* Its shard closed before the letter came there, and is about to send it away. */
        timer_unlock(timer, word);
        return;
    }
    if (word & TIMER_LINKED) {
        wheel_remove(&shard->wheel, &timer->entry);
        if (!(word & TIMER_SCHEDULED)) {
            collect_garbage(shard, timer, word);
            return;
        }
    }
    shard->has_guests |= word & TIMER_GUEST;
    if (word & TIMER_SCHEDULED)
        word = settle_in(shard, timer, word);
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

static void receive(struct timer_shard *shard, unsigned count)
{
    while (shard->letters && count--) {
        struct orr_timer *timer = timer_of_letter(shard->letters);
        shard->letters = shard->letters->next;
        receive_one(shard, timer);
    }
}

void shard_receive(struct timer_shard *shard)
{
    shard_make_moves(shard);
    if (!shard->letters)
        shard->letters = mailbox_take(&shard->mailbox);
    receive(shard, SHARD_LETTERS);
}

/*
 * Sets a locked timer that counts here to its next time, if it repeats; otherwise it counts no
 * more.
 */
static uint64_t repeat_or_rest(struct timer_shard *shard, struct orr_timer *timer, uint64_t word, uint64_t now)
{
    if (!(word & TIMER_REPEATS) || word & TIMER_STOPPED) {
        timer_count(shard, true, -1);
        return word;
    }
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    atomic_store_explicit(&timer->deadline, timer_next_repeat(timer, deadline, now), memory_order_relaxed);
    return settle_in(shard, timer, timer_with_shard(word, shard)) | TIMER_SCHEDULED;
}

/* Runs the callback.  Meanwhile the timer counts here, and once more if any thread starts it. */
static void call_back(struct timer_shard *shard, struct orr_timer *timer, uint64_t word, uint64_t now)
{
    timer_unlock(timer, word | TIMER_RUNNING);
    timer->action.fire(timer, timer->data, 0);
    word = timer_lock(timer) & ~TIMER_RUNNING;
    if (word & (TIMER_SCHEDULED | TIMER_FREED | TIMER_LINKED | TIMER_POSTED))
        timer_count(shard, true, -1);
    else
        word = repeat_or_rest(shard, timer, word, now);
    if (word & TIMER_SCHEDULED && !(word & (TIMER_LINKED | TIMER_POSTED)))
        word = settle_in(shard, timer, word); /* it was due in another shard, and waited for us */
    word &= ~TIMER_STOPPED;
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

/* Fires a due entry that was taken from the wheel.  The timer is locked. */
static void fire_one(struct timer_shard *shard, struct orr_timer *timer, uint64_t word, uint64_t now)
{
    shard->changed = true;
    if (!(word & TIMER_SCHEDULED)) {
        collect_garbage(shard, timer, word);
        return;
    }
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    /* It was re-armed for later.  Others may be due before it, even if it is overdue by now. */
    if (deadline > timer->entry.deadline) {
        wheel_restore(&shard->wheel, &timer->entry, deadline);
        timer_unlock(timer, word);
        return;
    }
    if (word & TIMER_RUNNING) {
        /*
         * Its callback runs on another worker, which takes the timer over when the callback
         * returns.
         */
        timer_unlock(timer, word & ~TIMER_LINKED);
        return;
    }
    counter_add(&shard->fired, 1);
    histogram_add(&shard->lateness, now - deadline);
    word &= ~(TIMER_SCHEDULED | TIMER_LINKED);
    if (word & TIMER_CALLS) {
        call_back(shard, timer, word, now);
        return;
    }
    struct orr_waker waker = timer->action.waker;
    timer_unlock(timer, repeat_or_rest(shard, timer, word, now));
    shard->timers->wake(waker);
}

static void sleep_over(struct timer_shard *shard, struct sleeper *sleeper, uint64_t now)
{
    unsigned part_of = timer_shard_number(sleeper->word);
    shard->changed = true;
    sleeper->word = 0;
    timer_count(shard, true, -1);
    counter_add(&shard->fired, 1);
    histogram_add(&shard->lateness, now - sleeper->entry.deadline);
    shard->timers->sleep_over(sleeper, part_of);
}

/* Whether a timer calls a function.  What it calls never changes: the lock is not needed. */
static bool calls_another(struct orr_timer *timer, orr_timer_fn *only)
{
    return timer_load(timer) & TIMER_CALLS && timer->action.fire != only;
}

void shard_fire(struct timer_shard *shard, uint64_t now, unsigned fires, orr_timer_fn *only)
{
    for (;;) {
        shard_make_moves(shard); /* also those of the last callback */
        struct wheel_entry *entry = wheel_pop(&shard->wheel, now, &fires, keep_at_true_time, shard);
        if (!entry)
            return;
        uint64_t word;
        if (is_sleeper(entry)) {
            sleep_over(shard, container_of(entry, struct sleeper, entry), now);
            continue;
        }
        if ((only && calls_another(timer_of_entry(entry), only)) || !timer_try_lock(timer_of_entry(entry), &word)) {
            /* A thread that has the lock is changing the timer: look again in the next turn. */
            wheel_put_back(&shard->wheel, entry);
            return;
        }
        fire_one(shard, timer_of_entry(entry), word, now);
    }
}

bool shard_littered(struct timer_shard *shard)
{
    if (!atomic_load_explicit(&shard->littered, memory_order_relaxed))
        return false;
    if (shard_garbage(shard) * SHARD_GARBAGE_SHARE > shard->wheel.count)
        return true;
    atomic_store_explicit(&shard->littered, false, memory_order_relaxed);
    return false;
}

void shard_scrub(struct timer_shard *shard)
{
    bool littered = shard_littered(shard);
    if (!littered && ++shard->unscrubbed % SHARD_SCRUB_TURNS)
        return;
    shard_make_moves(shard);
    unsigned steps = littered ? SHARD_SCRUB_HARD_STEPS : SHARD_SCRUB_STEPS;
    wheel_scrub(&shard->wheel, steps, keep_unless_garbage, shard);
}

/*
 * Sends a locked timer that is still to fire, and in no wheel, to the service.  A local one has
 * nowhere to go.
 */
static void send_away(struct timer_shard *shard, struct orr_timer *timer, uint64_t word)
{
    if (!(word & TIMER_LOCAL))
        word = timers_count_at(timer, word & ~TIMER_GUEST, timers_unowned(shard->timers));
    timer_unlock(timer, word | TIMER_POSTED);
    /* Its letter is on the way already: this shard refused it, so it went to the service. */
    if (word & TIMER_POSTED)
        return;
    if (word & TIMER_LOCAL || !timers_orphan(shard->timers, timer)) {
        timers_complete_as_cancelled(shard->timers, timer);
        return;
    }
    counter_add(&shard->migrated, 1);
}

/* Shown each entry, which is out of the wheel for the moment: it stays out if it is sent away. */
static bool keep_unless_guest(void *data, struct wheel_entry *entry)
{
    struct orr_timer *timer = timer_of_entry(entry);
    /* A sleeper's word has the flags of a local timer, never this one. */
    if (!(timer_load(timer) & TIMER_GUEST))
        return true;
    uint64_t word = timer_lock(timer);
    if (word & TIMER_SCHEDULED)
        send_away(data, timer, word & ~TIMER_LINKED);
    else
        collect_garbage(data, timer, word);
    return false;
}

void shard_unattend(struct timer_shard *shard)
{
    bool attended = atomic_load_explicit(&shard->attended, memory_order_relaxed);
    /*
     * No other shard is attended: the timers are as well off here as elsewhere, and need not
     * come again for the next turn.
     */
    if (!attended || atomic_load(&shard->timers->attended_shards) == 1)
        return;
    stop_attending(shard);
    wait_for_service(shard);
    shard_make_moves(shard);
    receive(shard, UINT_MAX);
    shard->letters = mailbox_take(&shard->mailbox);
    receive(shard, UINT_MAX);
    if (!shard->has_guests)
        return;
    shard->has_guests = false;
    shard->changed = true;
    wheel_visit(&shard->wheel, keep_unless_guest, shard);
    shard_publish(shard, timers_now(shard->timers), false);
}

/* No sleeper is left: the tasks have ended. */
void shard_close(struct timer_shard *shard)
{
    atomic_store_explicit(&shard->living, false, memory_order_release);
    stop_attending(shard);
    shard_make_moves(shard);
    receive(shard, UINT_MAX);
    shard->letters = mailbox_close(&shard->mailbox);
    receive(shard, UINT_MAX);
    for (;;) {
        shard_make_moves(shard); /* a callback that was told of the end may have cancelled others */
        struct wheel_entry *entry = wheel_drain(&shard->wheel);
        if (!entry)
            break;
        struct orr_timer *timer = timer_of_entry(entry);
        uint64_t word = timer_lock(timer);
        if (word & TIMER_SCHEDULED)
            send_away(shard, timer, word & ~TIMER_LINKED);
        else
            collect_garbage(shard, timer, word);
    }
    shard_publish(shard, timers_now(shard->timers), false);
}
