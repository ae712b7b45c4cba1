/* Signal handlers that wake tasks while they interrupt the worker anywhere, and that stop it. */
#include "harness.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct orr_runtime *handled_runtime;
static volatile uint64_t handled_waker;
static _Atomic unsigned signals;

static void wake_handler(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
    errno = 4242;
    orr_waker_wake_signal((struct orr_waker){ handled_waker });
    if (errno != 4242)
        abort();
}

static void stop_handler(int number)
{
    (void)number;
    orr_runtime_stop(handled_runtime);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

/*
 * ThreadSanitizer delays signals until a system call that it knows.  A sleeping worker makes none.
 */
#ifdef __SANITIZE_THREAD__
#define NEEDS_PROMPT_SIGNALS() skip()
#else
#define NEEDS_PROMPT_SIGNALS() ((void)0)
#endif

/* Signals this thread at a fixed interval. */
static timer_t start_timer(int number, long every_ns)
{
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number };
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec when = { .it_value.tv_nsec = every_ns, .it_interval.tv_nsec = every_ns };
    assert_int_equal(timer_settime(timer, 0, &when, NULL), 0);
    return timer;
}

static void stop_timer(timer_t timer)
{
    timer_delete(timer);
    signal(SIGUSR1, SIG_IGN);
}

static void raise_usr1(struct probe *probe, struct orr_task *task)
{
    handled_waker = orr_task_waker(task).bits;
    if (probe->polls == 0)
        raise(SIGUSR1);
}

static void handler_on_the_workers_own_thread_wakes_its_task(void **state)
{
    (void)state;
    handle(SIGUSR1, wake_handler);
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 2, .each = raise_usr1 };
    probe_spawn(rt, &probe, ORR_HERE);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(probe.polls, 2);
    struct orr_stats stats = harness_stats(rt, 0);
    /* Through the inbox, although it is the same thread. */
    assert_int_equal(stats.wakes_foreign, 1);
    assert_int_equal(stats.wakes_local, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    signal(SIGUSR1, SIG_IGN);
}

static void handler_ends_the_sleep_it_interrupts(void **state)
{
    (void)state;
    NEEDS_PROMPT_SIGNALS();
    handle(SIGUSR1, wake_handler);
    struct orr_runtime *rt = harness_runtime(1);
    struct probe probe = { .done_after = 50 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt);
    handled_waker = probe_waker(&probe).bits;
    timer_t timer = start_timer(SIGUSR1, 1000000);
    assert_int_equal(orr_runtime_run(rt), 0);
    stop_timer(timer);
    assert_int_equal(probe.polls, 50);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* Two tasks wake each other for ever while a handler wakes a third task at any moment. */
struct bystander {
    _Atomic uint64_t waker;
    _Atomic uint64_t partner;
    unsigned polls;
};

static enum orr_poll keep_busy(struct orr_task *task, void *data)
{
    struct bystander *self = data;
    self->polls++;
    orr_waker_wake((struct orr_waker){ atomic_load(&self->partner) });
    struct orr_waker child;
    struct orr_spawn what = { .poll = probe_poll, .data = &(struct probe){ 0 }, .waker = &child };
    if (!orr_spawn(orr_task_runtime(task), &what))
        orr_task_drop(child);
    return orr_task_yield(task);
}

static enum orr_poll count_and_stop(struct orr_task *task, void *data)
{
    unsigned *polls = data;
    handled_waker = orr_task_waker(task).bits;
    if (++*polls == WORK(2000) + 100)
        orr_runtime_stop(orr_task_runtime(task));
    return ORR_PENDING;
}

static void handler_that_interrupts_the_worker_everywhere_breaks_nothing(void **state)
{
    (void)state;
    NEEDS_PROMPT_SIGNALS();
    handle(SIGUSR1, wake_handler);
    struct orr_runtime *rt = harness_runtime(1);
    struct bystander pair[2] = { 0 };
    unsigned polls = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = keep_busy, .data = &pair[i] }), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = count_and_stop, .data = &polls }), 0);
    signals = 0;
    timer_t timer = start_timer(SIGUSR1, 50000);
    assert_int_equal(orr_runtime_run(rt), -ECANCELED);
    stop_timer(timer);
    assert_true(signals >= polls - 1); /* each poll after the first came from a signal */
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void interrupt_handler(int number)
{
    (void)number;
    orr_runtime_interrupt(handled_runtime);
}

/* The run sleeps and has no end: only the handler can make it return. */
static void run_interrupted_by_a_signal_handler_can_be_continued(void **state)
{
    (void)state;
    NEEDS_PROMPT_SIGNALS();
    handle(SIGUSR2, interrupt_handler);
    struct orr_runtime *rt = handled_runtime = harness_runtime(1);
    struct probe probe = { .done_after = 2 };
    probe_spawn(rt, &probe, ORR_HERE);
    harness_settle(rt); /* a run that is interrupted at once polls nothing */
    timer_t timer = start_timer(SIGUSR2, 2000000);
    assert_int_equal(orr_runtime_run(rt), -EINTR);
    assert_int_equal(orr_runtime_run(rt), -EINTR);
    timer_delete(timer);
    signal(SIGUSR2, SIG_IGN);
    assert_int_equal(probe.polls, 1);
    orr_waker_wake(probe_waker(&probe));
    int error = orr_runtime_run(rt);
    assert_int_equal(error == -EINTR ? orr_runtime_run(rt) : error,
                     0); /* one more may have come before the timer was stopped */
    assert_int_equal(probe.polls, 2);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(orr_runtime_interrupt(NULL), -EINVAL);
}

static void stop_works_in_a_handler(void **state)
{
    (void)state;
    NEEDS_PROMPT_SIGNALS();
    handle(SIGUSR2, stop_handler);
    struct orr_runtime *rt = handled_runtime = harness_runtime(2);
    struct probe probe = { 0 };
    probe_spawn(rt, &probe, ORR_HERE);
    timer_t timer = start_timer(SIGUSR2, 2000000);
    assert_int_equal(orr_runtime_run(rt), -ECANCELED);
    timer_delete(timer);
    signal(SIGUSR2, SIG_IGN);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(probe.drops, 1);
}

static const struct CMUnitTest signal_tests[] = {
    cmocka_unit_test(handler_on_the_workers_own_thread_wakes_its_task),
    cmocka_unit_test(handler_ends_the_sleep_it_interrupts),
    cmocka_unit_test(handler_that_interrupts_the_worker_everywhere_breaks_nothing),
    cmocka_unit_test(run_interrupted_by_a_signal_handler_can_be_continued),
    cmocka_unit_test(stop_works_in_a_handler),
};

HARNESS_MAIN(signal_tests)
