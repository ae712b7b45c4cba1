/* Runtimes: their options, their turns, and their behaviour inside a host. */
#include "harness.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void default_options_make_one_worker(void **state)
{
    (void)state;
    struct orr_runtime *rt = orr_runtime_new(NULL);
    assert_non_null(rt);
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.workers, 1);
    assert_true(stats.reactor == ORR_REACTOR_URING || stats.reactor == ORR_REACTOR_EPOLL);
    assert_int_equal(orr_runtime_run(rt), 0); /* returns at once, with nothing to do */
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void refuse(struct orr_options options, const char *why)
{
    assert_null(harness_runtime_with(options));
    assert_int_equal(errno, EINVAL);
    assert_non_null(strstr(harness_log(), why));
}

static void invalid_options_are_refused_by_name(void **state)
{
    (void)state;
    refuse((struct orr_options){ .workers = 1001 }, "option workers is 1001, expected 1 to 1000");
    refuse((struct orr_options){ .max_tasks = 4194241 }, "option max_tasks is 4194241, expected 1 to 4194240");
    refuse((struct orr_options){ .reactor = (enum orr_reactor)9 }, "option reactor is 9");
    refuse((struct orr_options){ .spin_us = -2 }, "option spin_us is -2, expected -1 to 1000");
    refuse((struct orr_options){ .spin_us = 1001 }, "option spin_us is 1001");
}

