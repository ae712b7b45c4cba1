#include "bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t bench_cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

size_t bench_allocated;

void *bench_alloc(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    bench_allocated += size - old_size;
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, BENCH_RUNS, sizeof *values, by_value);
    return values[BENCH_RUNS / 2];
}

struct bench_result bench_alternate(double (*subject)(void), double (*peer)(void))
{
    double ours[BENCH_RUNS], theirs[BENCH_RUNS] = { 0 };
    for (int i = 0; i < BENCH_RUNS; i++) {
        ours[i] = subject();
        if (peer)
            theirs[i] = peer();
    }
    return (struct bench_result){ .value = median(ours), .peer = median(theirs) };
}

void bench_line(const char *name, double value, const char *unit, double ratio, const char *peer)
{
    if (peer)
        printf("%-36s %10.1f %-8s %7.3f %s\n", name, value, unit, ratio, peer);
    else
        printf("%-36s %10.1f %-8s       - -\n", name, value, unit);
    fflush(stdout);
}

struct bench_result bench_compare(const char *name, const char *unit, double (*subject)(void), const char *peer_name,
                                  double (*peer)(void))
{
    struct bench_result result = bench_alternate(subject, peer);
    bench_line(name, result.value, unit, peer ? result.value / result.peer : 0, peer_name);
    if (peer)
        bench_line(peer_name, result.peer, unit, 0, NULL);
    return result;
}

struct orr_runtime *bench_open(void)
{
    struct orr_runtime *rt = orr_runtime_new(NULL);
    bench_must(orr_runtime_enter(rt), "orr_runtime_enter");
    return rt;
}

void bench_close(struct orr_runtime *rt)
{
    bench_must(orr_runtime_leave(rt), "orr_runtime_leave");
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

double bench_run(struct orr_runtime *rt)
{
    bench_must(orr_runtime_leave(rt), "orr_runtime_leave");
    uint64_t start = bench_now();
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    double ns = (double)(bench_now() - start);
    bench_must(orr_runtime_enter(rt), "orr_runtime_enter");
    return ns;
}

void bench_pin(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) < 0)
        perror("sched_setaffinity");
}

void bench_must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
    exit(1);
}
