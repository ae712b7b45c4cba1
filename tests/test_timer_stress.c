/*
 * Timers that several threads start, cancel and restart while workers fire them and while workers
 * shut down.  Each start must end in exactly one way.
 */
#include "harness.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#define US UINT64_C(1000)

struct race {
    struct orr_timer *timer;
    _Atomic uint64_t fired;
    uint64_t expected;
};

static void count_fire(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    struct race *race = data;
    if (status == 0)
        atomic_fetch_add_explicit(&race->fired, 1, memory_order_relaxed);
}

enum { RACES = 256 };

static void settle_races(struct race *races)
{
    for (int i = 0; i < RACES; i++)
        while (atomic_load_explicit(&races[i].fired, memory_order_relaxed) < races[i].expected)
            sched_yield();
}

static void cancel_that_says_cancelled_is_never_followed_by_the_callback(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct race races[RACES] = { 0 };
    for (int i = 0; i < RACES; i++) {
        struct orr_timer_options what = { .fire = count_fire, .data = &races[i] };
        assert_int_equal(orr_timer_new(rt, &what, &races[i].timer), 0);
    }
    uint64_t answers[3] = { 0 };
    int rounds = WORK(10000000) / RACES;
    /* On a busy machine, the worker may not run between two lines here for long. */
    for (int round = 0; round < rounds || !answers[ORR_CANCELLED] || !answers[ORR_TOO_LATE]; round++) {
        uint64_t now = clock_now();
        /*
         * Due at once, or in some microseconds: the worker fires the first while we cancel the
         * last.
         */
        for (int i = 0; i < RACES; i++)
            assert_int_equal(orr_timer_start_at(races[i].timer, now + (uint64_t)(i * 37 % 64) * US, 0), 0);
        for (int i = 0; i < RACES; i++) {
            int answer = orr_timer_cancel(races[i].timer);
            answers[answer]++;
            races[i].expected += answer != ORR_CANCELLED;
        }
        if (round % 64 == 0)
            settle_races(races);
    }
    settle_races(races);
    for (int i = 0; i < RACES; i++) {
        orr_timer_free(races[i].timer);
        assert_int_equal(races[i].fired, races[i].expected);
    }
    print_message("%llu cancelled, %llu too late, %llu running\n", (unsigned long long)answers[ORR_CANCELLED],
                  (unsigned long long)answers[ORR_TOO_LATE], (unsigned long long)answers[ORR_RUNNING]);
    assert_int_equal(orr_runtime_free(rt), 0);
    for (int i = 0; i < RACES; i++)
        assert_int_equal(races[i].fired, races[i].expected);
}

/* --- The owner, who does without locks, and the first other thread ---------------------------- */

enum { BALLAST = 5000, CHANGES = 4000, TOGETHER = 2000 };

/* One timer that its worker starts and cancels all the time, and another thread cancels, too. */
struct first_other {
    struct orr_timer *ballast[BALLAST];
    struct orr_timer *timer;
    _Atomic unsigned changes; /* by the worker, so far */
    unsigned begin;           /* the other thread begins when there are this many */
    unsigned started, cancelled, cancelled_by_other;
};

static void never_fires(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    (void)data;
    (void)status;
    fail();
}

static enum orr_poll start_and_cancel(struct orr_task *task, void *data)
{
    struct first_other *all = data;
    struct orr_runtime *rt = orr_task_runtime(task);
    struct orr_timer_options what = { .fire = never_fires };
    for (int i = 0; i < BALLAST; i++)
        assert_int_equal(orr_timer_new(rt, &what, &all->ballast[i]), 0);
    assert_int_equal(orr_timer_new(rt, &what, &all->timer), 0);
    bool set = false;
    for (unsigned i = 1; i <= CHANGES; i++) {
        if (!set)
            assert_int_equal(orr_timer_start_at(all->timer, ORR_NEVER - i % 1000, 0), 0);
        else
            all->cancelled += orr_timer_cancel(all->timer) == ORR_CANCELLED;
        all->started += !set;
        set = !set;
        atomic_store_explicit(&all->changes, i, memory_order_release);
    }
    return ORR_DONE;
}

