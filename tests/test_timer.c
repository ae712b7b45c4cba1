/* Timers, by way of a runtime: mostly on a clock that the test moves, or that moves itself. */
#include "harness.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)

static struct orr_runtime *runtime_on(enum orr_clock clock, unsigned workers)
{
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = workers, .clock = clock });
    assert_non_null(rt);
    return rt;
}

/* A timer that records what happens to it. */
struct alarm {
    struct orr_timer *timer;
    struct orr_runtime *rt;
    _Atomic unsigned fired, cancelled;
    uint64_t at; /* when it fired last */
    unsigned order;
    void (*each)(struct alarm *alarm); /* in the callback; may be NULL */
    int answer;                        /* what `each` got */
};

static _Atomic unsigned fired_so_far;

static void ring(struct orr_timer *timer, void *data, int status)
{
    struct alarm *alarm = data;
    assert_ptr_equal(timer, alarm->timer);
    if (status == -ECANCELED) {
        atomic_fetch_add(&alarm->cancelled, 1);
        return;
    }
    assert_int_equal(status, 0);
    alarm->at = orr_runtime_now(alarm->rt);
    alarm->order = atomic_fetch_add(&fired_so_far, 1) + 1;
    atomic_fetch_add(&alarm->fired, 1);
    if (alarm->each)
        alarm->each(alarm);
}

static void alarm_new(struct alarm *alarm, struct orr_runtime *rt)
{
    alarm->rt = rt;
    assert_int_equal(orr_timer_new(rt, &(struct orr_timer_options){ .fire = ring, .data = alarm }, &alarm->timer), 0);
}

static void advance(struct orr_runtime *rt, uint64_t ns)
{
    assert_int_equal(orr_runtime_advance(rt, ns), 0);
    harness_settle(rt);
}

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
    fired_so_far = 0;
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
    assert_int_equal(orr_timer_due_in(alarm.timer), 2 * MS); /* the next is not put off */
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
    assert_int_equal(orr_timer_again(alarm.timer), -EINVAL); /* never started */
    assert_int_equal(orr_timer_start(alarm.timer, MS, 5 * MS), 0);
    advance(rt, MS);
    advance(rt, 3 * MS);
    assert_int_equal(orr_timer_due_in(alarm.timer), 2 * MS);
    assert_int_equal(orr_timer_again(alarm.timer), 0);
    assert_int_equal(orr_timer_due_in(alarm.timer), 5 * MS);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void starting_anew_replaces_the_old_time(void **state)
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
    assert_int_equal(orr_runtime_run(rt), 0); /* ends: none of them goes on for ever */
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

