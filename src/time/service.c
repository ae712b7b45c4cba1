#include "time/service.h"

#include "base/thread.h"
#include "time/handover.h"
#include "time/shard.h"
#include "time/word.h"

#include <string.h>

enum {
    TICK_NS = 1000000,        /* published times are at most this old */
    WANTED_NS = 100 * TICK_NS /* kept fresh for this long after they were read */
};

/*
 * The weight of a shard is what is in its wheel: timers that will fire, and garbage, which others
 * have cancelled and the owner has not removed yet.  An owner with much garbage has been too busy
 * to scrub, or is about to look at every entry: timers handed to it would fire late, and be looked
 * at in vain.  So a shard with much garbage gets nothing new until the others weigh as much, or it
 * has been cleaned.
 */
static void weigh(struct timers *timers)
{
    for (unsigned i = 0; i < timers->shard_count; i++) {
        struct timer_shard *shard = timers_shard(timers, i);
        shard->weight = shard_pending(shard) + shard_garbage(shard);
    }
}

/* The lightest attended shard; NULL if there is none. */
static struct timer_shard *choose(struct timers *timers)
{
    struct timer_shard *best = NULL;
    for (unsigned i = 0; i < timers->shard_count; i++) {
        struct timer_shard *shard = timers_shard(timers, i);
        /* Sequentially consistent: see shard_attend(). */
        bool turns = atomic_load(&shard->attended) && atomic_load(&shard->living);
        if (turns && (!best || shard->weight < best->weight))
            best = shard;
    }
    return best;
}

/*
 * The letter is ours: the timer is in no wheel, or in that of a closing shard, which is about to
 * send it away.
 */
static void count_at(struct letter *letter, struct timer_shard *shard)
{
    struct orr_timer *timer = timer_of_letter(letter);
    uint64_t word = timer_lock(timer);
    timer_unlock(timer, word & TIMER_LINKED ? word : timers_count_at(timer, word, shard) | TIMER_GUEST);
}

/*
 * Sends a timer to the lightest shard; to the next if that closes or is left alone at this moment.
 */
static bool hand_over(struct timers *timers, struct letter *letter)
{
    struct timer_shard *shard;
    while ((shard = choose(timers))) {
        shard->weight++;
        count_at(letter, shard);
        if (shard_send(shard, letter))
            return true;
    }
    count_at(letter, timers_unowned(timers));
    return false;
}

/* Gives timers to attended shards; holds those that no shard takes. */
static void hand_on(struct timers *timers, struct letter *letter, bool in_transit)
{
    if (letter)
        weigh(timers);
    while (letter) {
        struct letter *next = letter->next;
        if (!hand_over(timers, letter)) {
            letter->next = timers->held;
            timers->held = letter;
            atomic_fetch_add(&timers->held_count, 1);
        }
        if (in_transit)
            timers_arrived(timers, 1);
        letter = next;
    }
}

/*
 * Tries again with the held timers, while a shard could take them.  A shard that becomes attended
 * says so before it looks whether anything is held; here, held timers are counted before we look
 * for such a shard.  So one sees the other.
 */
static void hand_on_held(struct timers *timers)
{
    while (timers->held && choose(timers)) {
        struct letter *held = timers->held;
        timers->held = NULL;
        atomic_store(&timers->held_count, 0);
        hand_on(timers, held, false);
    }
}

/*
 * Refreshes the published times of workers in a long turn, and nudges workers that are past a
 * deadline.
 */
static void publish_times(struct timers *timers, uint64_t now)
{
    for (unsigned i = 0; i < timers->shard_count; i++) {
        struct timer_shard *shard = timers_shard(timers, i);
        if (!atomic_load_explicit(&shard->turning, memory_order_relaxed))
            continue;
        uint64_t published = atomic_load_explicit(&shard->now, memory_order_relaxed);
        /* Its owner may publish a later reading meanwhile; an earlier one must not overwrite it. */
        while (published < now && !atomic_compare_exchange_weak_explicit(&shard->now, &published, now,
                                                                         memory_order_relaxed, memory_order_relaxed))
            continue;
        if (clock_after(atomic_load_explicit(&shard->next, memory_order_relaxed), TICK_NS) < now)
            atomic_store_explicit(&shard->late, true, memory_order_relaxed);
    }
}

/* Sleeps until the next tick, or without end if no tick is wanted. */
static void sleep_until_needed(struct timers *timers, bool ticking)
{
    bell_listen(&timers->bell, BELL_FUTEX);
    bool idle = mailbox_empty(&timers->orphans) && !atomic_load(&timers->stopping) && !atomic_load(&timers->recalls);
    bool wanted = atomic_load(&timers->wanted_until) > clock_now();
    if (idle && (ticking || !wanted)) {
        uint64_t start = clock_now();
        bell_wait(&timers->bell, ticking ? TICK_NS : ORR_NEVER);
        uint64_t took = clock_now() - start;
        atomic_fetch_add_explicit(&timers->wake_ups, 1, memory_order_relaxed);
        uint64_t lag = ticking && took > TICK_NS ? took - TICK_NS : 0;
        if (lag > atomic_load_explicit(&timers->lag, memory_order_relaxed))
            atomic_store_explicit(&timers->lag, lag, memory_order_relaxed);
    }
    bell_ignore(&timers->bell);
}

static void *service_main(void *data)
{
    struct timers *timers = data;
    pthread_setname_np(pthread_self(), "orrery/time");
    while (!atomic_load(&timers->stopping)) {
        uint64_t recalls = atomic_exchange(&timers->recalls, 0);
        hand_on(timers, mailbox_take(&timers->orphans), true);
        hand_on_held(timers);
        timers_arrived(timers, recalls);
        uint64_t now = clock_now();
        bool ticking = atomic_load(&timers->wanted_until) > now;
        if (ticking)
            publish_times(timers, now);
        sleep_until_needed(timers, ticking);
    }
    return NULL;
}

void service_need(struct timers *timers)
{
    pthread_mutex_lock(&timers->lock);
    if (!timers->started && !atomic_load(&timers->stopping)) {
        int error = thread_start(&timers->thread, service_main, timers);
        timers->started = !error;
        if (error)
            log_line(&timers->log, ORR_LOG_ERROR, "no thread for the time service: %s", strerror(-error));
    }
    pthread_mutex_unlock(&timers->lock);
    bell_ring(&timers->bell);
}

void service_want_times(struct timers *timers)
{
    uint64_t now = clock_now();
    uint64_t until = atomic_load_explicit(&timers->wanted_until, memory_order_relaxed);
    if (until > now + WANTED_NS / 2)
        return;
    atomic_store(&timers->wanted_until, now + WANTED_NS);
    if (until <= now)
        service_need(timers);
}

void service_stop(struct timers *timers)
{
    pthread_mutex_lock(&timers->lock);
    atomic_store(&timers->stopping, true);
    bool started = timers->started;
    pthread_mutex_unlock(&timers->lock);
    bell_ring(&timers->bell);
    if (started)
        pthread_join(timers->thread, NULL);
}
