/*
 * Ending a runtime at any time: every destructor runs once, on its worker's thread, while other
 * threads wake its tasks.
 */
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum { TASKS = 200, THREADS = 3 };

struct target {
    _Atomic unsigned drops;
    _Atomic uint64_t waker;
    pthread_t home;
    bool shard_known;
    _Atomic bool wrong_thread;
};

static enum orr_poll target_poll(struct orr_task *task, void *data)
{
    struct target *target = data;
    target->home = pthread_self();
    target->shard_known = true;
    atomic_store(&target->waker, orr_task_waker(task).bits);
    return ORR_PENDING;
}

static void target_drop(void *data)
{
    struct target *target = data;
    if (target->shard_known && !pthread_equal(target->home, pthread_self()))
        atomic_store(&target->wrong_thread, true);
    /* The task's own waker, too late. */
    orr_waker_wake((struct orr_waker){ atomic_load(&target->waker) });
    atomic_fetch_add(&target->drops, 1);
}

struct fire {
    struct target *targets;
    _Atomic bool over;
};

static void *fire_away(void *data)
{
    struct fire *fire = data;
    for (unsigned i = 0; !atomic_load(&fire->over); i = (i + 7) % TASKS) {
        struct orr_waker waker = { atomic_load(&fire->targets[i].waker) };
        orr_waker_wake(waker);
        if (i % 3 == 0)
            orr_waker_wake_signal(waker);
    }
    return NULL;
}

static void shutdown_during_wakes_drops_every_task_once_on_its_thread(void **state)
{
    (void)state;
    struct target *targets = calloc(TASKS, sizeof *targets);
    struct fire fire = { .targets = targets };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, fire_away, &fire);
    for (int round = 0; round < WORK(200) + 10; round++) {
        struct orr_runtime *rt = harness_runtime(3);
        for (unsigned i = 0; i < TASKS; i++) {
            targets[i].shard_known = false;
            targets[i].drops = 0;
            struct orr_spawn what = {
                .poll = target_poll, .data = &targets[i], .drop = target_drop, .worker = 1 + i % 3
            };
            assert_int_equal(orr_spawn(rt, &what), 0);
        }
        for (int turn = 0; turn < round % 5; turn++)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        for (unsigned i = 0; i < TASKS; i++) {
            assert_int_equal(targets[i].drops, 1);
            assert_false(targets[i].wrong_thread);
        }
    }
    atomic_store(&fire.over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(targets);
}

struct spawner {
    struct orr_runtime *rt;
    _Atomic unsigned accepted, dropped;
    _Atomic bool refused;
};

static enum orr_poll be_done(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_DONE;
}

static void count_dropped(void *data)
{
    struct spawner *spawner = data;
    atomic_fetch_add(&spawner->dropped, 1);
}

static void *spawn_until_refused(void *data)
{
    struct spawner *spawner = data;
    struct orr_spawn what = { .poll = be_done, .data = spawner, .drop = count_dropped, .worker = 2 };
    while (!orr_spawn(spawner->rt, &what))
        atomic_fetch_add(&spawner->accepted, 1);
    atomic_store(&spawner->refused, true);
    return NULL;
}

static void spawn_that_races_with_stop_is_either_refused_or_dropped(void **state)
{
    (void)state;
    for (int round = 0; round < WORK(100) + 10; round++) {
        struct spawner spawner = { .rt = harness_runtime(2) };
        pthread_t thread;
        pthread_create(&thread, NULL, spawn_until_refused, &spawner);
        while (spawner.accepted < 10)
            sched_yield();
        assert_int_equal(orr_runtime_stop(spawner.rt), 0);
        pthread_join(thread, NULL); /* the runtime must exist as long as a thread spawns */
        assert_int_equal(orr_runtime_free(spawner.rt), 0);
        assert_true(spawner.refused);
        assert_int_equal(spawner.accepted, spawner.dropped);
    }
}

struct domino {
    struct domino *next;
    struct orr_waker waker;
    unsigned drops;
};

static enum orr_poll domino_poll(struct orr_task *task, void *data)
{
    struct domino *domino = data;
    domino->waker = orr_task_waker(task);
    return ORR_PENDING;
}

static void domino_drop(void *data)
{
    struct domino *domino = data;
    domino->drops++;
    if (domino->next)
        orr_task_drop(domino->next->waker);
}

static void destructor_that_drops_other_tasks_drops_each_once(void **state)
{
    (void)state;
    struct domino dominoes[50] = { 0 };
    struct orr_runtime *rt = harness_runtime(1);
    for (size_t i = 0; i < LENGTH(dominoes); i++) {
        dominoes[i].next = &dominoes[(i * 7 + 3) % LENGTH(dominoes)];
        struct orr_spawn what = { .poll = domino_poll, .data = &dominoes[i], .drop = domino_drop };
        assert_int_equal(orr_spawn(rt, &what), 0);
    }
    harness_settle(rt);
    assert_int_equal(orr_runtime_free(rt), 0);
    for (size_t i = 0; i < LENGTH(dominoes); i++)
        assert_int_equal(dominoes[i].drops, 1);
}

static int spawn_result;

static void spawn_in_destructor(void *data)
{
    spawn_result = orr_spawn(data, &(struct orr_spawn){ .poll = be_done });
}

static void destructor_cannot_spawn_into_a_runtime_that_ends(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct orr_spawn what = { .poll = be_done, .data = rt, .drop = spawn_in_destructor };
    assert_int_equal(orr_spawn(rt, &what), 0); /* never polled: dropped from the mailbox */
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(spawn_result, -ESHUTDOWN);
}

static void stop_is_seen_whenever_it_comes(void **state)
{
    (void)state;
    for (int round = 0; round < WORK(2000) + 100; round++) {
        struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 3, .spin_us = -1 });
        assert_non_null(rt);
        for (int spin = 0; spin < round * 37 % 5000; spin++)
            atomic_signal_fence(memory_order_seq_cst);
        assert_int_equal(orr_runtime_free(rt), 0); /* hangs if a thread misses the stop */
    }
}

static const struct CMUnitTest shutdown_tests[] = {
    cmocka_unit_test(stop_is_seen_whenever_it_comes),
    cmocka_unit_test(shutdown_during_wakes_drops_every_task_once_on_its_thread),
    cmocka_unit_test(spawn_that_races_with_stop_is_either_refused_or_dropped),
    cmocka_unit_test(destructor_that_drops_other_tasks_drops_each_once),
    cmocka_unit_test(destructor_cannot_spawn_into_a_runtime_that_ends),
};

HARNESS_MAIN(shutdown_tests)