static void more_timers_than_a_turn_fires_are_all_fired_though_the_clock_stands(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm *alarms = calloc(MANY, sizeof *alarms);
    for (int i = 0; i < MANY; i++) {
        alarm_new(&alarms[i], rt);
        assert_int_equal(orr_timer_start(alarms[i].timer, HOUR, 0), 0);
    }
    harness_settle(rt);
    assert_int_equal(orr_runtime_advance(rt, HOUR), 0);
    assert_int_equal(orr_runtime_run(rt), 0); /* for ever, if it sleeps over what a turn left */
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(alarms[i].fired, 1);
        orr_timer_free(alarms[i].timer);
    }
    free(alarms);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll use_local(struct orr_task *task, void *data)
{
    struct alarm *alarm = data;
    struct orr_timer_options what = { .fire = ring, .data = alarm, .local = true };
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
    assert_int_equal(orr_timer_new(rt, &(struct orr_timer_options){ .fire = ring, .local = true }, &timer), 0);
    assert_int_equal(orr_timer_start(timer, MS, 0), -EPERM); /* plain code runs no worker */
    orr_timer_free(timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

struct starter {
    struct alarm *alarms;
    unsigned count;
    uint64_t deadline;
};

static enum orr_poll start_all(struct orr_task *task, void *data)
{
    (void)task;
    struct starter *starter = data;
    for (unsigned i = 0; i < starter->count; i++)
        assert_int_equal(orr_timer_start_at(starter->alarms[i].timer, starter->deadline + i * MS, 0), 0);
    return ORR_DONE;
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
    struct starter starter = { &alarm, 1, 0 };
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

static void *advance_often(void *data)
{
    for (int i = 0; i < 100000; i++)
        orr_runtime_advance(data, 1);
    return NULL;
}

static void no_advance_is_lost(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    uint64_t start = orr_runtime_now(rt);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, advance_often, rt);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(orr_runtime_now(rt) - start, 200000);
    assert_int_equal(orr_runtime_advance(rt, UINT64_MAX), 0); /* to the end of all time, not beyond */
    assert_true(orr_runtime_now(rt) == UINT64_MAX);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void virtual_time_jumps_over_years_at_once(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct alarm alarms[5] = { 0 };
    static const uint64_t delays[] = { 36 * HOUR, 20 * MINUTE, 100 * YEAR, MS, DAY };
    static const unsigned orders[] = { 4, 2, 5, 1, 3 };
    uint64_t start = orr_runtime_now(rt);
    fired_so_far = 0;
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        alarm_new(&alarms[i], rt);
        assert_int_equal(orr_timer_start(alarms[i].timer, delays[i], 0), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        assert_int_equal(alarms[i].at - start, delays[i]); /* to the nanosecond */
        assert_int_equal(alarms[i].order, orders[i]);
        orr_timer_free(alarms[i].timer);
    }
    assert_int_equal(harness_stats(rt, 0).lateness_max_ns, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void start_once_more(struct alarm *alarm)
{
    if (alarm->fired < 2)
        assert_int_equal(orr_timer_start(alarm->timer, 10 * MS, 0), 0);
}

static void virtual_time_is_one_for_all_workers(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 3);
    struct alarm alarms[50] = { 0 };
    uint64_t start = orr_runtime_now(rt);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        alarms[i].each = i % 2 ? NULL : start_once_more;
        alarm_new(&alarms[i], rt);
        assert_int_equal(orr_timer_start(alarms[i].timer, (i + 1) * SECOND, 0), 0); /* spread over the workers */
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_now(rt) - start, 50 * SECOND);
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.lateness_max_ns, 0); /* nobody's time ran ahead of anybody's timers */
    for (unsigned worker = 1; worker <= 3; worker++)
        assert_true(harness_stats(rt, worker).timers_fired > 0);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        assert_int_equal(alarms[i].fired, i % 2 ? 1 : 2);
        assert_int_equal(alarms[i].at - start, (i + 1) * SECOND + (i % 2 ? 0 : 10 * MS));
        orr_timer_free(alarms[i].timer);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void deadlock_in_virtual_time_is_said(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0);
    assert_non_null(strstr(harness_log(), "deadlock in virtual time: 1 tasks wait"));
    assert_int_equal(harness_log_lines(), 1);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0); /* and not again */
    assert_int_equal(harness_log_lines(), 1);
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
    harness_elsewhere(rearm_it_earlier, &alarm);
    assert_int_equal(alarm.answer, 0);
    advance(rt, MS);
    assert_int_equal(alarm.fired, 1);

    assert_int_equal(orr_timer_start(alarm.timer, HOUR, 0), 0);
    harness_settle(rt);
    harness_elsewhere(rearm_it_later, &alarm);
    advance(rt, HOUR);
    assert_int_equal(alarm.fired, 1);
    assert_int_equal(orr_timer_due_in(alarm.timer), HOUR);
    advance(rt, HOUR);
    assert_int_equal(alarm.fired, 2);

    assert_int_equal(orr_timer_start(alarm.timer, HOUR, 0), 0);
    harness_settle(rt);
    harness_elsewhere(cancel_it, &alarm);
    assert_int_equal(alarm.answer, ORR_CANCELLED);
    assert_true(orr_timer_due_in(alarm.timer) == ORR_NEVER);
    harness_elsewhere(cancel_it, &alarm);
    assert_int_equal(alarm.answer, ORR_TOO_LATE);
    harness_elsewhere(rearm_it_earlier, &alarm); /* while its entry is in the wheel still, or just gone */
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
    assert_int_equal(pending.cancelled, 1); /* and its callback was told */
    assert_int_equal(pending.fired, 0);
    for (size_t i = 0; i < LENGTH(all); i++) {
        assert_int_equal(orr_timer_start(all[i]->timer, MS, 0), -ESHUTDOWN);
        assert_int_equal(orr_timer_cancel(all[i]->timer), ORR_TOO_LATE);
        assert_true(orr_timer_due_in(all[i]->timer) == ORR_NEVER);
        orr_timer_free(all[i]->timer);
    }
}

static void timers_of_a_worker_that_ends_fire_elsewhere_at_their_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 3);
    struct alarm alarms[100] = { 0 };
    for (size_t i = 0; i < LENGTH(alarms); i++)
        alarm_new(&alarms[i], rt);
    struct starter starter = { alarms, LENGTH(alarms), orr_runtime_now(rt) + HOUR };
    struct orr_spawn what = { .poll = start_all, .data = &starter, .worker = 3 };
    assert_int_equal(orr_spawn(rt, &what), 0);
    while (harness_stats(rt, 3).timers_pending < LENGTH(alarms))
        sched_yield();
    assert_int_equal(orr_timer_cancel(alarms[7].timer), ORR_CANCELLED); /* garbage is not handed on */
    assert_int_equal(orr_worker_stop(rt, 3), 0);
    assert_int_equal(orr_worker_stop(rt, 1), -EINVAL);
    while (harness_stats(rt, 1).timers_pending + harness_stats(rt, 2).timers_pending < LENGTH(alarms) - 1) {
        harness_settle(rt);
        sched_yield();
    }
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.timers_migrated, LENGTH(alarms) - 1);
    assert_int_equal(stats.timers_held, 0);
    /* To the least loaded, so to both alike. */
    assert_true(harness_stats(rt, 1).timers_pending > 20 && harness_stats(rt, 2).timers_pending > 20);
    assert_int_equal(orr_spawn(rt, &what), -ESHUTDOWN);

    assert_int_equal(orr_runtime_advance(rt, HOUR - 1), 0);
    harness_settle(rt);
    usleep(5000);
    for (size_t i = 0; i < LENGTH(alarms); i++)
        assert_int_equal(alarms[i].fired, 0);
    assert_int_equal(orr_runtime_advance(rt, SECOND), 0);
    for (size_t i = 0; i < LENGTH(alarms); i++)
        while (i != 7 && !alarms[i].fired) {
            harness_settle(rt);
            sched_yield();
        }
    assert_int_equal(alarms[7].fired, 0);
    for (size_t i = 0; i < LENGTH(alarms); i++)
        orr_timer_free(alarms[i].timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void timers_without_a_living_worker_are_held_and_then_cancelled(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 2);
    struct alarm alarms[10] = { 0 };
    for (size_t i = 0; i < LENGTH(alarms); i++)
        alarm_new(&alarms[i], rt);
    struct starter starter = { alarms, LENGTH(alarms), orr_runtime_now(rt) + HOUR };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_all, .data = &starter, .worker = 2 }), 0);
    while (harness_stats(rt, 2).timers_pending < LENGTH(alarms))
        sched_yield();
    assert_int_equal(orr_runtime_stop(rt), 0);
    while (harness_stats(rt, 0).timers_held < LENGTH(alarms))
        sched_yield();
    assert_int_equal(orr_timer_cancel(alarms[3].timer), ORR_CANCELLED);
    assert_int_equal(orr_runtime_free(rt), 0);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        assert_int_equal(alarms[i].fired, 0);
        assert_int_equal(alarms[i].cancelled, i != 3);
        orr_timer_free(alarms[i].timer);
    }
}

