/*
 * Millions of wakes from other threads, none of which may be lost.  Each producer owns some tasks.
 * It increments a task's number, wakes the task, and goes on to the next.  After its last round it
 * waits until every task has seen its last number.  A lost wake leaves a number unseen, and the
 * test hangs.
 */
#include "harness.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { PRODUCERS = 3, TASKS_EACH = 8 };

struct cell {
    _Alignas(64) _Atomic uint64_t wanted; /* written by the producer */
    _Atomic uint64_t seen;                /* written by the task */
    _Atomic uint64_t waker;
};

static enum orr_poll run_poll(struct orr_task *task, void *data)
{
    struct cell *cell = data;
    atomic_store_explicit(&cell->waker, orr_task_waker(task).bits, memory_order_release);
    /* Relaxed on purpose: the wake must order this load after the producer's store. */
    uint64_t wanted = atomic_load_explicit(&cell->wanted, memory_order_relaxed);
    atomic_store_explicit(&cell->seen, wanted, memory_order_release);
    return wanted == UINT64_MAX ? ORR_DONE : ORR_PENDING;
}

struct producer {
    struct cell *cells;
    uint64_t wakes;
    bool pause; /* pause now and then, so that the worker sleeps */
};

static void raise_and_wake(struct cell *cell, uint64_t number)
{
    atomic_store_explicit(&cell->wanted, number, memory_order_relaxed);
    orr_waker_wake((struct orr_waker){ atomic_load_explicit(&cell->waker, memory_order_relaxed) });
}

static void await_seen(struct cell *cell, uint64_t number)
{
    while (atomic_load_explicit(&cell->seen, memory_order_acquire) != number)
        sched_yield();
}

static void *produce(void *data)
{
    struct producer *self = data;
    for (uint64_t i = 1; i <= self->wakes; i++) {
        struct cell *cell = &self->cells[i % TASKS_EACH];
        raise_and_wake(cell, i);
        if (self->pause && i % 1024 == 0)
            await_seen(cell, i);
    }
    for (int i = 0; i < TASKS_EACH; i++) {
        struct cell *cell = &self->cells[i];
        await_seen(cell, atomic_load(&cell->wanted));
        raise_and_wake(cell, UINT64_MAX);
    }
    return NULL;
}

static void bombard(uint64_t wakes, bool pause, unsigned workers)
{
    struct orr_runtime *rt = harness_runtime(workers);
    struct cell *cells = aligned_alloc(64, sizeof *cells * PRODUCERS * TASKS_EACH);
    for (unsigned i = 0; i < PRODUCERS * TASKS_EACH; i++) {
        cells[i] = (struct cell){ 0 };
        struct orr_spawn what = { .poll = run_poll, .data = &cells[i], .worker = workers > 1 ? 2 : 1 };
        assert_int_equal(orr_spawn(rt, &what), 0);
    }
    if (workers == 1)
        harness_settle(rt);
    for (unsigned i = 0; i < PRODUCERS * TASKS_EACH; i++)
        while (!atomic_load(&cells[i].waker))
            sched_yield();
    pthread_t threads[PRODUCERS];
    struct producer producers[PRODUCERS];
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .cells = &cells[i * TASKS_EACH], .wakes = wakes / PRODUCERS, .pause = pause };
        pthread_create(&threads[i], NULL, produce, &producers[i]);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    struct orr_stats stats = harness_stats(rt, 0);
    print_message("%llu foreign wakes: %llu entries, %llu coalesced, %llu sleeps, %llu system calls\n",
                  (unsigned long long)wakes, (unsigned long long)stats.wakes_foreign,
                  (unsigned long long)stats.wakes_coalesced, (unsigned long long)stats.sleeps,
                  (unsigned long long)(stats.futex_wakes + stats.eventfd_writes));
    assert_true(stats.wakes_foreign + stats.wakes_coalesced >= wakes / PRODUCERS * PRODUCERS);
    assert_int_equal(orr_runtime_free(rt), 0);
    free(cells);
}

static void ten_million_foreign_wakes_are_all_seen(void **state)
{
    (void)state;
    bombard(WORK(10000000), false, 1);
}

static void wakes_of_a_worker_that_sleeps_and_wakes_all_the_time_are_all_seen(void **state)
{
    (void)state;
    bombard(WORK(1000000), true, 2);
}

/* A host watches the descriptor, instead of a worker that sleeps. */
static void host_that_polls_the_descriptor_sees_every_wake(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    int fd = orr_runtime_fd(rt);
    struct cell *cells = aligned_alloc(64, sizeof *cells * TASKS_EACH);
    for (unsigned i = 0; i < TASKS_EACH; i++) {
        cells[i] = (struct cell){ 0 };
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = run_poll, .data = &cells[i] }), 0);
    }
    harness_settle(rt);
    struct producer producer = { .cells = cells, .wakes = WORK(1000000), .pause = true };
    pthread_t thread;
    pthread_create(&thread, NULL, produce, &producer);
    while (harness_stats(rt, 0).tasks_live) {
        while (!harness_readable(fd))
            sched_yield();
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    }
    pthread_join(thread, NULL);
    assert_int_equal(orr_runtime_free(rt), 0);
    free(cells);
}

struct churn {
    struct orr_runtime *rt;
    _Atomic uint64_t wakers[64];
    _Atomic bool over;
    _Atomic unsigned ends;
};

static enum orr_poll churn_task(struct orr_task *task, void *data)
{
    struct churn *churn = data;
    uint64_t bits = orr_task_waker(task).bits;
    if (atomic_exchange(&churn->wakers[bits >> 32 & 63], bits) == bits)
        return ORR_DONE; /* polled again, by its own wake */
    return ORR_PENDING;
}

static void churn_ends(void *data)
{
    struct churn *churn = data;
    atomic_fetch_add(&churn->ends, 1);
}

static void *churn_wake(void *data)
{
    struct churn *churn = data;
    for (unsigned i = 0; !atomic_load(&churn->over); i++)
        orr_waker_wake((struct orr_waker){ atomic_load(&churn->wakers[i & 63]) });
    return NULL;
}

static void slots_are_reused_while_other_threads_wake_them(void **state)
{
    (void)state;
    struct churn churn = { .rt = harness_runtime(2) };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, churn_wake, &churn);
    unsigned spawned = 0, wanted = WORK(100000);
    while (spawned < wanted) {
        if (spawned - atomic_load(&churn.ends) > 32) {
            sched_yield();
            continue;
        }
        struct orr_spawn what = { .poll = churn_task, .data = &churn, .drop = churn_ends, .worker = 2 };
        assert_int_equal(orr_spawn(churn.rt, &what), 0);
        spawned++;
    }
    assert_int_equal(orr_runtime_run(churn.rt), 0);
    assert_int_equal(churn.ends, spawned);
    atomic_store(&churn.over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(orr_runtime_free(churn.rt), 0);
}

static const struct CMUnitTest stress_tests[] = {
    cmocka_unit_test(ten_million_foreign_wakes_are_all_seen),
    cmocka_unit_test(wakes_of_a_worker_that_sleeps_and_wakes_all_the_time_are_all_seen),
    cmocka_unit_test(host_that_polls_the_descriptor_sees_every_wake),
    cmocka_unit_test(slots_are_reused_while_other_threads_wake_them),
};

HARNESS_MAIN(stress_tests)
