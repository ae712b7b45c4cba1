#include "time/service.h"

#include "base/thread.h"
#include "time/keeper.h"

#include <string.h>

enum {
    TICK_NS = 1000000,        /* how fresh published times are kept */
    WANTED_NS = 100 * TICK_NS /* for so long after somebody has read one */
};

/* To the one with the fewest; should that close this very moment, to the next. */
static bool hand_to_the_living(struct timekeeper *keeper, struct letter *letter)
{
    struct timer_home *home;
    while ((home = keeper_least_loaded(keeper))) {
        atomic_fetch_add_explicit(&home->load, 1, memory_order_relaxed); /* until it publishes its own count */
        if (mailbox_post(&home->mailbox, letter)) {
            bell_ring(home->bell);
            return true;
        }
    }
    return false;
}

/* Gives orphans to the living; what nobody takes is held. */
static void hand_on(struct timekeeper *keeper, struct letter *letter)
{
    while (letter) {
        struct letter *next = letter->next;
        if (!hand_to_the_living(keeper, letter)) {
            letter->next = keeper->held;
            keeper->held = letter;
            atomic_fetch_add(&keeper->held_count, 1);
        }
        atomic_fetch_sub(&keeper->in_transit, 1);
        letter = next;
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
    bool idle = mailbox_empty(&keeper->orphans) && !atomic_load(&keeper->stopping);
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
        hand_on(keeper, mailbox_take(&keeper->orphans));
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
