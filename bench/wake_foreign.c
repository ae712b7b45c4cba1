/*
 * What a wake costs the waking thread while the worker is awake.  The peer is the obvious solution:
 * a mutex, a vector of task numbers, and a write to an eventfd, all inside the lock.  Both have a
 * consumer that never sleeps.
 */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TASKS = 20000, WAKES = 2000000 };

/* --- ours ------------------------------------------------------------------------------------- */

static _Atomic uint64_t wakers[TASKS];
static struct orr_waker targets[TASKS];
static _Atomic bool over;

static enum orr_poll be_woken(struct orr_task *task, void *data)
{
    *(_Atomic uint64_t *)data = orr_task_waker(task).bits;
    return over ? ORR_DONE : ORR_PENDING;
}

static enum orr_poll keep_awake(struct orr_task *task, void *data)
{
    (void)data;
    return over ? ORR_DONE : orr_task_yield(task);
}

static struct orr_runtime *open_tasks(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2 });
    over = false;
    for (unsigned i = 0; i < TASKS; i++) {
        wakers[i] = 0;
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = be_woken, .data = &wakers[i], .worker = 2 }),
                   "orr_spawn");
    }
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = keep_awake, .worker = 2 }), "orr_spawn");
    for (unsigned i = 0; i < TASKS; i++) {
        while (!wakers[i])
            sched_yield();
        targets[i].bits = wakers[i];
    }
    return rt;
}

static void close_tasks(struct orr_runtime *rt)
{
    over = true;
    for (unsigned i = 0; i < TASKS; i++)
        orr_waker_wake(targets[i]);
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    orr_runtime_free(rt);
}

/* Wakes the first `distinct` tasks over and over: often the task is in the inbox already. */
static double wake_over_and_over(unsigned distinct)
{
    struct orr_runtime *rt = open_tasks();
    uint64_t start = bench_now();
    for (unsigned i = 0; i < WAKES; i++)
        orr_waker_wake(targets[i % distinct]);
    double ns = (double)(bench_now() - start) / WAKES;
    close_tasks(rt);
    return ns;
}

/*
 * Wakes every task once and waits until all have been polled: each wake is an entry in the inbox.
 */
static double ours_all_pushed(void)
{
    struct orr_runtime *rt = open_tasks();
    struct orr_stats stats;
    uint64_t spent = 0;
    bench_must(orr_runtime_stats(rt, 2, &stats), "orr_runtime_stats");
    uint64_t before = stats.wakes_foreign;
    for (unsigned round = 1; round <= WAKES / TASKS; round++) {
        uint64_t start = bench_now();
        for (unsigned i = 0; i < TASKS; i++)
            orr_waker_wake(targets[i]);
        spent += bench_now() - start;
        do {
            sched_yield();
            bench_must(orr_runtime_stats(rt, 2, &stats), "orr_runtime_stats");
        } while (stats.wakes_foreign - before < (uint64_t)round * TASKS);
        usleep(3000); /* the inbox is empty; lets the tasks be polled */
    }
    bench_must(stats.wakes_coalesced ? -1 : 0, "a wake was coalesced");
    close_tasks(rt);
    return (double)spent / (WAKES / TASKS) / TASKS;
}

static double ours_64(void)
{
    return wake_over_and_over(64);
}

static double ours_same(void)
{
    return wake_over_and_over(1);
}

/* --- the peer --------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *queue;
static size_t queued, room;
static int bell;

static void locked_wake(uint32_t task)
{
    uint64_t one = 1;
    pthread_mutex_lock(&lock);
    if (queued == room) {
        room = room ? room * 2 : 64;
        queue = realloc(queue, room * sizeof *queue);
    }
    queue[queued++] = task;
    if (write(bell, &one, sizeof one) < 0)
        abort();
    pthread_mutex_unlock(&lock);
}

static void *locked_consumer(void *data)
{
    uint64_t count, polls[64] = { 0 };
    (void)data;
    while (!over) {
        pthread_mutex_lock(&lock);
        uint32_t *taken = queue;
        size_t length = queued;
        queue = NULL;
        queued = room = 0;
        pthread_mutex_unlock(&lock);
        if (length && read(bell, &count, sizeof count) < 0)
            continue;
        for (size_t i = 0; i < length; i++)
            polls[taken[i]]++;
        free(taken);
    }
    return NULL;
}

static double locked(void)
{
    pthread_t thread;
    over = false;
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_create(&thread, NULL, locked_consumer, NULL);
    uint64_t start = bench_now();
    for (unsigned i = 0; i < WAKES; i++)
        locked_wake(i % 64);
    double ns = (double)(bench_now() - start) / WAKES;
    over = true;
    pthread_join(thread, NULL);
    free(queue);
    queue = NULL;
    queued = room = 0;
    close(bell);
    return ns;
}

int main(void)
{
    bench_compare("wake_foreign_awake_all_pushed", "ns", ours_all_pushed, "mutex_vector_eventfd", locked);
    bench_compare("wake_foreign_awake_64_tasks", "ns", ours_64, "mutex_vector_eventfd", locked);
    bench_compare("wake_foreign_awake_1_task", "ns", ours_same, "mutex_vector_eventfd", locked);
    return 0;
}
