#include "time/service.h"

#include "base/thread.h"
#include "time/keeper.h"

#include <string.h>

enum {
    TICK_NS = 1000000,        /* how fresh published times are kept */
    WANTED_NS = 100 * TICK_NS /* for so long after somebody has read one */
};

/*
 * A home weighs what is in its wheel: timers that are to fire, and garbage, which others have cancelled and the owner has not removed yet.
 * An owner that has much of that has been too busy to scrub, or is about to, at the price of a look at every entry: what is handed to it
 * would fire late, and be looked at in vain.  So a dirty wheel gets nothing new until the others weigh as much, or it has been cleaned.
 */
static void weigh(struct timekeeper *keeper)
{
    for (unsigned i = 0; i < keeper->home_count; i++) {
        struct timer_home *home = keeper_home(keeper, i);
        home->weight = home_pending(home) + home_garbage(home);
    }
}

/* The lightest of those that are attended; NULL if there is none. */
static struct timer_home *choose(struct timekeeper *keeper)
{
    struct timer_home *best = NULL;
    for (unsigned i = 0; i < keeper->home_count; i++) {
        struct timer_home *home = keeper_home(keeper, i);
        /* Sequentially consistent: see home_attend(). */
        bool turns = atomic_load(&home->attended) && atomic_load(&home->living);
        if (turns && (!best || home->weight < best->weight))
            best = home;
    }
    return best;
}

/* The letter is ours: the timer is linked nowhere; or where its home, which is closing, is about to send it away. */
static void count_at(struct letter *letter, struct timer_home *home)
{
    struct orr_timer *timer = container_of(letter, struct orr_timer, letter);
    uint64_t word = timer_lock(timer);
    timer_unlock(timer, word & TIMER_LINKED ? word : keeper_count_at(timer, word, home) | TIMER_GUEST);
}

/* To the lightest; should that close, or be left alone, this very moment, to the next. */
static bool hand_over(struct timekeeper *keeper, struct letter *letter)
{
    struct timer_home *home;
    while ((home = choose(keeper))) {
        home->weight++;
        count_at(letter, home);
        if (home_send(home, letter))
            return true;
    }
    count_at(letter, keeper_limbo(keeper));
    return false;
}

/* Gives timers to homes that are attended; what nobody takes is held. */
static void hand_on(struct timekeeper *keeper, struct letter *letter, bool in_transit)
{
    if (letter)
        weigh(keeper);
    while (letter) {
        struct letter *next = letter->next;
        if (!hand_over(keeper, letter)) {
            letter->next = keeper->held;
            keeper->held = letter;
            atomic_fetch_add(&keeper->held_count, 1);
        }
        if (in_transit)
            keeper_arrived(keeper, 1);
        letter = next;
    }
}

/*
 * Tries again with what is held, while there is a home that could take it.  A home that has become attended has said so before it looked
 * whether anything is held; and here, that is counted before we look for such a home.
 */
static void hand_on_held(struct timekeeper *keeper)
{
    while (keeper->held && choose(keeper)) {
        struct letter *held = keeper->held;
        keeper->held = NULL;
        atomic_store(&keeper->held_count, 0);
        hand_on(keeper, held, false);
    }
}

/* Refreshes the times of workers in a long turn, and nudges those that are past a deadline. */
static void publish_times(struct timekeeper *keeper, uint64_t now)
{
    for (unsigned i = 0; i < keeper->home_count; i++) {
        struct timer_home *home = keeper_home(keeper, i);
        if (!atomic_load_explicit(&home->turning, memory_order_relaxed))
            continue;
        uint64_t published = atomic_load_explicit(&home->now, memory_order_relaxed);
        /* Its owner may publish a later reading meanwhile; an earlier one must not take its place. */
        while (published < now && !atomic_compare_exchange_weak_explicit(&home->now, &published, now,
                                                                         memory_order_relaxed, memory_order_relaxed))
            continue;
        if (clock_after(atomic_load_explicit(&home->next, memory_order_relaxed), TICK_NS) < now)
            atomic_store_explicit(&home->late, true, memory_order_relaxed);
    }
}

/* Sleeps until the next tick, or without end if nobody wants any. */
static void sleep_until_needed(struct timekeeper *keeper, bool ticking)
{
    bell_listen(&keeper->bell, BELL_FUTEX);
    bool idle = mailbox_empty(&keeper->orphans) && !atomic_load(&keeper->stopping) && !atomic_load(&keeper->recalls);
    bool wanted = atomic_load(&keeper->wanted_until) > clock_now();
    if (idle && (ticking || !wanted)) {
        uint64_t start = clock_now();
        bell_wait(&keeper->bell, ticking ? TICK_NS : ORR_NEVER);
        uint64_t took = clock_now() - start;
        atomic_fetch_add_explicit(&keeper->wake_ups, 1, memory_order_relaxed);
        uint64_t lag = ticking && took > TICK_NS ? took - TICK_NS : 0;
        if (lag > atomic_load_explicit(&keeper->lag, memory_order_relaxed))
            atomic_store_explicit(&keeper->lag, lag, memory_order_relaxed);
    }
    bell_ignore(&keeper->bell);
}

static void *service_main(void *data)
{
    struct timekeeper *keeper = data;
    pthread_setname_np(pthread_self(), "orrery/time");
    while (!atomic_load(&keeper->stopping)) {
        uint64_t recalls = atomic_exchange(&keeper->recalls, 0);
        hand_on(keeper, mailbox_take(&keeper->orphans), true);
        hand_on_held(keeper);
        keeper_arrived(keeper, recalls);
        uint64_t now = clock_now();
        bool ticking = atomic_load(&keeper->wanted_until) > now;
        if (ticking)
            publish_times(keeper, now);
        sleep_until_needed(keeper, ticking);
    }
    return NULL;
}

void service_need(struct timekeeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    if (!keeper->started && !atomic_load(&keeper->stopping)) {
        int error = thread_start(&keeper->thread, service_main, keeper);
        keeper->started = !error;
        if (error)
            log_line(&keeper->log, ORR_LOG_ERROR, "no thread for the time service: %s", strerror(-error));
    }
    pthread_mutex_unlock(&keeper->lock);
    bell_ring(&keeper->bell);
}

void service_want_times(struct timekeeper *keeper)
{
    uint64_t now = clock_now();
    uint64_t until = atomic_load_explicit(&keeper->wanted_until, memory_order_relaxed);
    if (until > now + WANTED_NS / 2)
        return;
    atomic_store(&keeper->wanted_until, now + WANTED_NS);
    if (until <= now)
        service_need(keeper);
}

void service_stop(struct timekeeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    atomic_store(&keeper->stopping, true);
    bool started = keeper->started;
    pthread_mutex_unlock(&keeper->lock);
    bell_ring(&keeper->bell);
    if (started)
        pthread_join(keeper->thread, NULL);
}
