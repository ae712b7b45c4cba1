/*
 * The moments before a worker sleeps.  This program replaces bell_wait() and reactor_wait(), the
 * only two functions in which a worker blocks, so that a wake can come at exactly the worst time.
 */
#include "harness.h"

#include "base/bell.h"
#include "reactor/reactor.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

void __real_bell_wait(struct bell *bell, uint64_t timeout_ns);
void __wrap_bell_wait(struct bell *bell, uint64_t timeout_ns);
int __real_reactor_wait(struct reactor *reactor, uint64_t timeout_ns);
int __wrap_reactor_wait(struct reactor *reactor, uint64_t timeout_ns);

/* Called when worker 1 is about to block, after it has found its inbox empty. */
static void (*before_blocking)(void);
static unsigned blocked;

static void about_to_block(void)
{
    void (*action)(void) = before_blocking;
    before_blocking = NULL;
    blocked++;
    if (action)
        action();
}

void __wrap_bell_wait(struct bell *bell, uint64_t timeout_ns)
{
    about_to_block();
    __real_bell_wait(bell, timeout_ns);
}

int __wrap_reactor_wait(struct reactor *reactor, uint64_t timeout_ns)
{
    if (timeout_ns)
        about_to_block();
    return __real_reactor_wait(reactor, timeout_ns);
}

static struct probe probe;
static struct orr_runtime *rt;

static void wake_now(void)
{
    struct orr_waker waker = probe_waker(&probe);
    harness_on_thread(harness_wake, &waker);
}

static void wake_twice_by_signal_path(void)
{
    orr_waker_wake_signal(probe_waker(&probe)); /* on the worker's own thread, as a handler would */
    orr_waker_wake_signal(probe_waker(&probe));
}

static void stop_now(void)
{
    orr_runtime_stop(rt);
}

static void spawn_elsewhere(void *data)
{
    static struct probe other = { .done_after = 1 };
    (void)data;
    probe_spawn(rt, &other, 1);
    orr_waker_wake(probe_waker(&probe));
}

static void spawn_now(void)
{
    harness_on_thread(spawn_elsewhere, NULL);
}

static void run_with(void (*action)(void), int expected)
{
    rt = harness_runtime(1);
    probe = (struct probe){ .done_after = 2 };
    probe_spawn(rt, &probe, ORR_HERE);
    blocked = 0;
    before_blocking = action;
    assert_int_equal(orr_runtime_run(rt), expected); /* hangs if the wake is lost */
    assert_int_equal(blocked, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(probe.drops, 1);
}

static void wake_between_the_check_and_the_sleep_is_seen(void **state)
{
    (void)state;
    run_with(wake_now, 0);
    run_with(wake_twice_by_signal_path, 0);
    run_with(spawn_now, 0);
    run_with(stop_now, -ECANCELED);
}

struct reader {
    struct orr_io io;
    int fd;
};

static enum orr_poll keep_io_in_flight(struct orr_task *task, void *data)
{
    struct reader *reader = data;
    if (!reader->io.task)
        assert_int_equal(orr_io_wait(task, &reader->io, reader->fd, POLLIN), 0);
    return ORR_PENDING;
}

static void *stop_when_done(void *data)
{
    harness_await(&probe.drops, 1);
    orr_runtime_stop(rt);
    return data;
}

static void wake_between_the_check_and_the_wait_for_io_is_seen(void **state)
{
    (void)state;
    void (*const actions[])(void) = { wake_now, wake_twice_by_signal_path, spawn_now };
    for (size_t i = 0; i < LENGTH(actions); i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        struct reader reader = { .fd = ends[0] };
        rt = harness_runtime(1);
        probe = (struct probe){ .done_after = 2 };
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = keep_io_in_flight, .data = &reader }), 0);
        probe_spawn(rt, &probe, ORR_HERE);
        before_blocking = actions[i];
        blocked = 0;
        /* The reader never ends, so the run is stopped when the probe has ended. */
        pthread_t stopper;
        pthread_create(&stopper, NULL, stop_when_done, NULL);
        assert_int_equal(orr_runtime_run(rt), -ECANCELED);
        pthread_join(stopper, NULL);
        assert_true(blocked >= 1);
        assert_int_equal(orr_runtime_free(rt), 0);
        close(ends[0]);
        close(ends[1]);
    }
}

static void wake_from_elsewhere_in_poll(struct probe *self, struct orr_task *task)
{
    struct orr_waker waker = orr_task_waker(task);
    if (self->polls == 0)
        /* After the inbox was emptied, before the worker sleeps. */
        harness_on_thread(harness_wake, &waker);
}

static void wake_between_the_inbox_and_the_check_is_seen(void **state)
{
    (void)state;
    rt = harness_runtime(1);
    probe = (struct probe){ .done_after = 2, .each = wake_from_elsewhere_in_poll };
    blocked = 0;
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(blocked, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest sleep_tests[] = {
    cmocka_unit_test(wake_between_the_check_and_the_sleep_is_seen),
    cmocka_unit_test(wake_between_the_check_and_the_wait_for_io_is_seen),
    cmocka_unit_test(wake_between_the_inbox_and_the_check_is_seen),
};

HARNESS_MAIN(sleep_tests)
