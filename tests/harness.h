/*
 * What the tests share.  Every test program takes the reactor to test as its argument, "uring" or "epoll".
 */
#ifndef ORR_TESTS_HARNESS_H
#define ORR_TESTS_HARNESS_H

#include "orrery.h"

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

/* Slow tools get less to do. */
#if defined(__SANITIZE_THREAD__)
#define WORK(n) ((n) / 50)
#elif defined(__SANITIZE_ADDRESS__)
#define WORK(n) ((n) / 10)
#else
#define WORK(n) (n)
#endif

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* The one from the command line. */
extern enum orr_reactor harness_reactor;

/* Use as main(): runs the tests on the reactor named by the argument. */
int harness_main(int argc, char **argv, const char *name, const struct CMUnitTest *tests, size_t count);
#define HARNESS_MAIN(tests) \
    int main(int argc, char **argv) \
    { \
        return harness_main(argc, argv, #tests, tests, LENGTH(tests)); \
    }

/* A runtime with so many workers on the reactor under test, whose log goes to harness_log(). */
struct orr_runtime *harness_runtime(unsigned workers);
struct orr_runtime *harness_runtime_with(struct orr_options options);

/* The last line logged, "" if there was none since the last call of harness_runtime(). */
const char *harness_log(void);
unsigned harness_log_lines(void);

/*
 * A task that does what it is told: it counts its polls and its drops, publishes its waker, and is done after
 * so many polls.
 */
struct probe {
    _Atomic unsigned polls, drops;
    unsigned done_after;                                      /* 0: never */
    void (*each)(struct probe *probe, struct orr_task *task); /* called in each poll; may be NULL */
    void *data;
    _Atomic uint64_t waker; /* its bits, 0 until the first poll */
};

void probe_spawn(struct orr_runtime *rt, struct probe *probe, unsigned worker);
enum orr_poll probe_poll(struct orr_task *task, void *data);
void probe_drop(void *data);
struct orr_waker probe_waker(struct probe *probe);

/* Turns until the host may sleep. */
void harness_settle(struct orr_runtime *rt);

/* Waits, yielding, until `*value` is at least `expected`. */
void harness_await(_Atomic unsigned *value, unsigned expected);

/* Runs `fn(data)` on another thread, and returns when it has. */
void harness_elsewhere(void (*fn)(void *data), void *data);

/* Wakes the task of `data`, a struct orr_waker. */
void harness_wake(void *data);

/* Whether poll(2) finds the descriptor readable now. */
bool harness_readable(int fd);

unsigned harness_open_fds(void);

struct orr_stats harness_stats(struct orr_runtime *rt, unsigned worker);

#endif