static void *cancel_together(void *data)
{
    struct first_other *all = data;
    while (atomic_load_explicit(&all->changes, memory_order_acquire) < all->begin)
        sched_yield();
    for (int i = 0; i < TOGETHER; i++)
        all->cancelled_by_other += orr_timer_cancel(all->timer) == ORR_CANCELLED;
    return NULL;
}

/*
 * Each start is cancelled once, by one of the two, also in the moment in which the timer gets its
 * second user.
 */
static void a_start_is_cancelled_once_when_a_second_thread_comes(void **state)
{
    (void)state;
    uint64_t others = 0;
    int rounds = WORK(100000) / 500;
    for (int round = 0; round < rounds; round++) {
        struct first_other *all = calloc(1, sizeof *all);
        assert_non_null(all);
        all->begin = 1 + (unsigned)(round * 37) % (CHANGES / 2);
        struct orr_runtime *rt = harness_runtime(1);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_together, all), 0);
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_and_cancel, .data = all }), 0);
        assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        unsigned left = orr_timer_cancel(all->timer) == ORR_CANCELLED;
        assert_int_equal(all->cancelled + all->cancelled_by_other + left, all->started);
        others += all->cancelled_by_other;
        orr_timer_free(all->timer);
        for (int i = 0; i < BALLAST; i++)
            orr_timer_free(all->ballast[i]);
        assert_int_equal(orr_runtime_free(rt), 0);
        free(all);
    }
    print_message("%llu of them by the other thread\n", (unsigned long long)others);
}

/* --- Several workers and other threads, and workers that end ---------------------------------- */

enum { WORKERS = 4, TIMERS = 400 };

struct subject {
    struct orr_timer *timer;
    /* `ended`: the callback was told that the runtime ended. */
    _Atomic uint64_t started, fired, cancelled, ended;
    _Atomic bool inside; /* the callback runs now */
};

struct arena {
    struct orr_runtime *rt;
    struct subject subjects[TIMERS];
};

static void subject_fires(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    struct subject *subject = data;
    assert_false(atomic_exchange(&subject->inside, true)); /* never twice at once, on any worker */
    atomic_fetch_add(status == 0 ? &subject->fired : &subject->ended, 1);
    atomic_store(&subject->inside, false);
}

/* Only idle timers are started, so that every start is followed by exactly one end. */
static void meddle(struct arena *arena, unsigned *seed)
{
    struct subject *subject = &arena->subjects[rand_r(seed) % TIMERS];
    if (rand_r(seed) % 2) {
        uint64_t ends = subject->fired + subject->cancelled + subject->ended;
        uint64_t starts = ends;
        if (!atomic_compare_exchange_strong(&subject->started, &starts, ends + 1))
            return; /* it runs, or another thread was quicker */
        if (orr_timer_start(subject->timer, (uint64_t)(rand_r(seed) % 300) * US, 0))
            atomic_fetch_add(&subject->ended, 1);
    } else if (orr_timer_cancel(subject->timer) == ORR_CANCELLED) {
        atomic_fetch_add(&subject->cancelled, 1);
    }
}

struct meddler {
    struct arena *arena;
    unsigned seed, rounds;
};

static enum orr_poll meddle_in_a_task(struct orr_task *task, void *data)
{
    struct meddler *self = data;
    for (int i = 0; i < 20; i++)
        meddle(self->arena, &self->seed);
    if (self->rounds-- == 0)
        return ORR_DONE;
    return orr_task_yield(task);
}

static void *meddle_in_a_thread(void *data)
{
    struct meddler *self = data;
    while (self->rounds--)
        meddle(self->arena, &self->seed);
    return NULL;
}

