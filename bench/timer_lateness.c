/*
 * How late a sleep ends, for sleeps of 1, 10 and 100 ms: ours, libuv's, and that of
 * clock_nanosleep(), which is the kernel alone.  Then what a far timer costs an idle process, what
 * the time service costs while 10,000 timers repeat every 10 ms, and how many timers other threads
 * cancel in a second.
 */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_UV
#include <uv.h>
#endif

#define MS 1000000ull

enum { SAMPLES_MAX = 400 };

static uint64_t samples[SAMPLES_MAX];
static unsigned taken, wanted;
static uint64_t delay, deadline;

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct late {
    double p50, p99;
};

static struct late lateness(void)
{
    qsort(samples, taken, sizeof *samples, by_value);
    return (struct late){ (double)samples[taken / 2] / 1000, (double)samples[taken * 99 / 100] / 1000 };
}

static void take_sample(void)
{
    samples[taken++] = bench_now() - deadline;
    deadline = bench_now() + delay;
}

static void fire(struct orr_timer *timer, void *data, int status)
{
    (void)data;
    if (status)
        return;
    take_sample();
    if (taken < wanted)
        orr_timer_start_at(timer, deadline, 0);
}

static struct late ours(void)
{
    struct orr_runtime *rt = orr_runtime_new(NULL);
    struct orr_timer *timer;
    bench_must(orr_timer_new(rt, &(struct orr_timer_options){ .fire = fire }, &timer), "orr_timer_new");
    taken = 0;
    deadline = bench_now() + delay;
    orr_timer_start_at(timer, deadline, 0);
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    orr_timer_free(timer);
    orr_runtime_free(rt);
    return lateness();
}

static struct late bare(void)
{
    taken = 0;
    deadline = bench_now() + delay;
    while (taken < wanted) {
        struct timespec until = { (time_t)(deadline / 1000000000), (long)(deadline % 1000000000) };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        take_sample();
    }
    return lateness();
}

#ifdef HAVE_UV
static void uv_fire(uv_timer_t *timer)
{
    take_sample();
    if (taken < wanted) {
        uv_update_time(timer->loop);
        deadline = bench_now() + delay;
        uv_timer_start(timer, uv_fire, delay / MS, 0);
    }
}

static struct late by_uv(void)
{
    uv_loop_t loop;
    uv_timer_t timer;
    uv_loop_init(&loop);
    uv_timer_init(&loop, &timer);
    taken = 0;
    uv_update_time(&loop);
    deadline = bench_now() + delay;
    uv_timer_start(&timer, uv_fire, delay / MS, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return lateness();
}
#endif

static void compare_lateness(unsigned ms)
{
    char name[64], peer[64];
    delay = ms * MS;
    wanted = 4000 / ms < SAMPLES_MAX ? 4000 / ms : SAMPLES_MAX;
    wanted = wanted < 20 ? 20 : wanted;
    struct late own = ours(), kernel = bare();
    snprintf(name, sizeof name, "late_p50_of_%u_ms", ms);
    snprintf(peer, sizeof peer, "clock_nanosleep(%.1f)", kernel.p50);
    bench_line(name, own.p50, "us", own.p50 / kernel.p50, peer);
    snprintf(name, sizeof name, "late_p99_of_%u_ms", ms);
    snprintf(peer, sizeof peer, "clock_nanosleep(%.1f)", kernel.p99);
    bench_line(name, own.p99, "us", own.p99 / kernel.p99, peer);
#ifdef HAVE_UV
    struct late uv = by_uv();
    snprintf(peer, sizeof peer, "libuv(p50 %.1f, p99 %.1f)", uv.p50, uv.p99);
    snprintf(name, sizeof name, "late_p50_of_%u_ms", ms);
    bench_line(name, own.p50, "us", own.p50 / uv.p50, peer);
#endif
}

static void idle_with_a_far_timer(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2 });
    struct orr_timer *timer;
    bench_must(orr_timer_new(rt, &(struct orr_timer_options){ .fire = fire }, &timer), "orr_timer_new");
    orr_timer_start(timer, 3600000 * MS, 0);
    orr_runtime_turn(rt, ORR_NEVER);
    usleep(50000);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    sleep(2);
    getrusage(RUSAGE_SELF, &after);
    /* The sleep of this thread is one switch. */
    bench_line("idle_wake_ups_a_second", (double)(after.ru_nvcsw - before.ru_nvcsw - 1) / 2, "1/s", 0, NULL);
    orr_timer_free(timer);
    orr_runtime_free(rt);
}

