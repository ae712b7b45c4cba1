/*
 * The fixtures that all C tests share: the main program, a runtime on the reactor under test, its
 * log, an allocator that counts, a task that counts its polls.  tests/README.md lists all fixtures.
 */
#ifndef ORR_TESTS_HARNESS_H
#define ORR_TESTS_HARNESS_H

#include "orrery.h"

/* cmocka.h needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Sanitizers slow a test down, so it does less there. */
#if defined(__SANITIZE_THREAD__)
#define WORK(n) ((n) / 50)
#elif defined(__SANITIZE_ADDRESS__)
#define WORK(n) ((n) / 10)
#else
#define WORK(n) (n)
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* Makes an isolate with the library's own defaults: see harness.c. */
struct lua_State;
int __real_orr_lua_new(struct orr_runtime *rt, const struct orr_lua_options *options, struct lua_State **L);

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* Nanoseconds. */
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)

/* The reactor under test, from the command line. */
extern enum orr_reactor harness_reactor;

/*
 * What happens when the library asks for a ring of io_uring.  All test programs are linked with
 * --wrap for io_uring_queue_init_params().  By default the ring is opened, and waited for while the
 * user has too little locked memory.  Threads may open rings at the same time.
 */
struct ring_faults {
    _Atomic int asked;         /* how often the library has asked */
    _Atomic int allowed;       /* rings that it may still have */
    int error;                 /* negative errno, for those after them */
    unsigned missing_features; /* the kernel seems not to have these */
    bool real;                 /* the kernel's answer, at once */
};

extern struct ring_faults harness_rings;

/*
 * The main program of a test: PROGRAM [uring|epoll] [PATTERN].  Runs the tests on the reactor; a
 * pattern, which may have `*`, selects tests by name.  Where the reactor cannot be had, it prints
 * why and returns 77.
 */
int harness_main(int argc, char **argv, const char *name, const struct CMUnitTest *tests, size_t count);
#define HARNESS_MAIN(tests) \
    int main(int argc, char **argv) \
    { \
        return harness_main(argc, argv, #tests, tests, LENGTH(tests)); \
    }

/*
 * A runtime on the reactor under test.  Its log goes to harness_log(), unless the options have a
 * log of their own. harness_runtime() fails the test when there is no runtime;
 * harness_runtime_with() returns NULL.
 */
struct orr_runtime *harness_runtime(unsigned workers);
struct orr_runtime *harness_runtime_with(struct orr_options options);

/* The last line that the last runtime has logged, "" for none; and how many lines it has logged. */
const char *harness_log(void);
unsigned harness_log_lines(void);

/*
 * An allocator for struct orr_options.alloc, any thread: counts the bytes in use.  A test that
 * frees everything finds 0 at its end.
 */
extern _Atomic long long allocated_bytes;
void *counting_alloc(void *data, void *block, size_t old_size, size_t size);

/*
 * ORR_TEST_SEED from the environment, else `otherwise`; printed, so that a failure can be repeated.
 */
uint64_t harness_seed(uint64_t otherwise);

/* The next number of a sequence (xorshift); `*state` is not 0. */
uint64_t random_bits(uint64_t *state);

/* A probe is a task that counts its polls and drops, and publishes its waker. */
struct probe {
    _Atomic unsigned polls, drops;
    unsigned done_after;                                      /* it ends in this poll; 0: never */
    void (*each)(struct probe *probe, struct orr_task *task); /* called in each poll; may be NULL */
    void *data;
    _Atomic uint64_t waker; /* the bits of its waker, 0 until the first poll */
};

void probe_spawn(struct orr_runtime *rt, struct probe *probe, unsigned worker);
enum orr_poll probe_poll(struct orr_task *task, void *data);
void probe_drop(void *data);
struct orr_waker probe_waker(struct probe *probe);

/* Turns until the runtime has nothing to do now. */
void harness_settle(struct orr_runtime *rt);

/* Yields the processor until `*value` is at least `expected`. */
void harness_await(_Atomic unsigned *value, unsigned expected);

/* Runs `fn(data)` on another thread and joins that thread. */
void harness_on_thread(void (*fn)(void *data), void *data);

/* The thread has a stack of this size; 0 is the default. */
void harness_on_stack(size_t stack_size, void (*fn)(void *data), void *data);

/* Wakes a task; `data` points to its struct orr_waker. */
void harness_wake(void *data);

/* Whether poll(2) finds the descriptor readable now. */
bool harness_readable(int fd);

/* How many descriptors are open, to compare with an earlier count. */
unsigned harness_open_fds(void);

/* How many threads the program has, without those that were joined and those of the kernel. */
unsigned harness_threads(void);

struct orr_stats harness_stats(struct orr_runtime *rt, unsigned worker);

#endif
