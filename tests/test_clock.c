/* Clocks, sleeping, the time service, and timers of a worker that ends. */
#include "alarm.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void all_due_timers_fire_while_the_clock_stands_still(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 1);
    struct alarm *alarms = alarms_start(rt, MANY, HOUR);
    assert_int_equal(orr_runtime_advance(rt, HOUR), 0);
    /* Never returns if the worker sleeps while timers are due. */
    assert_int_equal(orr_runtime_run(rt), 0);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(alarms[i].fired, 1);
        orr_timer_free(alarms[i].timer);
    }
    free(alarms);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void *advance_often(void *data)
{
    for (int i = 0; i < 100000; i++)
        orr_runtime_advance(data, 1);
    return NULL;
}

static void advances_of_several_threads_add_up(void **state)
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
    assert_int_equal(orr_runtime_advance(rt, UINT64_MAX), 0); /* stops at the largest time */
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
    alarms_fired = 0;
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        alarm_new(&alarms[i], rt);
        assert_int_equal(orr_timer_start(alarms[i].timer, delays[i], 0), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        assert_int_equal(alarms[i].at - start, delays[i]); /* exact to the nanosecond */
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
        /* Spread over the workers. */
        assert_int_equal(orr_timer_start(alarms[i].timer, (i + 1) * SECOND, 0), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_now(rt) - start, 50 * SECOND);
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.lateness_max_ns, 0); /* no worker's time ran ahead of another's timers */
    for (unsigned worker = 1; worker <= 3; worker++)
        assert_true(harness_stats(rt, worker).timers_fired > 0);
    for (size_t i = 0; i < LENGTH(alarms); i++) {
        assert_int_equal(alarms[i].fired, i % 2 ? 1 : 2);
        assert_int_equal(alarms[i].at - start, (i + 1) * SECOND + (i % 2 ? 0 : 10 * MS));
        orr_timer_free(alarms[i].timer);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void deadlock_in_virtual_time_is_logged(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 1);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), -EDEADLK);
    assert_int_equal(harness_log_lines(), 2); /* the message, and the tree */
    assert_string_equal(harness_log(), "  (unnamed): waiting");
    assert_int_equal(orr_runtime_run(rt), -EDEADLK);
    assert_int_equal(harness_log_lines(), 2); /* logged only once */
    orr_waker_wake(probe_waker(&probe));      /* the test wakes the task after all */
    assert_int_equal(orr_runtime_run(rt), -EDEADLK);
    assert_int_equal(probe.polls, 2);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* A host that ends the first `help` deadlocks by waking the task. */
struct helper {
    struct probe *probe;
    unsigned told, help;
};

static void help(void *data)
{
    struct helper *helper = data;
    if (helper->told++ < helper->help)
        orr_waker_wake(probe_waker(helper->probe));
}

static struct orr_runtime *runtime_with_helper(struct helper *helper)
{
    return harness_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .deadlock = help, .deadlock_data = helper });
}

