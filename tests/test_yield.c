/*
 * A task that does nothing but yield, alone on its worker.  orr_runtime_run() makes many short
 * turns for it, one right after the other.  Whatever else happens must still be noticed.
 */
#include "alarm.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

static _Atomic bool stop;

static enum orr_poll yield_until_stopped(struct orr_task *task, void *data)
{
    unsigned *polls = data;
    ++*polls;
    return atomic_load(&stop) ? ORR_DONE : orr_task_yield(task);
}

/* A runtime with a task that yields until `stop` is set. */
static struct orr_runtime *open_busy(unsigned *polls)
{
    struct orr_runtime *rt = harness_runtime(1);
    atomic_store(&stop, false);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = yield_until_stopped, .data = polls }), 0);
    return rt;
}

static enum orr_poll yield_a_thousand_times(struct orr_task *task, void *data)
{
    unsigned *polls = data;
    return ++*polls > 1000 ? ORR_DONE : orr_task_yield(task);
}

static void each_yield_begins_a_new_turn(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    unsigned polls = 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = yield_a_thousand_times, .data = &polls }), 0);
    uint64_t before = harness_stats(rt, 1).turns;
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(harness_stats(rt, 1).turns - before, 1001);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void a_host_turn_polls_a_yielding_task_once(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 1);
    assert_int_equal(polls, 1);
    atomic_store(&stop, true);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void end_busy_task(struct alarm *alarm)
{
    (void)alarm;
    atomic_store(&stop, true);
}

static void a_timer_fires_beside_a_task_that_yields(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    struct alarm alarm = { .each = end_busy_task };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start(alarm.timer, 3 * MS, 0), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(alarm.fired, 1);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* Starts a timer that is due at once, from inside the run. */
static enum orr_poll start_alarm(struct orr_task *task, void *data)
{
    (void)task;
    struct alarm *alarm = data;
    assert_int_equal(orr_timer_start(alarm->timer, 0, 0), 0);
    return ORR_DONE;
}

static void a_timer_due_at_once_fires_in_the_next_turn(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    struct alarm alarm = { .each = end_busy_task };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = start_alarm, .data = &alarm }), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(alarm.fired, 1);
    orr_timer_free(alarm.timer);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll stop_when_readable(struct orr_task *task, void *data)
{
    struct orr_io *io = data;
    if (orr_io_await(task, io) == -EAGAIN)
        return ORR_PENDING;
    atomic_store(&stop, true);
    return ORR_DONE;
}

struct pipe_wait {
    struct orr_io io;
    int fds[2];
    bool begun;
};

static enum orr_poll wait_for_pipe(struct orr_task *task, void *data)
{
    struct pipe_wait *self = data;
    if (!self->begun) {
        self->begun = true;
        assert_int_equal(orr_io_wait(task, &self->io, self->fds[0], POLLIN), 0);
    }
    return stop_when_readable(task, &self->io);
}

static void write_byte(void *data)
{
    assert_int_equal(write(*(int *)data, "x", 1), 1);
}

static void write_on_alarm(struct alarm *alarm)
{
    write_byte(&alarm->answer);
}

static void io_finishes_beside_a_task_that_yields(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    struct pipe_wait wait = { 0 };
    assert_int_equal(pipe(wait.fds), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = wait_for_pipe, .data = &wait }), 0);
    struct alarm alarm = { .each = write_on_alarm, .answer = wait.fds[1] };
    alarm_new(&alarm, rt);
    assert_int_equal(orr_timer_start(alarm.timer, MS, 0), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    orr_timer_free(alarm.timer);
    close(wait.fds[0]);
    close(wait.fds[1]);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static enum orr_poll stop_all(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    atomic_store(&stop, true);
    return ORR_DONE;
}

static void *spawn_from_thread(void *data)
{
    assert_int_equal(orr_spawn(data, &(struct orr_spawn){ .poll = stop_all, .worker = 1 }), 0);
    return NULL;
}

static void a_spawn_from_another_thread_arrives_beside_a_task_that_yields(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, spawn_from_thread, rt), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    pthread_join(thread, NULL);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void stop_on_wake(struct probe *probe, struct orr_task *task)
{
    (void)task;
    if (probe->polls) /* this is the second */
        atomic_store(&stop, true);
}

static void *wake_probe(void *data)
{
    struct probe *probe = data;
    while (!atomic_load(&probe->waker))
        sched_yield();
    struct orr_waker waker = probe_waker(probe);
    harness_wake(&waker);
    return NULL;
}

static void a_wake_from_another_thread_arrives_beside_a_task_that_yields(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    struct probe probe = { .done_after = 2, .each = stop_on_wake };
    probe_spawn(rt, &probe, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_probe, &probe), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    pthread_join(thread, NULL);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void *interrupt_run(void *data)
{
    orr_runtime_interrupt(data);
    return NULL;
}

static void a_run_is_interrupted_beside_a_task_that_yields(void **state)
{
    (void)state;
    unsigned polls = 0;
    struct orr_runtime *rt = open_busy(&polls);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_run, rt), 0);
    assert_int_equal(orr_runtime_run(rt), -EINTR);
    pthread_join(thread, NULL);
    atomic_store(&stop, true);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_yield_begins_a_new_turn),
    cmocka_unit_test(a_host_turn_polls_a_yielding_task_once),
    cmocka_unit_test(a_timer_fires_beside_a_task_that_yields),
    cmocka_unit_test(a_timer_due_at_once_fires_in_the_next_turn),
    cmocka_unit_test(io_finishes_beside_a_task_that_yields),
    cmocka_unit_test(a_spawn_from_another_thread_arrives_beside_a_task_that_yields),
    cmocka_unit_test(a_wake_from_another_thread_arrives_beside_a_task_that_yields),
    cmocka_unit_test(a_run_is_interrupted_beside_a_task_that_yields),
};

HARNESS_MAIN(tests)