static void count_only(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    (void)data;
    taken += status == 0;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void ten_thousand_repeating(void)
{
    enum { TIMERS = 10000 };
    static struct orr_timer *timers[TIMERS];
    struct orr_runtime *rt = orr_runtime_new(NULL);
    for (int i = 0; i < TIMERS; i++) {
        bench_must(orr_timer_new(rt, &(struct orr_timer_options){ .fire = count_only }, &timers[i]), "orr_timer_new");
        orr_timer_start(timers[i], 10 * MS * (uint64_t)i / TIMERS, 10 * MS);
    }
    taken = 0;
    uint64_t end = bench_now() + 2000 * MS, start = bench_now();
    double cpu = cpu_seconds();
    while (bench_now() < end) {
        orr_runtime_turn(rt, ORR_NEVER);
        uint64_t next = orr_runtime_next_deadline(rt), now = bench_now();
        if (next > now && next != ORR_NEVER) {
            struct timespec pause = { 0, (long)(next - now) };
            nanosleep(&pause, NULL);
        }
    }
    double seconds = (double)(bench_now() - start) / 1e9;
    struct orr_stats stats;
    orr_runtime_stats(rt, 0, &stats);
    bench_line("10000_repeating_fired", taken / seconds / 1000, "k/s", 0, NULL);
    bench_line("10000_repeating_cpu", (cpu_seconds() - cpu) / seconds * 100, "%", 0, NULL);
    bench_line("10000_repeating_late_p50", (double)stats.lateness_p50_ns / 1000, "us", 0, NULL);
    bench_line("10000_repeating_late_p99", (double)stats.lateness_p99_ns / 1000, "us", 0, NULL);
    bench_line("10000_repeating_service_wake_ups", (double)stats.service_wake_ups / seconds, "1/s", 0, NULL);
    for (int i = 0; i < TIMERS; i++)
        orr_timer_free(timers[i]);
    orr_runtime_free(rt);
}

enum { CANCELS = 500000 };
static struct orr_timer *victims[2 * CANCELS];

static enum orr_poll start_victims(struct orr_task *task, void *data)
{
    (void)task;
    for (int i = 0; i < *(int *)data; i++)
        orr_timer_start(victims[i], 30000 * MS, 0);
    return ORR_DONE;
}

static void *cancel_victims(void *data)
{
    struct orr_timer **first = data;
    for (int i = 0; i < CANCELS; i++)
        orr_timer_cancel(first[i]);
    return NULL;
}

static double foreign_cancels(int threads)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .workers = 2 });
    int total = threads * CANCELS;
    for (int i = 0; i < total; i++)
        bench_must(orr_timer_new(rt, &(struct orr_timer_options){ .fire = count_only }, &victims[i]), "orr_timer_new");
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = start_victims, .data = &total, .worker = 2 }), "orr_spawn");
    struct orr_stats stats;
    do {
        sched_yield();
        orr_runtime_stats(rt, 2, &stats);
    } while (stats.timers_pending < (uint64_t)total);
    pthread_t ids[2];
    uint64_t start = bench_now();
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, cancel_victims, &victims[i * CANCELS]);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double millions = total / (double)(bench_now() - start) * 1000;
    for (int i = 0; i < total; i++)
        orr_timer_free(victims[i]);
    orr_runtime_free(rt);
    return millions;
}

static double cancels_by_one(void)
{
    return foreign_cancels(1);
}

static double cancels_by_two(void)
{
    return foreign_cancels(2);
}

int main(void)
{
    compare_lateness(1);
    compare_lateness(10);
    compare_lateness(100);
#ifndef HAVE_UV
    printf("libuv: not installed\n");
#endif
    idle_with_a_far_timer();
    ten_thousand_repeating();
    bench_compare("foreign_cancels_from_1_thread", "M/s", cancels_by_one, NULL, NULL);
    bench_compare("foreign_cancels_from_2_threads", "M/s", cancels_by_two, NULL, NULL);
    return 0;
}