static void a_host_that_is_told_of_a_deadlock_may_end_it(void **state)
{
    (void)state;
    struct probe probe = { .done_after = 3 };
    struct helper helper = { .probe = &probe, .help = 2 };
    struct orr_runtime *rt = runtime_with_helper(&helper);
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(helper.told, 2);
    assert_int_equal(probe.polls, 3);
    assert_int_equal(harness_log_lines(), 0); /* the host decides what to log */
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void a_deadlock_that_the_host_does_not_end_ends_the_run(void **state)
{
    (void)state;
    struct probe probe = { 0 };
    struct helper helper = { .probe = &probe, .help = 1 };
    struct orr_runtime *rt = runtime_with_helper(&helper);
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), -EDEADLK);
    assert_int_equal(helper.told, 2);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void a_host_that_turns_is_told_of_a_deadlock_too(void **state)
{
    (void)state;
    struct probe probe = { .done_after = 2 };
    struct helper helper = { .probe = &probe, .help = 1 };
    struct orr_runtime *rt = runtime_with_helper(&helper);
    probe_spawn(rt, &probe, ORR_HERE);
    while (orr_runtime_turn(rt, ORR_NEVER) == 1)
        ;
    assert_int_equal(helper.told, 1);
    assert_int_equal(probe.drops, 1);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 0); /* no task waits any more */
    assert_int_equal(helper.told, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/*
 * A timer that moves is counted at its new place before it is taken off the count of the old one.
 * So a test waits for both counts.
 */
static void await_pending(struct orr_runtime *rt, unsigned worker, uint64_t count)
{
    while (harness_stats(rt, worker).timers_pending != count)
        sched_yield();
}

static void await_held(struct orr_runtime *rt, uint64_t count)
{
    while (harness_stats(rt, 0).timers_held != count)
        sched_yield();
}

static void timers_of_a_worker_that_ends_fire_elsewhere_at_their_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 3);
    struct alarm alarms[100] = { 0 };
    for (size_t i = 0; i < LENGTH(alarms); i++)
        alarm_new(&alarms[i], rt);
    struct starter starter = { .alarms = alarms, .count = LENGTH(alarms), .deadline = orr_runtime_now(rt) + HOUR };
    struct orr_spawn what = { .poll = start_all, .data = &starter, .worker = 3 };
    assert_int_equal(orr_spawn(rt, &what), 0);
    while (harness_stats(rt, 3).timers_pending < LENGTH(alarms))
        sched_yield();
    /* A cancelled timer is not handed over. */
    assert_int_equal(orr_timer_cancel(alarms[7].timer), ORR_CANCELLED);
    assert_true(orr_runtime_fd(rt) >= 0); /* a runtime whose descriptor is used counts as driven */
    assert_int_equal(orr_worker_stop(rt, 3), 0);
    assert_int_equal(orr_worker_stop(rt, 1), -EINVAL);
    while (harness_stats(rt, 1).timers_pending + harness_stats(rt, 2).timers_pending < LENGTH(alarms) - 1) {
        harness_settle(rt);
        sched_yield();
    }
    /* Worker 3 counts a timer that it has sent away, perhaps after that has arrived. */
    while (harness_stats(rt, 0).timers_migrated < LENGTH(alarms) - 1)
        sched_yield();
    assert_int_equal(harness_stats(rt, 0).timers_migrated, LENGTH(alarms) - 1);
    await_held(rt, 0);
    /* Timers go to the worker with the least load, so both get some. */
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

/* --- Handing timers to other workers ---------------------------------------------------------- */

enum { CROWD = 1000 };

static void crowd_new(struct orr_runtime *rt, struct alarm *alarms)
{
    for (int i = 0; i < CROWD; i++)
        alarm_new(&alarms[i], rt);
}

static void crowd_free(struct alarm *alarms)
{
    for (int i = 0; i < CROWD; i++)
        orr_timer_free(alarms[i].timer);
    free(alarms);
}

/* Starts the alarms on a worker, an hour from now. */
static void crowd_start(struct orr_runtime *rt, struct alarm *alarms, unsigned worker)
{
    struct starter starter = { .alarms = alarms, .count = CROWD, .deadline = orr_runtime_now(rt) + HOUR };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_all, .data = &starter, .worker = worker }), 0);
    harness_await(&starter.done, 1);
    await_pending(rt, worker, CROWD);
}

/* Waits until all have fired.  The host does not turn. */
static void crowd_fires(const struct alarm *alarms)
{
    for (int i = 0; i < CROWD; i++)
        while (!alarms[i].fired)
            sched_yield();
}

static void timers_of_a_worker_that_ends_do_not_wait_for_a_host_that_does_not_turn(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 3);
        struct alarm *alarms = calloc(CROWD, sizeof *alarms);
        crowd_new(rt, alarms);
        crowd_start(rt, alarms, 2);
        if (turned) /* the host turned some time ago */
            harness_settle(rt);
        assert_int_equal(orr_worker_stop(rt, 2), 0);
        await_pending(rt, 3, CROWD);
        await_pending(rt, 2, 0);
        await_held(rt, 0);
        assert_int_equal(harness_stats(rt, 1).timers_pending, 0);
        assert_int_equal(harness_stats(rt, 0).timers_pending, CROWD);
        assert_int_equal(orr_runtime_advance(rt, 2 * HOUR), 0);
        crowd_fires(alarms);
        assert_int_equal(harness_stats(rt, 3).timers_fired, CROWD);
        crowd_free(alarms);
        assert_int_equal(orr_runtime_free(rt), 0);
    }
}

