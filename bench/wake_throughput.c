/*
 * How many wakes a second one worker takes from 1, 2 and 4 threads, each waking its own task, or
 * all the same task.  No producer waits, so most wakes find their task in the inbox already.
 */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

enum { PRODUCERS_MAX = 4, WAKES = 1000000 };

static _Atomic uint64_t wakers[PRODUCERS_MAX];
static _Atomic bool over;
static unsigned producers;
static bool same;
static struct orr_stats stats;

static enum orr_poll be_woken(struct orr_task *task, void *data)
{
    *(_Atomic uint64_t *)data = orr_task_waker(task).bits;
    return over ? ORR_DONE : ORR_PENDING;
}

static void *produce(void *data)
{
    struct orr_waker waker = { *(_Atomic uint64_t *)data };
    for (unsigned i = 0; i < WAKES; i++)
        orr_waker_wake(waker);
    return NULL;
}

static double millions_a_second(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2 });
    over = false;
    for (unsigned i = 0; i < PRODUCERS_MAX; i++) {
        wakers[i] = 0;
        bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = be_woken, .data = &wakers[i], .worker = 2 }),
                   "orr_spawn");
    }
    for (unsigned i = 0; i < PRODUCERS_MAX; i++)
        while (!wakers[i])
            sched_yield();
    pthread_t threads[PRODUCERS_MAX];
    uint64_t start = bench_now();
    for (unsigned i = 0; i < producers; i++)
        pthread_create(&threads[i], NULL, produce, &wakers[same ? 0 : i]);
    for (unsigned i = 0; i < producers; i++)
        pthread_join(threads[i], NULL);
    double millions = (double)producers * WAKES / (double)(bench_now() - start) * 1000;
    over = true;
    for (unsigned i = 0; i < PRODUCERS_MAX; i++)
        orr_waker_wake((struct orr_waker){ wakers[i] });
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    bench_must(orr_runtime_stats(rt, 0, &stats), "orr_runtime_stats");
    orr_runtime_free(rt);
    return millions;
}

int main(void)
{
    for (int shared = 0; shared < 2; shared++) {
        same = shared;
        for (producers = 1; producers <= PRODUCERS_MAX; producers *= 2) {
            char name[64];
            snprintf(name, sizeof name, "wakes_from_%u_threads_%s", producers, same ? "same_task" : "distinct_tasks");
            bench_compare(name, "M/s", millions_a_second, NULL, NULL);
        }
    }
    return 0;
}
