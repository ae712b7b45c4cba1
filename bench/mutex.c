/*
 * A mutex that nobody else wants, locked and unlocked: beside a mutex of libc, and beside two calls
 * into the library that do nothing.  What is left is the mutex's own work.  The program is built
 * twice, since a call into a shared library costs more than one into a static one.
 */
#include "bench.h"

#include <pthread.h>

enum { ROUNDS = 50000, REPEATS = 40 };

/* A loop that a task runs, and the thread's time for it: the shortest, which nobody disturbed. */
struct loop {
    void (*run)(struct orr_task *task, struct orr_mutex *mutex);
    struct orr_mutex *mutex;
    uint64_t ns;
};

static enum orr_poll poll_loop(struct orr_task *task, void *data)
{
    struct loop *self = data;
    self->ns = UINT64_MAX;
    for (unsigned i = 0; i < REPEATS; i++) {
        uint64_t start = bench_cpu_now();
        self->run(task, self->mutex);
        uint64_t ns = bench_cpu_now() - start;
        self->ns = ns < self->ns ? ns : self->ns;
    }
    return ORR_DONE;
}

static double measure(void (*run)(struct orr_task *task, struct orr_mutex *mutex))
{
    struct loop loop = { .run = run };
    struct orr_runtime *rt = bench_open();
    bench_must(orr_mutex_new(&loop.mutex), "orr_mutex_new");
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = poll_loop, .data = &loop }), "orr_spawn");
    bench_run(rt);
    bench_must(orr_mutex_free(loop.mutex), "orr_mutex_free");
    bench_close(rt);
    return (double)loop.ns / ROUNDS;
}

static void lock_ours(struct orr_task *task, struct orr_mutex *mutex)
{
    struct orr_wait wait = { 0 };
    int errors = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        errors |= orr_mutex_lock(task, &wait, mutex);
        errors |= orr_mutex_unlock(task, mutex);
    }
    bench_must(errors, "orr_mutex_lock");
}

static void lock_libcs(struct orr_task *task, struct orr_mutex *mutex)
{
    (void)task, (void)mutex;
    pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
    int errors = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        errors |= pthread_mutex_lock(&other);
        errors |= pthread_mutex_unlock(&other);
    }
    bench_must(-errors, "pthread_mutex_lock");
}

static void call_only(struct orr_task *task, struct orr_mutex *mutex)
{
    (void)task, (void)mutex;
    int sum = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        sum |= orr_mutex_locked(NULL);
        sum |= orr_mutex_locked(NULL);
    }
    bench_must(-sum, "orr_mutex_locked");
}

static double ours(void)
{
    return measure(lock_ours);
}

static double libcs(void)
{
    return measure(lock_libcs);
}

static double calls(void)
{
    return measure(call_only);
}

int main(void)
{
    bench_compare("mutex_uncontended" LINKED, "ns", ours, "pthread_mutex" LINKED, libcs);
    bench_compare("two_empty_calls" LINKED, "ns", calls, NULL, NULL);
    return 0;
}