static void timers_without_a_running_worker_wait_until_the_host_turns(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 2);
    struct alarm *alarms = calloc(CROWD, sizeof *alarms);
    crowd_new(rt, alarms);
    crowd_start(rt, alarms, 2);
    assert_int_equal(orr_worker_stop(rt, 2), 0);
    await_held(rt, CROWD);
    await_pending(rt, 2, 0);
    assert_int_equal(harness_stats(rt, 1).timers_pending, 0);
    assert_int_equal(harness_stats(rt, 0).timers_pending, CROWD);
    assert_int_equal(orr_timer_cancel(alarms[7].timer), ORR_CANCELLED);
    /* Started while the time service holds it. */
    assert_int_equal(orr_timer_start(alarms[8].timer, 3 * HOUR, 0), 0);
    assert_int_equal(orr_runtime_advance(rt, 2 * HOUR), 0);
    while (harness_stats(rt, 1).timers_fired != CROWD - 2)
        harness_settle(rt);
    await_pending(rt, 1, 1);
    await_held(rt, 0);
    assert_int_equal(alarms[8].fired, 0);
    assert_int_equal(orr_runtime_advance(rt, 2 * HOUR), 0);
    while (!alarms[8].fired) /* its letter may still be on the way */
        harness_settle(rt);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(alarms[i].fired, i != 7);
    crowd_free(alarms);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void *drive_until_interrupted(void *data)
{
    return orr_runtime_run(data) == -EINTR ? data : NULL;
}

