/* Wakers: from every thread, at every time, also after the task has ended. */
#include "harness.h"

#include "exec/waker_table.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

static void wake_from_another_thread_polls_the_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 2 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(probe.polls, 1);

    struct orr_waker waker = probe_waker(&probe);
    harness_on_thread(harness_wake, &waker);
    harness_settle(rt);
    assert_int_equal(probe.polls, 2);
    assert_int_equal(probe.drops, 1);
    assert_int_equal(harness_stats(rt, 0).wakes_foreign, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void wake_unblocks_a_worker_that_sleeps(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct probe probe = { .done_after = 2 };
    probe_spawn(rt, &probe, 2);
    harness_await(&probe.polls, 1);
    while (!harness_stats(rt, 2).sleeps)
        usleep(100);
    orr_waker_wake(probe_waker(&probe));
    assert_int_equal(orr_runtime_run(rt), 0); /* hangs if the wake is lost */
    assert_int_equal(probe.polls, 2);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void copy_and_wake(void *data)
{
    struct orr_waker copy = *(struct orr_waker *)data;
    orr_waker_wake(copy);
}

static void copy_made_on_a_foreign_thread_wakes_too(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 2 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    struct orr_waker waker = probe_waker(&probe);
    harness_on_thread(copy_and_wake, &waker);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(probe.polls, 2);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void waking_a_completed_task_does_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 1 };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), 0);
    struct orr_waker waker = probe_waker(&probe);
    harness_on_thread(harness_wake, &waker);
    orr_waker_wake(waker);
    orr_waker_wake_signal(waker);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(probe.polls, 1);
    assert_int_equal(harness_stats(rt, 0).wakes_foreign, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void waker_outlives_its_runtime(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    struct orr_waker waker = probe_waker(&probe);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(probe.drops, 1);
    orr_waker_wake(waker);
    orr_waker_wake_signal(waker);
    harness_on_thread(harness_wake, &waker);
}

static void waker_does_not_reach_a_new_runtime_with_the_same_waker_table(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe old = { 0 };
    probe_spawn(rt, &old, ORR_HERE);
    harness_settle(rt);
    struct orr_waker stale = probe_waker(&old);
    assert_int_equal(orr_runtime_free(rt), 0);

    rt = harness_runtime(1);
    struct probe fresh = { 0 };
    probe_spawn(rt, &fresh, ORR_HERE);
    harness_settle(rt);
    struct orr_waker waker = probe_waker(&fresh);
    /* Otherwise this test would check nothing. */
    assert_int_equal(waker_table_number(waker), waker_table_number(stale));
    assert_int_equal(waker_slot(waker), waker_slot(stale));
    assert_int_not_equal(waker.bits, stale.bits);
    harness_on_thread(harness_wake, &stale);
    orr_waker_wake(stale);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(fresh.polls, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void stale_waker_does_not_wake_the_task_that_reused_the_slot(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe first = { .done_after = 1 }, second = { 0 };
    probe_spawn(rt, &first, ORR_HERE);
    harness_settle(rt);
    struct orr_waker stale = probe_waker(&first);
    probe_spawn(rt, &second, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(waker_slot(probe_waker(&second)), waker_slot(stale));
    harness_on_thread(harness_wake, &stale);
    orr_waker_wake(stale);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(second.polls, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll finish(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_DONE;
}

struct respawn {
    unsigned left;
    struct orr_waker first, last;
};

static enum orr_poll respawn_in_one_slot(struct orr_task *task, void *data)
{
    struct respawn *self = data;
    struct orr_spawn what = { .poll = finish, .waker = &self->last };
    assert_int_equal(orr_spawn(orr_task_runtime(task), &what), 0);
    if (!self->first.bits)
        self->first = self->last;
    assert_int_equal(waker_slot(self->last), waker_slot(self->first));
    if (self->last.bits != self->first.bits)
        orr_waker_wake(self->first);
    /* The new task is done before the next poll. */
    return --self->left ? orr_task_yield(task) : ORR_DONE;
}

static void million_spawns_in_one_slot_do_not_revive_a_stale_waker(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct respawn respawn = { .left = WORK(1000000) };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = respawn_in_one_slot, .data = &respawn }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(harness_stats(rt, 0).polls, 2 * WORK(1000000));
    assert_int_equal(waker_generation(respawn.last) - waker_generation(respawn.first), WORK(1000000) - 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

enum { WAKERS = 4 };

static void *wake_many_times(void *data)
{
    for (int i = 0; i < 1000; i++)
        orr_waker_wake(*(struct orr_waker *)data);
    return NULL;
}

static void many_threads_waking_one_task_make_one_inbox_entry(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    struct orr_waker waker = probe_waker(&probe);
    pthread_t threads[WAKERS];
    for (int i = 0; i < WAKERS; i++)
        pthread_create(&threads[i], NULL, wake_many_times, &waker);
    for (int i = 0; i < WAKERS; i++)
        pthread_join(threads[i], NULL);
    harness_settle(rt);
    assert_int_equal(probe.polls, 2);
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.wakes_foreign, 1);
    assert_int_equal(stats.wakes_coalesced, WAKERS * 1000 - 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

struct shelf {
    pthread_mutex_t lock;
    struct orr_waker waker;
};

static void *use_from_shelf(void *data)
{
    struct shelf *shelf = data;
    pthread_mutex_lock(&shelf->lock);
    struct orr_waker waker = shelf->waker;
    pthread_mutex_unlock(&shelf->lock);
    orr_waker_wake(waker);
    return NULL;
}

static void stored_waker_is_used_from_several_threads(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, 2);
    harness_await(&probe.polls, 1);
    struct shelf shelf = { .lock = PTHREAD_MUTEX_INITIALIZER, .waker = probe_waker(&probe) };
    for (unsigned round = 0; round < 20; round++) {
        unsigned before = probe.polls;
        pthread_t threads[WAKERS];
        for (int i = 0; i < WAKERS; i++)
            pthread_create(&threads[i], NULL, use_from_shelf, &shelf);
        for (int i = 0; i < WAKERS; i++)
            pthread_join(threads[i], NULL);
        harness_await(&probe.polls, before + 1);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(probe.drops, 1);
}

static void wakes_come_in_the_order_in_which_they_were_made(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probes[8] = { 0 };
    for (size_t i = 0; i < LENGTH(probes); i++)
        probe_spawn(rt, &probes[i], ORR_HERE);
    harness_settle(rt);
    for (size_t i = LENGTH(probes); i-- > 0;)
        orr_waker_wake(probe_waker(&probes[i])); /* outside a turn: through the inbox */
    for (size_t i = LENGTH(probes); i-- > 0;) {
        /* Without a budget, a turn polls one task. */
        assert_int_equal(orr_runtime_turn(rt, 0), i > 0);
        assert_int_equal(probes[i].polls, 2);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void wake_neighbour(struct probe *probe, struct orr_task *task)
{
    (void)task;
    struct probe *other = probe->data;
    orr_waker_wake(probe_waker(other));
    orr_waker_wake(probe_waker(other));
}

static void wake_on_the_workers_own_thread_does_not_use_the_inbox(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe target = { .done_after = 2 };
    struct probe waking = { .each = wake_neighbour, .data = &target, .done_after = 1 };
    probe_spawn(rt, &target, ORR_HERE);
    probe_spawn(rt, &waking, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(target.polls, 2);
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.wakes_local, 1); /* the second wake found it queued */
    assert_int_equal(stats.wakes_foreign, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

struct pair {
    struct probe *other;
    unsigned hits;
};

static void hit_back(struct probe *probe, struct orr_task *task)
{
    (void)task;
    struct pair *pair = probe->data;
    while (!atomic_load(&pair->other->waker))
        sched_yield();
    orr_waker_wake(probe_waker(pair->other));
}

static void two_runtimes_wake_each_other(void **state)
{
    (void)state;
    enum { HITS = 1000 };
    struct orr_runtime *one = harness_runtime(2), *two = harness_runtime(2);
    struct probe a = { .each = hit_back }, b = { .each = hit_back };
    struct pair a_pair = { .other = &b }, b_pair = { .other = &a };
    a.data = &a_pair;
    b.data = &b_pair;
    probe_spawn(one, &a, 2);
    probe_spawn(two, &b, 2);
    harness_await(&a.polls, WORK(HITS));
    harness_await(&b.polls, WORK(HITS));
    assert_int_equal(orr_runtime_free(one), 0); /* while the other runtime goes on waking it */
    assert_int_equal(orr_runtime_free(two), 0);
    assert_int_equal(a.drops + b.drops, 2);
}

static void invalid_wakers_do_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    unsigned table = waker_table_number(probe_waker(&probe));
    uint32_t slot = waker_slot(probe_waker(&probe));
    struct orr_waker made_up[] = {
        { 0 },
        { UINT64_MAX },
        waker_make(0, 0, 0),
        waker_make(WAKER_TABLES - 1, 0, 0),
        waker_make(table, (1 << WAKER_SLOT_BITS) - 1, 0),
        waker_make(table, slot, waker_generation(probe_waker(&probe)) + 1),
        waker_make(table, slot + 1, 0), /* a slot that exists and has no task */
    };
    for (size_t i = 0; i < LENGTH(made_up); i++) {
        orr_waker_wake(made_up[i]);
        orr_waker_wake_signal(made_up[i]);
        harness_on_thread(harness_wake, &made_up[i]);
        harness_settle(rt);
    }
    assert_int_equal(probe.polls, 1);
    struct probe next = { .done_after = 1 }; /* uses that slot normally */
    probe_spawn(rt, &next, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(next.polls, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest waker_tests[] = {
    cmocka_unit_test(wake_from_another_thread_polls_the_task),
    cmocka_unit_test(wake_unblocks_a_worker_that_sleeps),
    cmocka_unit_test(copy_made_on_a_foreign_thread_wakes_too),
    cmocka_unit_test(waking_a_completed_task_does_nothing),
    cmocka_unit_test(waker_outlives_its_runtime),
    cmocka_unit_test(waker_does_not_reach_a_new_runtime_with_the_same_waker_table),
    cmocka_unit_test(stale_waker_does_not_wake_the_task_that_reused_the_slot),
    cmocka_unit_test(million_spawns_in_one_slot_do_not_revive_a_stale_waker),
    cmocka_unit_test(many_threads_waking_one_task_make_one_inbox_entry),
    cmocka_unit_test(stored_waker_is_used_from_several_threads),
    cmocka_unit_test(wakes_come_in_the_order_in_which_they_were_made),
    cmocka_unit_test(wake_on_the_workers_own_thread_does_not_use_the_inbox),
    cmocka_unit_test(two_runtimes_wake_each_other),
    cmocka_unit_test(invalid_wakers_do_nothing),
};

HARNESS_MAIN(waker_tests)