static void every_start_ends_once_while_workers_shut_down(void **state)
{
    (void)state;
    for (unsigned round = 0; round < WORK(20) + 3; round++) {
        struct arena *arena = calloc(1, sizeof *arena);
        arena->rt = harness_runtime(WORKERS);
        for (int i = 0; i < TIMERS; i++) {
            struct orr_timer_options what = { .fire = subject_fires, .data = &arena->subjects[i] };
            assert_int_equal(orr_timer_new(arena->rt, &what, &arena->subjects[i].timer), 0);
        }
        struct meddler tasks[WORKERS], threads[2];
        for (unsigned i = 0; i < WORKERS; i++) {
            tasks[i] = (struct meddler){ arena, round * 100 + i, WORK(500) + 20 };
            struct orr_spawn what = { .poll = meddle_in_a_task, .data = &tasks[i], .worker = i + 1 };
            assert_int_equal(orr_spawn(arena->rt, &what), 0);
        }
        pthread_t ids[2];
        for (unsigned i = 0; i < 2; i++) {
            threads[i] = (struct meddler){ arena, round * 100 + 50 + i, WORK(20000) + 500 };
            pthread_create(&ids[i], NULL, meddle_in_a_thread, &threads[i]);
        }
        for (int i = 0; i < 20; i++)
            assert_true(orr_runtime_turn(arena->rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_worker_stop(arena->rt, 3), 0);
        for (int i = 0; i < 20; i++)
            assert_true(orr_runtime_turn(arena->rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_worker_stop(arena->rt, 4), 0);
        if (round % 2)
            assert_int_equal(orr_runtime_run(arena->rt), 0);
        for (unsigned i = 0; i < 2; i++)
            pthread_join(ids[i], NULL);
        assert_int_equal(orr_runtime_free(arena->rt), 0);
        for (int i = 0; i < TIMERS; i++) {
            struct subject *subject = &arena->subjects[i];
            assert_int_equal(subject->started, subject->fired + subject->cancelled + subject->ended);
            orr_timer_free(subject->timer);
        }
        free(arena);
    }
}

/* Among so many timers, entries are moved some time after the call that asks for it. */
static void every_start_ends_once_among_many_timers(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    static struct orr_timer *others[MANY];
    struct arena *arena = calloc(1, sizeof *arena);
    arena->rt = harness_runtime(1);
    assert_int_equal(orr_runtime_enter(arena->rt), 0);
    for (int i = 0; i < MANY; i++) {
        struct orr_timer_options what = { .fire = subject_fires, .data = &arena->subjects[0] };
        assert_int_equal(orr_timer_new(arena->rt, &what, &others[i]), 0);
        assert_int_equal(orr_timer_start(others[i], HOUR, 0), 0);
    }
    for (int i = 0; i < TIMERS; i++) {
        struct orr_timer_options what = { .fire = subject_fires, .data = &arena->subjects[i] };
        assert_int_equal(orr_timer_new(arena->rt, &what, &arena->subjects[i].timer), 0);
    }
    orr_runtime_leave(arena->rt);
    struct meddler task = { arena, 1, WORK(20000) + 100 }, threads[2];
    assert_int_equal(orr_spawn(arena->rt, &(struct orr_spawn){ .poll = meddle_in_a_task, .data = &task }), 0);
    pthread_t ids[2];
    for (unsigned i = 0; i < 2; i++) {
        threads[i] = (struct meddler){ arena, 50 + i, WORK(400000) + 500 };
        pthread_create(&ids[i], NULL, meddle_in_a_thread, &threads[i]);
    }
    while (task.rounds != UINT_MAX)
        assert_true(orr_runtime_turn(arena->rt, ORR_NEVER) >= 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < MANY; i++)
        orr_timer_free(others[i]); /* by a thread that is not the owner */
    assert_int_equal(orr_runtime_run(arena->rt), 0);
    for (int i = 0; i < TIMERS; i++) {
        struct subject *subject = &arena->subjects[i];
        assert_int_equal(subject->started, subject->fired + subject->cancelled + subject->ended);
        orr_timer_free(subject->timer);
    }
    assert_int_equal(orr_runtime_free(arena->rt), 0);
    free(arena);
}

static void *rearm_for_ever(void *data)
{
    struct meddler *self = data;
    struct subject *subjects = self->arena->subjects;
    while (self->rounds--) {
        struct subject *subject = &subjects[rand_r(&self->seed) % TIMERS];
        orr_timer_start(subject->timer, (uint64_t)(rand_r(&self->seed) % 100) * US,
                        rand_r(&self->seed) % 2 ? 0 : 50 * US);
        if (rand_r(&self->seed) % 4 == 0)
            orr_timer_cancel(subject->timer);
        orr_timer_due_in(subject->timer);
    }
    return NULL;
}

static void timers_are_rearmed_by_many_threads_and_freed_while_they_run(void **state)
{
    (void)state;
    struct arena *arena = calloc(1, sizeof *arena);
    arena->rt = harness_runtime(3);
    for (int i = 0; i < TIMERS; i++) {
        struct orr_timer_options what = { .fire = subject_fires, .data = &arena->subjects[i] };
        assert_int_equal(orr_timer_new(arena->rt, &what, &arena->subjects[i].timer), 0);
    }
    struct meddler threads[3];
    pthread_t ids[3];
    for (unsigned i = 0; i < 3; i++) {
        threads[i] = (struct meddler){ arena, 7 + i, WORK(300000) + 1000 };
        pthread_create(&ids[i], NULL, rearm_for_ever, &threads[i]);
    }
    for (int i = 0; i < 200; i++)
        assert_true(orr_runtime_turn(arena->rt, ORR_NEVER) >= 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < TIMERS; i++)
        /* Some repeat, and some run on another thread now. */
        orr_timer_free(arena->subjects[i].timer);
    assert_int_equal(orr_runtime_run(arena->rt), 0);
    assert_int_equal(harness_stats(arena->rt, 0).timers_pending, 0);
    assert_int_equal(orr_runtime_free(arena->rt), 0);
    free(arena);
}

static void *cancel_half(void *data)
{
    struct orr_timer **timers = data;
    for (int i = 0; i < 40; i++)
        orr_timer_cancel(timers[i]);
    return NULL;
}

static void run_ends_when_several_threads_have_cancelled_the_last_timers(void **state)
{
    (void)state;
    for (int round = 0; round < WORK(500) + 10; round++) {
        struct orr_runtime *rt = harness_runtime(2);
        struct orr_timer *timers[80];
        struct race race = { 0 };
        for (int i = 0; i < 80; i++) {
            assert_int_equal(
                orr_timer_new(rt, &(struct orr_timer_options){ .fire = count_fire, .data = &race }, &timers[i]), 0);
            assert_int_equal(orr_timer_start(timers[i], UINT64_C(3600000000000), 0), 0);
        }
        pthread_t ids[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&ids[i], NULL, cancel_half, &timers[i * 40]);
        assert_int_equal(orr_runtime_run(rt), 0); /* takes an hour if the run is not told */
        for (int i = 0; i < 2; i++)
            pthread_join(ids[i], NULL);
        for (int i = 0; i < 80; i++)
            orr_timer_free(timers[i]);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(race.fired, 0);
    }
}

static enum orr_poll start_races(struct orr_task *task, void *data)
{
    (void)task;
    struct race *races = data;
    for (int i = 0; i < RACES; i++)
        assert_int_equal(orr_timer_start(races[i].timer, (uint64_t)(i % 50) * US, 0), 0);
    return ORR_DONE;
}

static void run_does_not_end_before_the_timers_of_a_worker_that_ends_have_fired(void **state)
{
    (void)state;
    for (int round = 0; round < WORK(300) + 10; round++) {
        struct orr_runtime *rt = harness_runtime(3);
        struct race races[RACES] = { 0 };
        for (int i = 0; i < RACES; i++) {
            struct orr_timer_options what = { .fire = count_fire, .data = &races[i] };
            assert_int_equal(orr_timer_new(rt, &what, &races[i].timer), 0);
        }
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_races, .data = races, .worker = 3 }), 0);
        while (harness_stats(rt, 3).polls == 0)
            sched_yield();
        assert_int_equal(orr_worker_stop(rt, 3), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        for (int i = 0; i < RACES; i++) {
            assert_int_equal(races[i].fired, 1);
            orr_timer_free(races[i].timer);
        }
        assert_int_equal(orr_runtime_free(rt), 0);
    }
}