static void timers_handed_to_a_host_that_stops_turning_fire_elsewhere(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 3);
    struct alarm *alarms = calloc(CROWD, sizeof *alarms), own = { 0 };
    crowd_new(rt, alarms);
    alarm_new(&own, rt);
    crowd_start(rt, alarms, 2);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_timer_start(own.timer, HOUR, 0), 0);
    assert_int_equal(orr_runtime_leave(rt), 0);
    pthread_t driver;
    pthread_create(&driver, NULL, drive_until_interrupted, rt);
    while (harness_stats(rt, 1).turns == 0)
        sched_yield();
    assert_int_equal(orr_worker_stop(rt, 2), 0);
    while (harness_stats(rt, 1).timers_pending + harness_stats(rt, 3).timers_pending != CROWD + 1)
        sched_yield();
    assert_in_range(harness_stats(rt, 1).timers_pending, CROWD / 4,
                    CROWD * 3 / 4); /* the host drives worker 1, so it gets its part */
    assert_int_equal(orr_runtime_interrupt(rt), 0);
    void *answer;
    pthread_join(driver, &answer);
    assert_ptr_equal(answer, rt);
    await_pending(rt, 3, CROWD);
    /* A timer that was started there stays. */
    assert_int_equal(harness_stats(rt, 1).timers_pending, 1);
    assert_int_equal(orr_runtime_advance(rt, 2 * HOUR), 0);
    crowd_fires(alarms);
    assert_int_equal(harness_stats(rt, 3).timers_fired, CROWD);
    assert_int_equal(own.fired, 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(own.fired, 1);
    orr_timer_free(own.timer);
    crowd_free(alarms);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static _Atomic bool blocked, let_go;

/* Starts alarms and stays in this poll: its worker neither fires nor scrubs timers meanwhile. */
static enum orr_poll start_and_block(struct orr_task *task, void *data)
{
    start_all(task, data);
    atomic_store(&blocked, true);
    while (!let_go)
        sched_yield();
    return ORR_DONE;
}

/* Returns when the task blocks its worker, until `let_go` is set. */
static void spawn_blocker(struct orr_runtime *rt, struct starter *starter, unsigned worker)
{
    struct orr_spawn what = { .poll = start_and_block, .data = starter, .worker = worker };
    blocked = let_go = false;
    assert_int_equal(orr_spawn(rt, &what), 0);
    while (!blocked)
        sched_yield();
}

static void dirty_wheel_is_handed_no_timers_before_a_clean_one(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 4);
    struct alarm *alarms = calloc(CROWD, sizeof *alarms), *garbage = calloc(CROWD, sizeof *garbage);
    crowd_new(rt, alarms);
    crowd_new(rt, garbage);
    struct starter starter = { .alarms = garbage, .count = CROWD, .deadline = orr_runtime_now(rt) + HOUR };
    spawn_blocker(rt, &starter, 3);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(orr_timer_cancel(garbage[i].timer), ORR_CANCELLED);
    assert_int_equal(harness_stats(rt, 3).timers_stale, CROWD);
    assert_int_equal(harness_stats(rt, 3).timers_pending, 0); /* as few as worker 4 has */
    crowd_start(rt, alarms, 2);
    assert_int_equal(orr_worker_stop(rt, 2), 0);
    while (harness_stats(rt, 3).timers_pending + harness_stats(rt, 4).timers_pending != CROWD)
        sched_yield();
    assert_true(harness_stats(rt, 4).timers_pending >=
                /* The last timer may go to either worker, when both have the same load. */
                CROWD - 1);
    let_go = true;
    assert_int_equal(orr_runtime_advance(rt, 2 * HOUR), 0);
    crowd_fires(alarms);
    crowd_free(alarms);
    crowd_free(garbage);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/*
 * The clock does not jump past timers that move to worker 1, and does not take this for a deadlock.
 */
static void virtual_clock_waits_for_timers_that_are_being_handed_over(void **state)
{
    (void)state;
    for (unsigned round = 0; round < WORK(100) + 10; round++) {
        struct orr_runtime *rt = runtime_on(ORR_CLOCK_VIRTUAL, 2);
        struct alarm *alarms = calloc(CROWD, sizeof *alarms), own = { 0 };
        crowd_new(rt, alarms);
        alarm_new(&own, rt);
        crowd_start(rt, alarms, 2);
        assert_int_equal(orr_runtime_enter(rt), 0);
        assert_int_equal(orr_timer_start(own.timer, 2 * HOUR, 0), 0);
        assert_int_equal(orr_runtime_leave(rt), 0);
        assert_int_equal(orr_worker_stop(rt, 2), 0);
        if (round % 2) /* in the other rounds, before the time service holds them */
            await_held(rt, CROWD);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(own.fired, 1);
        for (int i = 0; i < CROWD; i++) {
            assert_int_equal(alarms[i].fired, 1);
            assert_true(alarms[i].at < own.at);
        }
        orr_timer_free(own.timer);
        crowd_free(alarms);
        assert_int_equal(orr_runtime_free(rt), 0);
    }
}

static enum orr_poll start_local(struct orr_task *task, void *data)
{
    struct alarm *alarm = data;
    struct orr_timer_options what = { .fire = alarm_ring, .data = alarm, .local = true };
    assert_int_equal(orr_timer_new(orr_task_runtime(task), &what, &alarm->timer), 0);
    assert_int_equal(orr_timer_start(alarm->timer, HOUR, 0), 0);
    return ORR_DONE;
}

static void local_timer_of_a_worker_that_ends_is_dropped(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 3);
    struct alarm alarm = { .rt = rt };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_local, .data = &alarm, .worker = 2 }), 0);
    await_pending(rt, 2, 1);
    assert_int_equal(harness_stats(rt, 0).timers_dropped, 0);
    assert_int_equal(orr_worker_stop(rt, 2), 0);
    await_pending(rt, 0, 0);
    while (!alarm.cancelled)
        sched_yield();
    struct orr_stats stats = harness_stats(rt, 0);
    assert_int_equal(stats.timers_dropped, 1);
    assert_int_equal(stats.timers_cancelled, 0);
    assert_int_equal(stats.timers_migrated, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    orr_timer_free(alarm.timer);
}

static void timer_adopted_after_its_time_fires_at_once(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MANUAL, 2);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    struct starter starter = { .alarms = &alarm, .count = 1, .deadline = orr_runtime_now(rt) + HOUR };
    spawn_blocker(rt, &starter, 2);
    assert_int_equal(orr_runtime_advance(rt, 2 * HOUR), 0);
    assert_int_equal(orr_worker_stop(rt, 2), 0);
    let_go = true;
    /* Never returns if the timer is put one turn of the wheel later. */
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(alarm.fired, 1);
    assert_int_equal(harness_stats(rt, 1).timers_fired, 1);
    assert_int_equal(harness_stats(rt, 0).lateness_max_ns, HOUR);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void timers_without_a_living_worker_are_held_and_then_cancelled(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 2);
    struct alarm alarms[10] = { 0 };
    for (size_t i = 0; i < LENGTH(alarms); i++)
        alarm_new(&alarms[i], rt);
    struct starter starter = { .alarms = alarms, .count = LENGTH(alarms), .deadline = orr_runtime_now(rt) + HOUR };
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