static void reactor_is_the_one_asked_for(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    assert_int_equal(harness_stats(rt, 0).reactor, harness_reactor);
    assert_string_equal(orr_reactor_name(ORR_REACTOR_AUTO), "auto");
    assert_null(orr_reactor_name((enum orr_reactor)17));
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void version_is_that_of_the_header(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_int_equal(sscanf(orr_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(major, ORR_VERSION_MAJOR);
    assert_int_equal(minor, ORR_VERSION_MINOR);
    assert_int_equal(patch, ORR_VERSION_PATCH);
}

static void invalid_runtime_is_refused(void **state)
{
    (void)state;
    uint64_t words[64] = { 1, 2, 3 };
    struct orr_runtime *bad[] = { NULL, (struct orr_runtime *)words };
    struct orr_stats stats;
    for (size_t i = 0; i < LENGTH(bad); i++) {
        assert_int_equal(orr_runtime_run(bad[i]), -EINVAL);
        assert_int_equal(orr_runtime_turn(bad[i], 0), -EINVAL);
        assert_int_equal(orr_runtime_fd(bad[i]), -EINVAL);
        assert_int_equal(orr_runtime_stop(bad[i]), -EINVAL);
        assert_int_equal(orr_runtime_stats(bad[i], 0, &stats), -EINVAL);
        assert_true(orr_runtime_next_deadline(bad[i]) == ORR_NEVER);
    }
    assert_int_equal(orr_runtime_free(NULL), 0);
    assert_int_equal(orr_runtime_free(bad[1]), -EINVAL);
}

static void stats_of_no_worker_are_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    struct orr_stats stats;
    assert_int_equal(orr_runtime_stats(rt, 2, &stats), 0);
    assert_int_equal(orr_runtime_stats(rt, 3, &stats), -EINVAL);
    assert_int_equal(orr_runtime_stats(rt, 0, NULL), -EINVAL);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void call_back_into_the_runtime(struct probe *probe, struct orr_task *task)
{
    (void)probe;
    struct orr_runtime *rt = orr_task_runtime(task);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), -EBUSY);
    assert_int_equal(orr_runtime_run(rt), -EBUSY);
    assert_int_equal(orr_runtime_fd(rt), -EBUSY);
    assert_int_equal(orr_runtime_free(rt), -EBUSY);
}

static void turn_inside_a_turn_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    for (unsigned worker = 1; worker <= 2; worker++) {
        struct probe probe = { .done_after = 1, .each = call_back_into_the_runtime };
        probe_spawn(rt, &probe, worker);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(probe.drops, 1);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void turn_elsewhere(void *data)
{
    assert_int_equal(orr_runtime_turn(data, ORR_NEVER), -EBUSY);
    assert_int_equal(orr_runtime_free(data), -EBUSY);
}

static void let_another_thread_try(struct probe *probe, struct orr_task *task)
{
    (void)probe;
    harness_on_thread(turn_elsewhere, orr_task_runtime(task));
}

static void turn_on_a_second_thread_at_the_same_time_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 1, .each = let_another_thread_try };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void settle_here(void *data)
{
    harness_settle(data);
}

static void turns_move_from_thread_to_thread(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    for (unsigned i = 1; i <= 10; i++) {
        harness_on_thread(settle_here, rt);
        assert_int_equal(probe.polls, i);
        orr_waker_wake(probe_waker(&probe));
    }
    harness_settle(rt);
    assert_int_equal(probe.polls, 11);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void turn_without_budget_polls_one_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probes[3] = { { .done_after = 1 }, { .done_after = 1 }, { .done_after = 1 } };
    for (int i = 0; i < 3; i++)
        probe_spawn(rt, &probes[i], ORR_HERE);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(orr_runtime_turn(rt, 0), i < 2);
        assert_int_equal(harness_stats(rt, 0).polls, i + 1);
    }
    assert_int_equal(orr_runtime_turn(rt, 0), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void burn_two_milliseconds(struct probe *probe, struct orr_task *task)
{
    (void)probe;
    (void)task;
    uint64_t end = clock_now() + 2000000;
    while (clock_now() < end)
        continue;
}

static void turn_ends_when_its_budget_is_used_up(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probes[10];
    for (int i = 0; i < 10; i++) {
        probes[i] = (struct probe){ .done_after = 1, .each = burn_two_milliseconds };
        probe_spawn(rt, &probes[i], ORR_HERE);
    }
    assert_int_equal(orr_runtime_turn(rt, 3000000), 1);
    assert_in_range(harness_stats(rt, 0).polls, 1, 2); /* two tasks take at least 4 ms */
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll wake_the_other(struct orr_task *task, void *data)
{
    (void)task;
    orr_waker_wake(**(struct orr_waker **)data);
    return ORR_PENDING;
}

static enum orr_poll start_pair(struct orr_task *task, void *data)
{
    static struct orr_waker wakers[2];
    static struct orr_waker *others[2] = { &wakers[1], &wakers[0] };
    (void)data;
    for (int i = 0; i < 2; i++) {
        struct orr_spawn what = { .poll = wake_the_other, .data = &others[i], .waker = &wakers[i] };
        assert_int_equal(orr_spawn(orr_task_runtime(task), &what), 0);
    }
    return ORR_DONE;
}

static void turn_ends_while_tasks_wake_each_other_for_ever(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_pair }), 0);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 1);
    assert_int_equal(harness_stats(rt, 0).polls, 256);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void spawn_from(void *data)
{
    static struct probe probe = { .done_after = 1 };
    probe_spawn(data, &probe, ORR_HERE);
}

