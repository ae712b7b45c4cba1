/* Timer handles: starting, firing, repeating, cancelling and freeing them, from every thread. */
#include "alarm.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void timer_fires_once_at_its_time_and_never_early(void **state)
{
    (void)state;
    static const uint64_t delays[] = { 1, 8191, MS, 20 * MINUTE, 36 * HOUR, YEAR };
    for (size_t i = 0; i < LENGTH(delays); i++) {
        struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
        struct alarm alarm = { 0 };
        alarm_new(&alarm, rt);
        assert_true(orr_timer_due_in(alarm.timer) == ORR_NEVER);
        assert_int_equal(orr_timer_start(alarm.timer, delays[i], 0), 0);
        harness_settle(rt);
        assert_int_equal(orr_timer_due_in(alarm.timer), delays[i]);
        assert_int_equal(orr_runtime_next_deadline(rt), orr_runtime_now(rt) + delays[i]);
        advance(rt, delays[i] - 1);
        assert_int_equal(alarm.fired, 0);
        advance(rt, 1);
        assert_int_equal(alarm.fired, 1);
        advance(rt, YEAR);
        assert_int_equal(alarm.fired, 1);
        assert_int_equal(orr_timer_cancel(alarm.timer), ORR_TOO_LATE);
        orr_timer_free(alarm.timer);
        assert_int_equal(orr_runtime_free(rt), 0);
    }
}

