#include "time/home.h"

#include "base/cpu.h"
#include "time/keeper.h"

#include <limits.h>
#include <sched.h>

static struct orr_timer *timer_of_entry(struct wheel_entry *entry)
{
    return container_of(entry, struct orr_timer, entry);
}

/* Only the word may be read of what is not known to be a timer. */
static bool is_sleeper(struct wheel_entry *entry)
{
    return timer_load(timer_of_entry(entry)) & TIMER_SLEEPER;
}

static struct orr_timer *timer_of_letter(struct letter *letter)
{
    return container_of(letter, struct orr_timer, letter);
}

/* --- Attended or not ------------------------------------------------------------------------------------------------ */

/*
 * The service holds timers while no home is attended.  It counts them as held, then looks once more whether a home is attended; we say
 * that we are, then look whether it holds any.  All of it is sequentially consistent, so one of us sees the other.  Until the service has
 * seen to it, they are in transit, and a virtual clock stands still.
 */
void home_attend(struct timer_home *home)
{
    struct timekeeper *keeper = home->keeper;
    if (atomic_load_explicit(&home->attended, memory_order_relaxed))
        return;
    atomic_store(&home->attended, true);
    atomic_fetch_add(&keeper->attended_homes, 1);
    if (atomic_load(&keeper->held_count))
        keeper_recall(keeper);
}

static void stop_attending(struct timer_home *home)
{
    if (!atomic_load_explicit(&home->attended, memory_order_relaxed))
        return;
    atomic_store(&home->attended, false);
    atomic_fetch_sub(&home->keeper->attended_homes, 1);
}

/*
 * The service says that it sends, then looks whether the home is attended; the owner says that it is not, then looks whether the service
 * sends.  All four are sequentially consistent: so either the service sees that nobody attends, and does not post; or the owner sees that
 * it sends, waits for the few instructions that it takes, and finds the letter.
 */
bool home_send(struct timer_home *home, struct letter *letter)
{
    atomic_store(&home->sending, true);
    bool sent = atomic_load(&home->attended) && mailbox_post(&home->mailbox, letter);
    /* Release: whoever sees this finds the letter.  Pairs with the load below. */
    atomic_store_explicit(&home->sending, false, memory_order_release);
    if (sent)
        bell_ring(home->bell);
    return sent;
}

static void wait_for_service(struct timer_home *home)
{
    for (unsigned tries = 1; atomic_load(&home->sending); tries++) {
        if (tries % 64)
            cpu_relax();
        else
            sched_yield(); /* it has lost its core */
    }
}

void home_open(struct timer_home *home, struct timekeeper *keeper, unsigned number, uint64_t now)
{
    home->keeper = keeper;
    home->number = number;
    wheel_init(&home->wheel, now);
    atomic_store_explicit(&home->now, now, memory_order_relaxed);
    atomic_store_explicit(&home->next, ORR_NEVER, memory_order_relaxed);
    atomic_store_explicit(&home->living, true, memory_order_release);
}

uint64_t home_garbage(struct timer_home *home)
{
    int64_t sum = -(int64_t)counter_read(&home->scrubbed);
    for (unsigned i = 0; i < TIMER_STRIPES; i++)
        sum += atomic_load_explicit(&home->stripes[i].garbage, memory_order_relaxed);
    return sum > 0 ? (uint64_t)sum : 0;
}

uint64_t home_pending(struct timer_home *home)
{
    int64_t scheduled = timer_scheduled(home);
    return scheduled > 0 ? (uint64_t)scheduled : 0;
}

bool home_comes_to_rest(struct timer_home *home)
{
    if (!home->stirred)
        return false;
    /* Before it is looked at again: see leave_garbage() in timer.c. */
    atomic_store(&home->load, home_pending(home));
    if (timer_scheduled(home) > 0)
        return false; /* stirred it stays: whoever cancelled the last may not have counted it yet, and rings when it has */
    home->stirred = false;
    return true;
}