static void descriptor_is_readable_exactly_while_there_is_something_to_do(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    int fd = orr_runtime_fd(rt);
    assert_true(fd >= 0);
    assert_int_equal(orr_runtime_fd(rt), fd);
    assert_false(harness_readable(fd));
    assert_true(orr_runtime_next_deadline(rt) == ORR_NEVER);

    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_true(harness_readable(fd));
    assert_true(harness_readable(fd)); /* level-triggered */
    assert_int_equal(orr_runtime_next_deadline(rt), 0);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(probe.polls, 1);
    assert_false(harness_readable(fd));
    assert_true(orr_runtime_next_deadline(rt) == ORR_NEVER);

    struct orr_waker waker = probe_waker(&probe);
    harness_on_thread(harness_wake, &waker);
    assert_true(harness_readable(fd));
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(probe.polls, 2);
    assert_false(harness_readable(fd));

    harness_on_thread(spawn_from, rt);
    assert_true(harness_readable(fd));
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_false(harness_readable(fd));
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void descriptor_stays_readable_while_tasks_are_left_for_the_next_turn(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    int fd = orr_runtime_fd(rt);
    struct probe probes[3] = { { .done_after = 1 }, { .done_after = 1 }, { .done_after = 1 } };
    for (int i = 0; i < 3; i++)
        probe_spawn(rt, &probes[i], ORR_HERE);
    unsigned turns = 0;
    while (harness_readable(fd)) {
        assert_true(orr_runtime_turn(rt, 0) >= 0);
        turns++;
    }
    assert_int_equal(turns, 3);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void descriptor_that_is_asked_for_late_is_readable_if_there_is_work(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 1 };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_true(harness_readable(orr_runtime_fd(rt)));
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_false(harness_readable(orr_runtime_fd(rt)));
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void foreign_wakes_cost_an_eventfd_write_only_when_the_worker_sleeps(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probes[100] = { 0 };
    for (size_t i = 0; i < LENGTH(probes); i++)
        probe_spawn(rt, &probes[i], ORR_HERE);
    harness_settle(rt);
    assert_true(orr_runtime_fd(rt) >= 0); /* from now on, the host may sleep on the descriptor */
    uint64_t before = harness_stats(rt, 0).eventfd_writes;
    for (size_t i = 0; i < LENGTH(probes); i++)
        orr_waker_wake(probe_waker(&probes[i]));
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.eventfd_writes - before, 1);
    assert_int_equal(stats.futex_wakes, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void stop_from(void *data)
{
    assert_int_equal(orr_runtime_stop(data), 0);
}

static void *stop_soon(void *data)
{
    while (!harness_stats(data, 1).sleeps)
        usleep(100);
    orr_runtime_stop(data);
    return NULL;
}

static void stop_ends_a_run_that_sleeps(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(3);
    struct probe probes[3] = { 0 };
    for (unsigned i = 0; i < 3; i++)
        probe_spawn(rt, &probes[i], i + 1);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_soon, rt);
    assert_int_equal(orr_runtime_run(rt), -ECANCELED);
    pthread_join(thread, NULL);
    assert_int_equal(orr_runtime_run(rt), -ECANCELED); /* a stopped runtime stays stopped */
    assert_int_equal(orr_runtime_turn(rt, 0), -ESHUTDOWN);
    assert_int_equal(orr_runtime_free(rt), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(probes[i].drops, 1);
}

static void stop_makes_the_descriptor_readable(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    int fd = orr_runtime_fd(rt);
    harness_on_thread(stop_from, rt);
    assert_true(harness_readable(fd));
    assert_int_equal(orr_runtime_turn(rt, 0), -ESHUTDOWN);
    assert_true(harness_readable(fd)); /* it stays readable */
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void runtimes_live_side_by_side(void **state)
{
    (void)state;
    struct orr_runtime *rts[20];
    struct probe probes[20];
    for (unsigned i = 0; i < 20; i++) {
        rts[i] = harness_runtime(1 + i % 3);
        probes[i] = (struct probe){ .done_after = 1 };
        probe_spawn(rts[i], &probes[i], 1 + i % 3);
    }
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(orr_runtime_run(rts[i]), 0);
        assert_int_equal(probes[i].drops, 1);
        assert_int_equal(orr_runtime_free(rts[i]), 0);
    }
}

static void run_inner(struct probe *probe, struct orr_task *task)
{
    (void)task;
    struct orr_runtime *inner = harness_runtime(1);
    struct probe inside = { .done_after = 1 };
    probe_spawn(inner, &inside, ORR_HERE);
    assert_int_equal(orr_runtime_run(inner), 0);
    *(unsigned *)probe->data = inside.drops;
    assert_int_equal(orr_runtime_free(inner), 0);
    orr_task_yield(task); /* still on its own worker */
}

static void runtime_runs_inside_a_task_of_another(void **state)
{
    (void)state;
    unsigned inner_drops = 0;
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 2, .each = run_inner, .data = &inner_drops };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(inner_drops, 1);
    assert_int_equal(harness_stats(rt, 0).wakes_local, 2); /* it yields once in each poll */
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void freeing_gives_back_all_descriptors_but_the_pools(void **state)
{
    (void)state;
    unsigned after_first = 0;
    for (int i = 0; i < 20; i++) {
        struct orr_runtime *rt = harness_runtime(3);
        assert_true(orr_runtime_fd(rt) >= 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        if (i == 0)
            after_first = harness_open_fds();
    }
    assert_int_equal(harness_open_fds(), after_first);
}

static void every_descriptor_is_close_on_exec(void **state)
{
    (void)state;
    bool before[1024];
    for (int fd = 0; fd < 1024; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    /* More workers than any test before, so the pool of waker tables grows. */
    struct orr_runtime *rt = harness_runtime(30);
    assert_true(orr_runtime_fd(rt) >= 0);
    unsigned seen = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (before[fd] || flags < 0)
            continue;
        assert_true(flags & FD_CLOEXEC);
        seen++;
    }
    assert_true(seen >= 30);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void remember_mask(struct probe *probe, struct orr_task *task)
{
    (void)task;
    pthread_sigmask(SIG_SETMASK, NULL, probe->data);
}

static void threads_take_no_signals_of_the_host(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(2);
    sigset_t mask, own;
    struct probe probe = { .done_after = 1, .each = remember_mask, .data = &mask };
    probe_spawn(rt, &probe, 2);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGRTMIN));
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    assert_false(sigismember(&own, SIGINT));
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void worker_that_spins_before_it_sleeps_sees_every_wake(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 2, .spin_us = 1000 });
    assert_non_null(rt);
    struct probe probe = { .done_after = 100 };
    probe_spawn(rt, &probe, 2);
    for (unsigned i = 1; i < 100; i++) {
        harness_await(&probe.polls, i);
        orr_waker_wake(probe_waker(&probe));
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(probe.drops, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest runtime_tests[] = {
    cmocka_unit_test(default_options_make_one_worker),
    cmocka_unit_test(invalid_options_are_refused_by_name),
    cmocka_unit_test(reactor_is_the_one_asked_for),
    cmocka_unit_test(version_is_that_of_the_header),
    cmocka_unit_test(invalid_runtime_is_refused),
    cmocka_unit_test(stats_of_no_worker_are_refused),
    cmocka_unit_test(turn_inside_a_turn_is_refused),
    cmocka_unit_test(turn_on_a_second_thread_at_the_same_time_is_refused),
    cmocka_unit_test(turns_move_from_thread_to_thread),
    cmocka_unit_test(turn_without_budget_polls_one_task),
    cmocka_unit_test(turn_ends_when_its_budget_is_used_up),
    cmocka_unit_test(turn_ends_while_tasks_wake_each_other_for_ever),
    cmocka_unit_test(descriptor_is_readable_exactly_while_there_is_something_to_do),
    cmocka_unit_test(descriptor_stays_readable_while_tasks_are_left_for_the_next_turn),
    cmocka_unit_test(descriptor_that_is_asked_for_late_is_readable_if_there_is_work),
    cmocka_unit_test(foreign_wakes_cost_an_eventfd_write_only_when_the_worker_sleeps),
    cmocka_unit_test(stop_ends_a_run_that_sleeps),
    cmocka_unit_test(stop_makes_the_descriptor_readable),
    cmocka_unit_test(runtimes_live_side_by_side),
    cmocka_unit_test(runtime_runs_inside_a_task_of_another),
    cmocka_unit_test(freeing_gives_back_all_descriptors_but_the_pools),
    cmocka_unit_test(every_descriptor_is_close_on_exec),
    cmocka_unit_test(threads_take_no_signals_of_the_host),
    cmocka_unit_test(worker_that_spins_before_it_sleeps_sees_every_wake),
};

HARNESS_MAIN(runtime_tests)