static void timer_in_the_past_fires_in_the_next_turn(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start_at(alarm.timer, 0, 0), 0);
    assert_int_equal(orr_timer_due_in(alarm.timer), 0);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_int_equal(alarm.fired, 1);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void timer_wakes_a_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct probe probe = { .done_after = 4 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    struct orr_timer *timer;
    assert_int_equal(orr_timer_new(rt, &(struct orr_timer_options){ .waker = probe_waker(&probe) }, &timer), 0);
    uint64_t start = orr_runtime_now(rt);
    assert_int_equal(orr_timer_start(timer, HOUR, HOUR), 0);
    while (!probe.drops)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(orr_runtime_now(rt) - start, 3 * HOUR);
    assert_int_equal(orr_timer_cancel(timer), ORR_CANCELLED);
    assert_int_equal(orr_runtime_run(rt), 0);
    orr_timer_free(timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void equal_deadlines_fire_in_the_order_started(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct alarm alarms[100] = { 0 };
    uint64_t deadline = orr_runtime_now(rt) + DAY;
    alarms_fired = 0;
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        alarm_new(&alarms[i], rt);
        assert_int_equal(orr_timer_start_at(alarms[i].timer, deadline, 0), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        assert_int_equal(alarms[i].order, i + 1);
        assert_int_equal(alarms[i].at, deadline);
        orr_timer_free(alarms[i].timer);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll start_cancel_and_start_again(struct orr_task *task, void *data)
{
    struct alarm *alarms = data;
    uint64_t deadline = orr_runtime_now(orr_task_runtime(task)) + 5 * MS;
    assert_int_equal(orr_timer_start_at(alarms[0].timer, deadline, 0), 0);
    assert_int_equal(orr_timer_cancel(alarms[0].timer), ORR_CANCELLED);
    assert_int_equal(orr_timer_start_at(alarms[1].timer, deadline, 0), 0);
    assert_int_equal(orr_timer_start_at(alarms[0].timer, deadline, 0), 0);
    return ORR_DONE;
}

/* The owner starts them, in whose wheel the first one's entry has stayed meanwhile. */
static void timer_cancelled_and_started_again_fires_after_those_started_meanwhile(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm alarms[2] = { 0 };
    alarm_new(&alarms[0], rt);
    alarm_new(&alarms[1], rt);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_cancel_and_start_again, .data = alarms }), 0);
    advance(rt, 0);
    advance(rt, 5 * MS);
    assert_int_equal(alarms[0].fired + alarms[1].fired, 2);
    assert_true(alarms[1].order < alarms[0].order);
    orr_timer_free(alarms[0].timer);
    orr_timer_free(alarms[1].timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void repeat_keeps_its_rate_and_counts_what_it_missed(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start(alarm.timer, 10 * MS, 3 * MS), 0);
    advance(rt, 10 * MS);
    assert_int_equal(alarm.fired, 1);
    advance(rt, 4 * MS); /* a millisecond late */
    assert_int_equal(alarm.fired, 2);
    assert_int_equal(orr_timer_due_in(alarm.timer), 2 * MS); /* the next one is not delayed */
    advance(rt, 2 * MS + 30 * MS);                           /* this one, and ten after it */
    assert_int_equal(alarm.fired, 3);
    assert_int_equal(orr_timer_missed(alarm.timer), 10);
    assert_int_equal(orr_timer_due_in(alarm.timer), 3 * MS);
    assert_int_equal(orr_timer_cancel(alarm.timer), ORR_CANCELLED);
    advance(rt, HOUR);
    assert_int_equal(alarm.fired, 3);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void again_starts_one_repeat_from_now(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_again(alarm.timer), -EINVAL); /* it was never started */
    assert_int_equal(orr_timer_start(alarm.timer, MS, 5 * MS), 0);
    advance(rt, MS);
    advance(rt, 3 * MS);
    assert_int_equal(orr_timer_due_in(alarm.timer), 2 * MS);
    assert_int_equal(orr_timer_again(alarm.timer), 0);
    assert_int_equal(orr_timer_due_in(alarm.timer), 5 * MS);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void starting_again_replaces_the_old_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    static const uint64_t delays[] = { HOUR, MS, MINUTE, 5 * MS, DAY, 2 * SECOND };
    for (size_t i = 0; i < LENGTH(delays); i++) {
        assert_int_equal(orr_timer_start(alarm.timer, delays[i], 0), 0);
        harness_settle(rt);
        assert_int_equal(orr_timer_due_in(alarm.timer), delays[i]);
    }
    advance(rt, 2 * SECOND - 1);
    assert_int_equal(alarm.fired, 0);
    advance(rt, 1);
    assert_int_equal(alarm.fired, 1);
    advance(rt, YEAR);
    assert_int_equal(alarm.fired, 1);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void cancel_itself(struct alarm *alarm)
{
    alarm->answer = orr_timer_cancel(alarm->timer);
}

static void restart_itself(struct alarm *alarm)
{
    if (alarm->fired < 3)
        alarm->answer = orr_timer_start(alarm->timer, 7 * MS, 0);
}

static void restart_and_cancel_itself(struct alarm *alarm)
{
    assert_int_equal(orr_timer_start(alarm->timer, 7 * MS, 0), 0);
    alarm->answer = orr_timer_cancel(alarm->timer);
}

static void free_itself(struct alarm *alarm)
{
    orr_timer_free(alarm->timer);
}

static void callback_may_cancel_restart_or_free_its_own_timer(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct alarm cancels = { .each = cancel_itself, .answer = -1 };
    struct alarm restarts = { .each = restart_itself, .answer = -1 };
    struct alarm both = { .each = restart_and_cancel_itself, .answer = -1 };
    struct alarm frees = { .each = free_itself };
    struct alarm *all[] = { &cancels, &restarts, &both, &frees };
    for (size_t i = 0; i < LENGTH(all); i++) {
        alarm_new(all[i], rt);
        assert_int_equal(orr_timer_start(all[i]->timer, MS, all[i] == &restarts ? 0 : MS), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0); /* returns, because none of them repeats for ever */
    assert_int_equal(cancels.fired, 1);
    assert_int_equal(cancels.answer, ORR_RUNNING);
    assert_int_equal(restarts.fired, 3);
    assert_int_equal(both.fired, 1);
    assert_int_equal(both.answer, ORR_CANCELLED);
    assert_int_equal(frees.fired, 1);
    for (size_t i = 0; i < 3; i++)
        orr_timer_free(all[i]->timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void free_and_restart_itself(struct alarm *alarm)
{
    orr_timer_free(alarm->timer);
    alarm->answer = orr_timer_start(alarm->timer, MS, 0);
}

static void freed_timer_cannot_be_started_by_its_callback(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct alarm alarm = { .each = free_and_restart_itself };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start(alarm.timer, MS, MS), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(alarm.answer, -EINVAL);
    assert_int_equal(alarm.fired, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(alarm.cancelled, 0);
}

static enum orr_poll use_local(struct orr_task *task, void *data)
{
    struct alarm *alarm = data;
    struct orr_timer_options what = { .fire = alarm_ring, .data = alarm, .local = true };
    assert_int_equal(orr_timer_new(orr_task_runtime(task), &what, &alarm->timer), 0);
    assert_int_equal(orr_timer_start(alarm->timer, MS, MS), 0);
    return ORR_DONE;
}

static void free_on_the_third(struct alarm *alarm)
{
    if (alarm->fired == 3)
        orr_timer_free(alarm->timer);
}

static void local_timer_is_used_on_its_worker_and_refused_elsewhere(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct alarm alarm = { .rt = rt, .each = free_on_the_third };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = use_local, .data = &alarm }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(alarm.fired, 3);
    struct orr_timer *timer;
    assert_int_equal(orr_timer_new(rt, &(struct orr_timer_options){ .fire = alarm_ring, .local = true }, &timer), 0);
    assert_int_equal(orr_timer_start(timer, MS, 0), -EPERM); /* this thread runs no worker */
    orr_timer_free(timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static _Atomic unsigned inside;
static _Atomic bool gate;

static void wait_at_the_gate(struct alarm *alarm)
{
    (void)alarm;
    assert_int_equal(atomic_fetch_add(&inside, 1), 0);
    while (!gate)
        sched_yield();
    atomic_fetch_sub(&inside, 1);
}

static void timer_that_is_due_while_its_callback_runs_waits_for_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 2);
    struct alarm alarm = { .each = wait_at_the_gate };
    alarm_new(&alarm, rt);
    gate = false;
    struct starter starter = { .alarms = &alarm, .count = 1, .deadline = 0 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_all, .data = &starter, .worker = 2 }), 0);
    harness_await(&inside, 1);
    assert_int_equal(orr_timer_start(alarm.timer, 0, 0), 0); /* to worker 1, which is idle */
    for (int i = 0; i < 50; i++)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(alarm.fired, 1);
    assert_int_equal(orr_timer_due_in(alarm.timer), 0);
    gate = true;
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(alarm.fired, 2);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void cancel_it(void *data)
{
    struct alarm *alarm = data;
    alarm->answer = orr_timer_cancel(alarm->timer);
}

static void rearm_it_earlier(void *data)
{
    struct alarm *alarm = data;
    alarm->answer = orr_timer_start(alarm->timer, MS, 0);
}

static void rearm_it_later(void *data)
{
    struct alarm *alarm = data;
    alarm->answer = orr_timer_start(alarm->timer, 2 * HOUR, 0);
}

static void other_threads_cancel_and_rearm(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm alarm = { .answer = -1 };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start(alarm.timer, HOUR, 0), 0);
    harness_settle(rt);
    harness_on_thread(rearm_it_earlier, &alarm);
    assert_int_equal(alarm.answer, 0);
    advance(rt, MS);
    assert_int_equal(alarm.fired, 1);

    assert_int_equal(orr_timer_start(alarm.timer, HOUR, 0), 0);
    harness_settle(rt);
    harness_on_thread(rearm_it_later, &alarm);
    advance(rt, HOUR);
    assert_int_equal(alarm.fired, 1);
    assert_int_equal(orr_timer_due_in(alarm.timer), HOUR);
    advance(rt, HOUR);
    assert_int_equal(alarm.fired, 2);

    assert_int_equal(orr_timer_start(alarm.timer, HOUR, 0), 0);
    harness_settle(rt);
    harness_on_thread(cancel_it, &alarm);
    assert_int_equal(alarm.answer, ORR_CANCELLED);
    assert_true(orr_timer_due_in(alarm.timer) == ORR_NEVER);
    harness_on_thread(cancel_it, &alarm);
    assert_int_equal(alarm.answer, ORR_TOO_LATE);
    /* While its entry is still in the wheel, or just removed. */
    harness_on_thread(rearm_it_earlier, &alarm);
    advance(rt, MS);
    assert_int_equal(alarm.fired, 3);
    advance(rt, YEAR);
    assert_int_equal(alarm.fired, 3);
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.timers_fired, 3);
    assert_int_equal(stats.timers_cancelled, 1);
    assert_int_equal(stats.timers_rearmed, 2);
    assert_int_equal(stats.timers_pending, 0);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void timer_outlives_its_runtime(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 2);
    struct alarm idle = { 0 }, pending = { 0 }, restarting = { .each = NULL };
    struct alarm *all[] = { &idle, &pending, &restarting };
    for (size_t i = 0; i < LENGTH(all); i++)
        alarm_new(all[i], rt);
    assert_int_equal(orr_timer_start(pending.timer, HOUR, HOUR), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(pending.cancelled, 1); /* its callback was told */
    assert_int_equal(pending.fired, 0);
    for (size_t i = 0; i < LENGTH(all); i++) {
        assert_int_equal(orr_timer_start(all[i]->timer, MS, 0), -ESHUTDOWN);
        assert_int_equal(orr_timer_cancel(all[i]->timer), ORR_TOO_LATE);
        assert_true(orr_timer_due_in(all[i]->timer) == ORR_NEVER);
        orr_timer_free(all[i]->timer);
    }
}

struct litter {
    struct orr_timer **timers;
    unsigned count;
};

static enum orr_poll start_litter(struct orr_task *task, void *data)
{
    (void)task;
    struct litter *litter = data;
    for (unsigned i = 0; i < litter->count; i++)
        assert_int_equal(orr_timer_start(litter->timers[i], HOUR, 0), 0);
    return ORR_DONE;
}

static void million_timers_cancelled_from_another_thread_are_soon_gone(void **state)
{
    (void)state;
    struct litter litter = { .count = WORK(1000000) };
    litter.timers = calloc(litter.count, sizeof *litter.timers);
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 2, .alloc = counting_alloc });
    struct orr_timer_options what = { .fire = alarm_ring };
    long long before = allocated_bytes;
    for (unsigned i = 0; i < litter.count; i++)
        assert_int_equal(orr_timer_new(rt, &what, &litter.timers[i]), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_litter, .data = &litter, .worker = 2 }), 0);
    while (harness_stats(rt, 2).timers_pending < litter.count)
        sched_yield();
    for (unsigned i = 0; i < litter.count; i++)
        orr_timer_free(litter.timers[i]); /* from this thread, while they are in worker 2's wheel */
    uint64_t start = clock_now();
    while (allocated_bytes > before + 100 * 1000) /* takes an hour if the wheel is not scrubbed */
        sched_yield();
    struct orr_stats stats = harness_stats(rt, 0);
    print_message("%u cancelled, %llu scrubbed, %llu ms later\n", litter.count,
                  (unsigned long long)stats.timers_scrubbed, (unsigned long long)((clock_now() - start) / MS));
    assert_true(stats.timers_scrubbed >= litter.count - 1100);
    assert_int_equal(stats.timers_cancelled, litter.count);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    free(litter.timers);
}