static _Atomic long long held_bytes;

static void *counting_alloc(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    atomic_fetch_add(&held_bytes, (long long)size - (long long)old_size);
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
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
        assert_int_equal(orr_timer_start(litter->timers[i], 30 * SECOND, 0), 0);
    return ORR_DONE;
}

static void million_timers_cancelled_from_another_thread_are_soon_gone(void **state)
{
    (void)state;
    struct litter litter = { .count = WORK(1000000) };
    litter.timers = calloc(litter.count, sizeof *litter.timers);
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 2, .alloc = counting_alloc });
    struct orr_timer_options what = { .fire = ring };
    long long before = held_bytes;
    for (unsigned i = 0; i < litter.count; i++)
        assert_int_equal(orr_timer_new(rt, &what, &litter.timers[i]), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_litter, .data = &litter, .worker = 2 }), 0);
    while (harness_stats(rt, 2).timers_pending < litter.count)
        sched_yield();
    for (unsigned i = 0; i < litter.count; i++)
        orr_timer_free(litter.timers[i]); /* from this thread; they are in worker 2's wheel */
    uint64_t start = clock_now();
    while (held_bytes > before + 100 * 100) { /* hangs, for 30 s, if nobody scrubs */
        assert_true(clock_now() - start < 20 * SECOND);
        sched_yield();
    }
    struct orr_stats stats = harness_stats(rt, 0);
    print_message("%u cancelled, %llu scrubbed, %llu ms later\n", litter.count,
                  (unsigned long long)stats.timers_scrubbed, (unsigned long long)((clock_now() - start) / MS));
    assert_true(stats.timers_scrubbed >= litter.count - 100);
    assert_int_equal(stats.timers_cancelled, litter.count);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(held_bytes, 0);
    free(litter.timers);
}