struct driver {
    struct orr_runtime *rt;
    _Atomic bool stop;
};

/* A host that turns for a while and then rests for a while. */
static void *drive_now_and_then(void *data)
{
    struct driver *driver = data;
    for (unsigned i = 0; !driver->stop; i++) {
        if (i % 3)
            orr_runtime_run(driver->rt);
        else
            orr_runtime_turn(driver->rt, ORR_NEVER);
        for (unsigned idle = 0; idle < i % 7; idle++)
            sched_yield();
    }
    return NULL;
}

static void *interrupt_all_the_time(void *data)
{
    struct driver *driver = data;
    while (!driver->stop) {
        orr_runtime_interrupt(driver->rt);
        sched_yield();
    }
    return NULL;
}

/*
 * Workers end while the host starts and stops turning, again and again.  So their timers are handed
 * to worker 1 and back.  Other threads cancel and restart them meanwhile.  Each start ends once,
 * and no timer waits for a host that has stopped turning.
 */
static void every_start_ends_once_while_the_host_turns_now_and_then(void **state)
{
    (void)state;
    for (unsigned round = 0; round < WORK(60) + 6; round++) {
        struct arena *arena = calloc(1, sizeof *arena);
        arena->rt = harness_runtime(WORKERS);
        for (int i = 0; i < TIMERS; i++) {
            struct orr_timer_options what = { .fire = subject_fires, .data = &arena->subjects[i] };
            assert_int_equal(orr_timer_new(arena->rt, &what, &arena->subjects[i].timer), 0);
        }
        struct meddler tasks[WORKERS - 1], threads[2];
        for (unsigned i = 0; i < WORKERS - 1; i++) {
            tasks[i] = (struct meddler){ arena, round * 100 + i, WORK(200) + 20 };
            struct orr_spawn what = { .poll = meddle_in_a_task, .data = &tasks[i], .worker = i + 2 };
            assert_int_equal(orr_spawn(arena->rt, &what), 0);
        }
        struct driver driver = { .rt = arena->rt };
        pthread_t ids[2], driving, interrupting;
        pthread_create(&driving, NULL, drive_now_and_then, &driver);
        pthread_create(&interrupting, NULL, interrupt_all_the_time, &driver);
        for (unsigned i = 0; i < 2; i++) {
            threads[i] = (struct meddler){ arena, round * 100 + 50 + i, WORK(5000) + 500 };
            pthread_create(&ids[i], NULL, meddle_in_a_thread, &threads[i]);
        }
        while (harness_stats(arena->rt, 3).polls < 5)
            sched_yield();
        assert_int_equal(orr_worker_stop(arena->rt, 3), 0);
        while (harness_stats(arena->rt, 4).polls < 10)
            sched_yield();
        assert_int_equal(orr_worker_stop(arena->rt, 4), 0);
        for (unsigned i = 0; i < 2; i++)
            pthread_join(ids[i], NULL);
        driver.stop = true;
        pthread_join(interrupting, NULL);
        orr_runtime_interrupt(arena->rt);
        pthread_join(driving, NULL);
        while (harness_stats(arena->rt, 3).timers_pending + harness_stats(arena->rt, 4).timers_pending)
            sched_yield(); /* until their threads have ended */
        int error;
        while ((error = orr_runtime_run(arena->rt)) == -EINTR)
            ;
        assert_int_equal(error, 0);
        assert_int_equal(harness_stats(arena->rt, 0).timers_pending, 0);
        for (int i = 0; i < TIMERS; i++) {
            struct subject *subject = &arena->subjects[i];
            assert_int_equal(subject->started, subject->fired + subject->cancelled + subject->ended);
            orr_timer_free(subject->timer);
        }
        assert_int_equal(orr_runtime_free(arena->rt), 0);
        free(arena);
    }
}

static const struct CMUnitTest timer_stress_tests[] = {
    cmocka_unit_test(run_ends_when_several_threads_have_cancelled_the_last_timers),
    cmocka_unit_test(run_does_not_end_before_the_timers_of_a_worker_that_ends_have_fired),
    cmocka_unit_test(cancel_that_says_cancelled_is_never_followed_by_the_callback),
    cmocka_unit_test(every_start_ends_once_while_workers_shut_down),
    cmocka_unit_test(every_start_ends_once_among_many_timers),
    cmocka_unit_test(a_start_is_cancelled_once_when_a_second_thread_comes),
    cmocka_unit_test(timers_are_rearmed_by_many_threads_and_freed_while_they_run),
    cmocka_unit_test(every_start_ends_once_while_the_host_turns_now_and_then),
};

HARNESS_MAIN(timer_stress_tests)