static void idle_worker_with_a_far_timer_does_not_wake_up(void **state)
{
    (void)state;
    struct orr_runtime *rt = runtime_on(ORR_CLOCK_MONOTONIC, 2);
    struct alarm alarm = { 0 };
    alarm_new(&alarm, rt);
    struct starter starter = { .alarms = &alarm, .count = 1, .deadline = orr_runtime_now(rt) + HOUR };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_all, .data = &starter, .worker = 2 }), 0);
    while (!harness_stats(rt, 2).timers_pending)
        sched_yield();
    /*
     * On a busy machine, the worker's thread may stand still for long before it sleeps.  A worker
     * that wakes up by itself does so in every round.
     */
    uint64_t turns, rounds = 0;
    do {
        assert_true(rounds++ < 100);
        turns = harness_stats(rt, 2).turns;
        usleep(100000);
    } while (harness_stats(rt, 2).turns != turns);
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
        /* Otherwise the machine was too slow, and the round checks nothing. */
        if (clock_now() < deadline) {
            assert_int_equal(orr_runtime_next_deadline(rt), deadline);
            while (!harness_readable(fd))
                usleep(100);
            assert_true(clock_now() >= deadline);
            assert_true(harness_readable(fd)); /* level-triggered */
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
    assert_int_equal(orr_runtime_run(rt), 0); /* takes an hour if the worker is not told */
    pthread_join(thread, NULL);
    assert_int_equal(never.answer, ORR_CANCELLED);
    orr_timer_free(soon.timer);
    orr_timer_free(never.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/*
 * One turn that lasts until the published time has moved three times.  It never ends if only the
 * worker moves that time.
 */
static void watch_the_time(struct probe *probe, struct orr_task *task)
{
    struct orr_runtime *rt = orr_task_runtime(task);
    uint64_t *readings = probe->data;
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
    struct probe probe = { .done_after = 1, .each = watch_the_time, .data = readings };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    assert_true(readings[0] >= before);
    assert_true(readings[1] > readings[0]); /* although the worker has not read the clock again */
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
    assert_true(yields_before < 200); /* one round would take 40 ms; the timer interrupted it */
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest clock_tests[] = {
    cmocka_unit_test(all_due_timers_fire_while_the_clock_stands_still),
    cmocka_unit_test(advances_of_several_threads_add_up),
    cmocka_unit_test(virtual_time_jumps_over_years_at_once),
    cmocka_unit_test(virtual_time_is_one_for_all_workers),
    cmocka_unit_test(deadlock_in_virtual_time_is_logged),
    cmocka_unit_test(a_host_that_is_told_of_a_deadlock_may_end_it),
    cmocka_unit_test(a_deadlock_that_the_host_does_not_end_ends_the_run),
    cmocka_unit_test(a_host_that_turns_is_told_of_a_deadlock_too),
    cmocka_unit_test(idle_worker_with_a_far_timer_does_not_wake_up),
    cmocka_unit_test(descriptor_is_readable_when_a_timer_is_due),
    cmocka_unit_test(run_waits_for_timers_and_ends_when_the_last_is_cancelled),
    cmocka_unit_test(published_time_goes_on_in_a_long_turn),
    cmocka_unit_test(busy_worker_fires_its_timers),
    cmocka_unit_test(timers_of_a_worker_that_ends_fire_elsewhere_at_their_time),
    cmocka_unit_test(timers_of_a_worker_that_ends_do_not_wait_for_a_host_that_does_not_turn),
    cmocka_unit_test(timers_without_a_running_worker_wait_until_the_host_turns),
    cmocka_unit_test(timers_handed_to_a_host_that_stops_turning_fire_elsewhere),
    cmocka_unit_test(dirty_wheel_is_handed_no_timers_before_a_clean_one),
    cmocka_unit_test(virtual_clock_waits_for_timers_that_are_being_handed_over),
    cmocka_unit_test(local_timer_of_a_worker_that_ends_is_dropped),
    cmocka_unit_test(timer_adopted_after_its_time_fires_at_once),
    cmocka_unit_test(timers_without_a_living_worker_are_held_and_then_cancelled),
};

HARNESS_MAIN(clock_tests)