static void idle_worker_with_a_far_timer_does_not_wake_up(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 2);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    struct starter starter = { &alarm, 1, orr_runtime_now(rt) + HOUR };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_all, .data = &starter, .worker = 2 }), 0);
    while (!harness_stats(rt, 2).timers_pending)
        sched_yield();
    uint64_t turns;
    do { /* until it has come to rest */
        turns = harness_stats(rt, 2).turns;
        usleep(20000);
    } while (harness_stats(rt, 2).turns != turns);
    usleep(100000);
    assert_int_equal(harness_stats(rt, 2).turns, turns);
    assert_int_equal(harness_stats(rt, 0).service_wake_ups, 0);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void descriptor_is_readable_when_a_timer_is_due(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    int fd = orr_runtime_fd(rt);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    for (unsigned round = 1; round <= 3; round++) {
        uint64_t deadline = clock_now() + 20 * MS;
        assert_int_equal(orr_timer_start_at(alarm.timer, deadline, 0), 0);
        harness_settle(rt);
        if (clock_now() < deadline) { /* or the machine has slept, and the test is void */
            assert_int_equal(orr_runtime_next_deadline(rt), deadline);
            while (!harness_readable(fd))
                usleep(100);
            assert_true(clock_now() >= deadline);
            assert_true(harness_readable(fd)); /* level */
        }
        harness_settle(rt);
        assert_int_equal(alarm.fired, round);
        assert_false(harness_readable(fd));
    }
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void *cancel_soon(void *data)
{
    struct alarm *alarm = data;
    while (!harness_stats(alarm->rt, 1).sleeps)
        sched_yield();
    alarm->answer = orr_timer_cancel(alarm->timer);
    return NULL;
}

static void run_waits_for_timers_and_ends_when_the_last_is_cancelled(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    struct alarm soon = { 0 }, never = { .answer = -1 };
    alarm_new(&soon, rt);
    alarm_new(&never, rt);
    assert_int_equal(orr_timer_start(soon.timer, 3 * MS, 0), 0);
    uint64_t start = clock_now();
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(soon.fired, 1);
    assert_true(clock_now() - start >= 3 * MS);

    assert_int_equal(orr_timer_start(never.timer, HOUR, 0), 0);
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, &never);
    assert_int_equal(orr_runtime_run(rt), 0); /* for an hour, if nobody is told */
    pthread_join(thread, NULL);
    assert_int_equal(never.answer, ORR_CANCELLED);
    orr_timer_free(soon.timer);
    orr_timer_free(never.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* One turn that lasts until the published time has moved thrice: for ever, if nobody but the worker moves it. */
static void watch_the_time(struct probe *probe, struct orr_task *task)
{
    struct orr_runtime *rt = orr_task_runtime(task);
    uint64_t *readings = probe->extra;
    readings[0] = readings[1] = orr_worker_now(rt, orr_task_worker(task));
    for (int moves = 0; moves < 3;) {
        uint64_t reading = orr_worker_now(rt, orr_task_worker(task));
        moves += reading != readings[1];
        readings[1] = reading;
    }
}

static void published_time_goes_on_in_a_long_turn(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start(alarm.timer, HOUR, 0), 0);
    harness_settle(rt);
    uint64_t readings[2], before = clock_now();
    struct probe probe = { .done_after = 1, .each = watch_the_time, .extra = readings };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    assert_true(readings[0] >= before);
    assert_true(readings[1] > readings[0]); /* though the worker itself has not read the clock again */
    assert_true(readings[1] <= clock_now());
    assert_true(harness_stats(rt, 0).service_wake_ups > 0);
    assert_int_equal(orr_worker_now(rt, 2), 0);
    assert_int_equal(orr_worker_now(NULL, 1), 0);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static unsigned yields_before;

static enum orr_poll yield_for_long(struct orr_task *task, void *data)
{
    struct alarm *alarm = data;
    uint64_t end = clock_now() + 200 * US;
    while (clock_now() < end)
        continue;
    if (alarm->fired)
        return ORR_DONE;
    yields_before++;
    return orr_task_yield(task);
}

static void busy_worker_fires_its_timers(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    yields_before = 0;
    assert_int_equal(orr_timer_start(alarm.timer, 2 * MS, 0), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = yield_for_long, .data = &alarm }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_true(yields_before < 200); /* one round would take 40 ms; the timer broke into it */
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 1);
    struct orr_timer *timer;
    struct orr_timer_options both = { .waker = { 1 }, .fire = ring }, neither = { 0 }, good = { .fire = ring };
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
    cmocka_unit_test(repeat_keeps_its_rate_and_counts_what_it_missed),
    cmocka_unit_test(again_starts_one_repeat_from_now),
    cmocka_unit_test(starting_anew_replaces_the_old_time),
    cmocka_unit_test(callback_may_cancel_restart_or_free_its_own_timer),
    cmocka_unit_test(freed_timer_cannot_be_started_by_its_callback),
    cmocka_unit_test(more_timers_than_a_turn_fires_are_all_fired_though_the_clock_stands),
    cmocka_unit_test(local_timer_is_used_on_its_worker_and_refused_elsewhere),
    cmocka_unit_test(timer_that_is_due_while_its_callback_runs_waits_for_it),
    cmocka_unit_test(no_advance_is_lost),
    cmocka_unit_test(virtual_time_jumps_over_years_at_once),
    cmocka_unit_test(virtual_time_is_one_for_all_workers),
    cmocka_unit_test(deadlock_in_virtual_time_is_said),
    cmocka_unit_test(other_threads_cancel_and_rearm),
    cmocka_unit_test(timer_outlives_its_runtime),
    cmocka_unit_test(timers_of_a_worker_that_ends_fire_elsewhere_at_their_time),
    cmocka_unit_test(timers_without_a_living_worker_are_held_and_then_cancelled),
    cmocka_unit_test(million_timers_cancelled_from_another_thread_are_soon_gone),
    cmocka_unit_test(idle_worker_with_a_far_timer_does_not_wake_up),
    cmocka_unit_test(descriptor_is_readable_when_a_timer_is_due),
    cmocka_unit_test(run_waits_for_timers_and_ends_when_the_last_is_cancelled),
    cmocka_unit_test(published_time_goes_on_in_a_long_turn),
    cmocka_unit_test(busy_worker_fires_its_timers),
    cmocka_unit_test(nonsense_is_refused),
};

HARNESS_MAIN(timer_tests)
