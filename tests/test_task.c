/* Tasks: how they are spawned, polled, and end. */
#include "harness.h"

#include <errno.h>
#include <string.h>

static void task_is_polled_until_done_and_dropped_once(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 1 };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(probe.polls, 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(probe.polls, 1);
    assert_int_equal(probe.drops, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(probe.drops, 1);
}

static enum orr_poll yield_thrice(struct orr_task *task, void *data)
{
    unsigned *polls = data;
    return ++*polls == 3 ? ORR_DONE : orr_task_yield(task);
}

static void yielding_task_is_polled_again_in_the_next_turn_only(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    unsigned polls = 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = yield_thrice, .data = &polls }), 0);
    for (unsigned turn = 1; turn <= 3; turn++) {
        assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), turn < 3);
        assert_int_equal(polls, turn);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void remember_worker(struct probe *probe, struct orr_task *task)
{
    *(unsigned *)probe->data = orr_task_worker(task);
}

static void task_runs_on_the_worker_it_was_given(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(4);
    for (unsigned worker = 1; worker <= 4; worker++) {
        unsigned seen = 0;
        struct probe probe = { .done_after = 1, .each = remember_worker, .data = &seen };
        probe_spawn(rt, &probe, worker);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(seen, worker);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

struct relay {
    unsigned hops;
    _Atomic unsigned *drops;
};

static void relay_drop(void *data)
{
    struct relay *relay = data;
    atomic_fetch_add(relay->drops, 1);
}

static enum orr_poll pass_on(struct orr_task *task, void *data)
{
    struct relay *relay = data;
    unsigned next = orr_task_worker(task) % 3 + 1;
    if (relay->hops--)
        assert_int_equal(
            orr_spawn(orr_task_runtime(task),
                      &(struct orr_spawn){ .poll = pass_on, .data = relay, .drop = relay_drop, .worker = next }),
            0);
    return ORR_DONE;
}

static void run_waits_for_tasks_that_tasks_send_to_other_workers(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(3);
    _Atomic unsigned drops = 0;
    for (int round = 0; round < 20; round++) {
        struct relay relay = { .hops = 50, .drops = &drops };
        drops = 0;
        assert_int_equal(
            orr_spawn(rt, &(struct orr_spawn){ .poll = pass_on, .data = &relay, .drop = relay_drop, .worker = 2 }), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(drops, 51);
        assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void spawn_in_poll(struct probe *probe, struct orr_task *task)
{
    if (probe->polls == 0)
        probe_spawn(orr_task_runtime(task), probe->data, ORR_HERE);
}

static void task_spawned_by_a_task_runs_in_the_same_turn(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe child = { .done_after = 1 };
    struct probe parent = { .done_after = 1, .each = spawn_in_poll, .data = &child };
    probe_spawn(rt, &parent, ORR_HERE);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(child.polls, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void spawn_past_the_limit_is_refused_and_possible_again_after(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .max_tasks = 3 });
    struct probe probes[4] = { { .done_after = 2 }, { 0 }, { 0 }, { 0 } };
    struct orr_spawn what = { .poll = probe_poll, .drop = probe_drop };
    for (int i = 0; i < 3; i++) {
        what.data = &probes[i];
        assert_int_equal(orr_spawn(rt, &what), 0);
    }
    what.data = &probes[3];
    assert_int_equal(orr_spawn(rt, &what), -EAGAIN); /* three are on their way */
    harness_settle(rt);
    assert_int_equal(orr_spawn(rt, &what), -EAGAIN); /* three are alive */
    assert_int_equal(probes[3].drops, 0);
    orr_waker_wake(probe_waker(&probes[0]));
    harness_settle(rt);
    assert_int_equal(orr_spawn(rt, &what), 0);
    harness_settle(rt);
    assert_int_equal(probes[3].polls, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

struct crowd {
    unsigned wanted;
    unsigned made;
    int refused;
};

static enum orr_poll crowd_member(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return ORR_PENDING;
}

static void count_drop(void *data)
{
    ++*(unsigned *)data;
}

static unsigned crowd_drops;

static enum orr_poll gather_crowd(struct orr_task *task, void *data)
{
    struct crowd *crowd = data;
    struct orr_spawn what = { .poll = crowd_member, .data = &crowd_drops, .drop = count_drop };
    while (crowd->made < crowd->wanted && !(crowd->refused = orr_spawn(orr_task_runtime(task), &what)))
        crowd->made++;
    return ORR_DONE;
}

static void million_tasks_live_at_once_and_the_next_is_refused(void **state)
{
    (void)state;
    unsigned limit = WORK(1000000);
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .max_tasks = limit });
    struct crowd crowd = { .wanted = limit };
    crowd_drops = 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = gather_crowd, .data = &crowd }), 0);
    harness_settle(rt);
    assert_int_equal(crowd.made, limit - 1); /* the task that makes them is the millionth */
    assert_int_equal(crowd.refused, -EAGAIN);
    assert_int_equal(harness_stats(rt, 0).tasks_live, limit); /* it waits for them */
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(crowd_drops, limit - 1);
}

static void drop_neighbour(struct probe *probe, struct orr_task *task)
{
    struct probe *other = probe->data;
    struct orr_waker waker = probe_waker(other);
    assert_int_equal(orr_task_drop(orr_task_waker(task)), -EBUSY);
    if (probe->polls == 0) {
        orr_waker_wake(waker); /* it is in the ready queue when it ends */
        assert_int_equal(orr_task_drop(waker), 0);
        assert_int_equal(other->drops, 1);
    }
    assert_int_equal(orr_task_drop(waker), -ESRCH);
}

static void task_dropped_by_another_ends_once_and_a_second_time_is_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe victim = { 0 };
    struct probe killer = { .each = drop_neighbour, .data = &victim };
    probe_spawn(rt, &victim, ORR_HERE);
    probe_spawn(rt, &killer, ORR_HERE);
    harness_settle(rt);
    orr_waker_wake(probe_waker(&killer));
    harness_settle(rt);
    assert_int_equal(victim.polls, 1);
    assert_int_equal(victim.drops, 1);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 1);
    struct probe next = { .done_after = 1 };
    probe_spawn(rt, &next, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(next.drops, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void drop_from_another_thread_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, 2);
    harness_await(&probe.polls, 1);
    struct orr_waker waker = probe_waker(&probe);
    assert_int_equal(orr_task_drop(waker), -EPERM);
    assert_int_equal(orr_task_drop((struct orr_waker){ 0 }), -ESRCH);
    assert_int_equal(probe.drops, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(orr_task_drop(waker), -ESRCH);
}

static enum orr_poll answer_nonsense(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    return (enum orr_poll)7;
}

static void task_whose_poll_returns_nonsense_is_reported_and_ended(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    unsigned drops = 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = answer_nonsense, .data = &drops, .drop = count_drop }),
                     0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(drops, 1);
    assert_non_null(strstr(harness_log(), "answered 7, expected ORR_DONE or ORR_PENDING"));
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void spawn_refuses_invalid_arguments(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct orr_waker waker;
    uint64_t not_a_runtime[64] = { 0 };
    struct orr_spawn good = { .poll = probe_poll };
    assert_int_equal(orr_spawn(NULL, &good), -EINVAL);
    assert_int_equal(orr_spawn((struct orr_runtime *)not_a_runtime, &good), -EINVAL);
    assert_int_equal(orr_spawn(rt, NULL), -EINVAL);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ 0 }), -EINVAL);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = probe_poll, .worker = 3 }), -EINVAL);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = probe_poll, .worker = 2, .waker = &waker }), -EXDEV);
    assert_int_equal(harness_stats(rt, 0).tasks_spawned, 0);
    assert_int_equal(orr_runtime_stop(rt), 0);
    assert_int_equal(orr_spawn(rt, &good), -ESHUTDOWN);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void queries_about_a_null_task_have_answers(void **state)
{
    (void)state;
    assert_int_equal(orr_task_waker(NULL).bits, 0);
    assert_null(orr_task_runtime(NULL));
    assert_int_equal(orr_task_worker(NULL), 0);
    assert_int_equal(orr_task_yield(NULL), ORR_PENDING);
}

static const struct CMUnitTest task_tests[] = {
    cmocka_unit_test(task_is_polled_until_done_and_dropped_once),
    cmocka_unit_test(yielding_task_is_polled_again_in_the_next_turn_only),
    cmocka_unit_test(task_runs_on_the_worker_it_was_given),
    cmocka_unit_test(run_waits_for_tasks_that_tasks_send_to_other_workers),
    cmocka_unit_test(task_spawned_by_a_task_runs_in_the_same_turn),
    cmocka_unit_test(spawn_past_the_limit_is_refused_and_possible_again_after),
    cmocka_unit_test(million_tasks_live_at_once_and_the_next_is_refused),
    cmocka_unit_test(task_dropped_by_another_ends_once_and_a_second_time_is_an_error),
    cmocka_unit_test(drop_from_another_thread_is_refused),
    cmocka_unit_test(task_whose_poll_returns_nonsense_is_reported_and_ended),
    cmocka_unit_test(spawn_refuses_invalid_arguments),
    cmocka_unit_test(queries_about_a_null_task_have_answers),
};

HARNESS_MAIN(task_tests)