static void timers_beside_scrubbed_ones_can_be_cancelled(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm *alarms = alarms_start(rt, MANY, HOUR);
    for (int i = 0; i < MANY; i += 2)
        /* This thread runs no worker, so the entries stay in the wheel. */
        orr_timer_free(alarms[i].timer);
    while (harness_stats(rt, 0).timers_stale)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(harness_stats(rt, 0).timers_scrubbed, MANY / 2);
    for (int i = 1; i < MANY; i += 2)
        assert_int_equal(orr_timer_cancel(alarms[i].timer), ORR_CANCELLED);
    advance(rt, 2 * HOUR);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(alarms[i].fired, 0);
        if (i % 2)
            orr_timer_free(alarms[i].timer);
    }
    free(alarms);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void invalid_arguments_are_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    struct orr_timer *timer;
    struct orr_timer_options both = { .waker = { 1 }, .fire = alarm_ring }, neither = { 0 },
                             good = { .fire = alarm_ring };
    assert_int_equal(orr_timer_new(NULL, &good, &timer), -EINVAL);
    assert_int_equal(orr_timer_new(rt, NULL, &timer), -EINVAL);
    assert_int_equal(orr_timer_new(rt, &good, NULL), -EINVAL);
    assert_int_equal(orr_timer_new(rt, &both, &timer), -EINVAL);
    assert_int_equal(orr_timer_new(rt, &neither, &timer), -EINVAL);
    assert_int_equal(orr_timer_start(NULL, 1, 0), -EINVAL);
    assert_int_equal(orr_timer_start_at(NULL, 1, 0), -EINVAL);
    assert_int_equal(orr_timer_again(NULL), -EINVAL);
    assert_int_equal(orr_timer_cancel(NULL), -EINVAL);
    assert_true(orr_timer_due_in(NULL) == ORR_NEVER);
    assert_int_equal(orr_timer_missed(NULL), 0);
    orr_timer_free(NULL);
    assert_int_equal(orr_runtime_advance(rt, 1), -EPERM);
    assert_int_equal(orr_runtime_advance(NULL, 1), -EINVAL);
    assert_int_equal(orr_worker_stop(NULL, 2), -EINVAL);
    assert_int_equal(orr_worker_stop(rt, 2), -EINVAL);
    assert_int_equal(orr_runtime_now(NULL), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest timer_tests[] = {
    cmocka_unit_test(timer_fires_once_at_its_time_and_never_early),
    cmocka_unit_test(timer_in_the_past_fires_in_the_next_turn),
    cmocka_unit_test(timer_wakes_a_task),
    cmocka_unit_test(equal_deadlines_fire_in_the_order_started),
    cmocka_unit_test(timer_cancelled_and_started_again_fires_after_those_started_meanwhile),
    cmocka_unit_test(repeat_keeps_its_rate_and_counts_what_it_missed),
    cmocka_unit_test(again_starts_one_repeat_from_now),
    cmocka_unit_test(starting_again_replaces_the_old_time),
    cmocka_unit_test(callback_may_cancel_restart_or_free_its_own_timer),
    cmocka_unit_test(freed_timer_cannot_be_started_by_its_callback),
    cmocka_unit_test(local_timer_is_used_on_its_worker_and_refused_elsewhere),
    cmocka_unit_test(timer_that_is_due_while_its_callback_runs_waits_for_it),
    cmocka_unit_test(other_threads_cancel_and_rearm),
    cmocka_unit_test(timer_outlives_its_runtime),
    cmocka_unit_test(million_timers_cancelled_from_another_thread_are_soon_gone),
    cmocka_unit_test(timers_beside_scrubbed_ones_can_be_cancelled),
    cmocka_unit_test(invalid_arguments_are_refused),
};

HARNESS_MAIN(timer_tests)