/* The entry of a timer that somebody cancelled is out of the wheel.  The timer is locked. */
static void collect_garbage(struct timer_home *home, struct orr_timer *timer, uint64_t word)
{
    home->stirred = true;
    counter_add(&home->scrubbed, 1);
    word &= ~TIMER_LINKED;
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

/* For entries met on the way, out of the wheel for the moment: releases garbage, keeps all else. */
static bool keep_unless_garbage(void *data, struct wheel_entry *entry)
{
    struct orr_timer *timer = timer_of_entry(entry);
    uint64_t word = timer_load(timer); /* a sleeper's is always scheduled */
    if (word & (TIMER_SCHEDULED | TIMER_LOCKED) || !timer_try_lock(timer, &word))
        return true;
    if (word & TIMER_SCHEDULED) {
        timer_unlock(timer, word);
        return true;
    }
    collect_garbage(data, timer, word);
    return false;
}

/* Puts a scheduled timer, locked, in no wheel, into this one, wherever it counted before. */
static uint64_t settle_in(struct timer_home *home, struct orr_timer *timer, uint64_t word)
{
    keeper_move_count(keeper_home(home->keeper, timer_home_number(word)), home);
    wheel_insert(&home->wheel, &timer->entry, atomic_load_explicit(&timer->deadline, memory_order_relaxed));
    return timer_with_home(word, home) | TIMER_LINKED;
}

static void receive_one(struct timer_home *home, struct orr_timer *timer)
{
    uint64_t word = timer_lock(timer) & ~TIMER_POSTED;
    home->stirred = true;
    if (word & TIMER_LINKED && timer_home_number(word) != home->number) {
        timer_unlock(timer, word); /* its home closed before the letter came there, and is about to send it away */
        return;
    }
    if (word & TIMER_LINKED) {
        wheel_remove(&home->wheel, &timer->entry);
        if (!(word & TIMER_SCHEDULED)) {
            collect_garbage(home, timer, word);
            return;
        }
    }
    home->has_guests |= word & TIMER_GUEST;
    if (word & TIMER_SCHEDULED)
        word = settle_in(home, timer, word);
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

static void receive(struct timer_home *home, unsigned count)
{
    while (home->letters && count--) {
        struct orr_timer *timer = timer_of_letter(home->letters);
        home->letters = home->letters->next;
        receive_one(home, timer);
    }
}

void home_receive(struct timer_home *home)
{
    if (!home->letters)
        home->letters = mailbox_take(&home->mailbox);
    receive(home, HOME_LETTERS);
}

/* The timer is locked, and counts here.  Its next time, if it repeats; else it counts no more. */
static uint64_t repeat_or_rest(struct timer_home *home, struct orr_timer *timer, uint64_t word, uint64_t now)
{
    if (!timer->repeat || word & TIMER_STOPPED) {
        timer_count(home, true, -1);
        return word;
    }
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    atomic_store_explicit(&timer->deadline, timer_next_repeat(timer, deadline, now), memory_order_relaxed);
    return settle_in(home, timer, timer_with_home(word, home)) | TIMER_SCHEDULED;
}

/* While it runs, the timer counts here; and once more if it is started meanwhile, by whomever. */
static void call_back(struct timer_home *home, struct orr_timer *timer, uint64_t word, uint64_t now)
{
    timer_unlock(timer, word | TIMER_RUNNING);
    timer->action.fire(timer, timer->data, 0);
    word = timer_lock(timer) & ~TIMER_RUNNING;
    if (word & (TIMER_SCHEDULED | TIMER_FREED | TIMER_LINKED | TIMER_POSTED))
        timer_count(home, true, -1);
    else
        word = repeat_or_rest(home, timer, word, now);
    if (word & TIMER_SCHEDULED && !(word & (TIMER_LINKED | TIMER_POSTED)))
        word = settle_in(home, timer, word); /* it was due elsewhere, and waited for us */
    word &= ~TIMER_STOPPED;
    timer_unlock(timer, word);
    timer_settle(timer, word);
}

/* An entry that was due has been taken from the wheel.  The timer is locked. */
static void fire_one(struct timer_home *home, struct orr_timer *timer, uint64_t word, uint64_t now)
{
    home->stirred = true;
    if (!(word & TIMER_SCHEDULED)) {
        collect_garbage(home, timer, word);
        return;
    }
    uint64_t deadline = atomic_load_explicit(&timer->deadline, memory_order_relaxed);
    if (deadline > now) {
        wheel_insert(&home->wheel, &timer->entry, deadline); /* re-armed for later since */
        timer_unlock(timer, word);
        return;
    }
    if (word & TIMER_RUNNING) {
        timer_unlock(timer, word & ~TIMER_LINKED); /* on another worker, which takes it over when that returns */
        return;
    }
    counter_add(&home->fired, 1);
    histogram_add(&home->lateness, now - deadline);
    word &= ~(TIMER_SCHEDULED | TIMER_LINKED);
    if (word & TIMER_CALLS) {
        call_back(home, timer, word, now);
        return;
    }
    struct orr_waker waker = timer->action.waker;
    timer_unlock(timer, repeat_or_rest(home, timer, word, now));
    home->keeper->wake(waker);
}

static void rouse(struct timer_home *home, struct sleeper *sleeper, uint64_t now)
{
    unsigned part_of = (unsigned)(sleeper->word / TIMER_GENERATION);
    home->stirred = true;
    sleeper->word = 0;
    timer_count(home, true, -1);
    counter_add(&home->fired, 1);
    histogram_add(&home->lateness, now - sleeper->entry.deadline);
    home->keeper->rouse(sleeper, part_of);
}

void home_fire(struct timer_home *home, uint64_t now, unsigned fires)
{
    struct wheel_entry *entry;
    while ((entry = wheel_pop(&home->wheel, now, &fires, keep_unless_garbage, home))) {
        uint64_t word;
        if (is_sleeper(entry)) {
            rouse(home, container_of(entry, struct sleeper, entry), now);
            continue;
        }
        if (!timer_try_lock(timer_of_entry(entry), &word)) {
            wheel_put_back(&home->wheel, entry); /* whoever has the lock is changing it: look again in the next turn */
            return;
        }
        fire_one(home, timer_of_entry(entry), word, now);
    }
}

bool home_littered(struct timer_home *home)
{
    if (!atomic_load_explicit(&home->littered, memory_order_relaxed))
        return false;
    if (home_garbage(home) * HOME_GARBAGE_SHARE > home->wheel.count)
        return true;
    atomic_store_explicit(&home->littered, false, memory_order_relaxed);
    return false;
}

void home_scrub(struct timer_home *home)
{
    bool littered = home_littered(home);
    if (!littered && ++home->unscrubbed % HOME_SCRUB_TURNS)
        return;
    unsigned steps = littered ? HOME_SCRUB_HARD_STEPS : HOME_SCRUB_STEPS;
    wheel_scrub(&home->wheel, steps, keep_unless_garbage, home);
}

/* For a timer that is still to fire, locked, in no wheel: off to the service.  A local one has nowhere to go. */
static void send_away(struct timer_home *home, struct orr_timer *timer, uint64_t word)
{
    if (!(word & TIMER_LOCAL))
        word = keeper_count_at(timer, word & ~TIMER_GUEST, keeper_limbo(home->keeper));
    timer_unlock(timer, word | TIMER_POSTED);
    if (word & TIMER_POSTED)
        return; /* its letter is on the way already: refused here, it went to the service */
    if (word & TIMER_LOCAL || !keeper_orphan(home->keeper, timer)) {
        keeper_complete_as_cancelled(home->keeper, timer);
        return;
    }
    counter_add(&home->migrated, 1);
}

/* What is shown is out of the wheel for the moment: it stays out if it is sent away. */
static bool keep_unless_guest(void *data, struct wheel_entry *entry)
{
    struct orr_timer *timer = timer_of_entry(entry);
    if (!(timer_load(timer) & TIMER_GUEST)) /* a sleeper's word has the flags of a local timer: never this one */
        return true;
    uint64_t word = timer_lock(timer);
    if (word & TIMER_SCHEDULED)
        send_away(data, timer, word & ~TIMER_LINKED);
    else
        collect_garbage(data, timer, word);
    return false;
}

void home_unattend(struct timer_home *home)
{
    bool attended = atomic_load_explicit(&home->attended, memory_order_relaxed);
    if (!attended || atomic_load(&home->keeper->attended_homes) == 1)
        return; /* nobody else turns: all is as well off here as elsewhere, and need not come again for the next turn */
    stop_attending(home);
    wait_for_service(home);
    receive(home, UINT_MAX);
    home->letters = mailbox_take(&home->mailbox);
    receive(home, UINT_MAX);
    if (!home->has_guests)
        return;
    home->has_guests = false;
    home->stirred = true;
    wheel_visit(&home->wheel, keep_unless_guest, home);
    home_publish(home, keeper_now(home->keeper), false);
}

/* No sleeper is left: whose tasks they were have ended. */
void home_close(struct timer_home *home)
{
    atomic_store_explicit(&home->living, false, memory_order_release);
    stop_attending(home);
    receive(home, UINT_MAX);
    home->letters = mailbox_close(&home->mailbox);
    receive(home, UINT_MAX);
    struct wheel_entry *entry;
    while ((entry = wheel_drain(&home->wheel))) {
        struct orr_timer *timer = timer_of_entry(entry);
        uint64_t word = timer_lock(timer);
        if (word & TIMER_SCHEDULED)
            send_away(home, timer, word & ~TIMER_LINKED);
        else
            collect_garbage(home, timer, word);
    }
    home_publish(home, keeper_now(home->keeper), false);
}
