/*
 * Workers.  A call there and back with a small value, beside two bare threads with an eventfd each:
 * on two cores as the scheduler places them, and on one; in time, and in processor time, which
 * depends less on what else runs.  Jobs a second, by the number of jobs under way.  The first call
 * of a new worker, with an isolate that another worker has left, and with a new one.  A map that
 * only computes, on one thread and on two, beside the same work done in place.  The time from the
 * cancellation of an endless loop until its thread is free.
 */
#include "isolate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 2000, TRIPS = 5000 };

/* --- The peer --------------------------------------------------------------------------------- */

static int fds[2];

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *echo(void *data)
{
    (void)data;
    uint64_t one;
    for (int i = 0; i < TRIPS; i++)
        if (read(fds[0], &one, sizeof one) < 0 || write(fds[1], &one, sizeof one) < 0)
            abort();
    return NULL;
}

/* Microseconds of a round trip, by a clock. */
static double eventfd_trip_by(clockid_t clock)
{
    uint64_t one = 1;
    pthread_t thread;
    fds[0] = eventfd(0, EFD_CLOEXEC);
    fds[1] = eventfd(0, EFD_CLOEXEC);
    if (fds[0] < 0 || fds[1] < 0 || pthread_create(&thread, NULL, echo, NULL))
        abort();
    uint64_t start = read_clock(clock);
    for (int i = 0; i < TRIPS; i++)
        if (write(fds[0], &one, sizeof one) < 0 || read(fds[1], &one, sizeof one) < 0)
            abort();
    double ns = (double)(read_clock(clock) - start);
    pthread_join(thread, NULL);
    close(fds[0]);
    close(fds[1]);
    return ns / TRIPS / 1e3;
}

static double eventfd_trip(void)
{
    return eventfd_trip_by(CLOCK_MONOTONIC);
}

static double eventfd_trip_cpu(void)
{
    return eventfd_trip_by(CLOCK_PROCESS_CPUTIME_ID);
}

/* --- Ours ------------------------------------------------------------------------------------- */

static unsigned threads;

/* Runs a script to its end in a runtime of its own; returns the global `figure`. */
static double run_script(const char *code)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .pool_threads = threads });
    if (!rt)
        abort();
    lua_State *L = isolate_open(rt, 2 * BENCH_MS, ORR_NEVER);
    isolate_start(L, code);
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    double figure = isolate_number(L, "figure");
    isolate_close(L);
    orr_runtime_free(rt);
    return figure;
}

static double call_trip(void)
{
    return run_script("local w = orrery.worker.new 'return ...'\n"
                      "for i = 1, 200 do w:call(i) end\n"
                      "local start = orrery.loop.hrtime()\n"
                      "for i = 1, 2000 do w:call(i) end\n"
                      "figure = (orrery.loop.hrtime() - start) / 2000 / 1e3\n");
}

static double call_trip_cpu(void)
{
    return run_script("local w = orrery.worker.new 'return ...'\n"
                      "for i = 1, 200 do w:call(i) end\n"
                      "local start = os.clock()\n"
                      "for i = 1, 2000 do w:call(i) end\n"
                      "figure = (os.clock() - start) / 2000 * 1e6\n");
}

static unsigned at_once;

static double jobs_a_second(void)
{
    char code[512];
    snprintf(code, sizeof code,
             "local w, list = orrery.worker.new 'return ...', {}\n"
             "for i = 1, 4000 do list[i] = i end\n"
             "orrery.worker.map(w, list, { concurrency = %u })\n"
             "local start = orrery.loop.hrtime()\n"
             "orrery.worker.map(w, list, { concurrency = %u })\n"
             "figure = 4000 / (orrery.loop.hrtime() - start) * 1e9\n",
             at_once, at_once);
    return run_script(code);
}

#define WORK "local n = 0; for i = 1, 3000000 do n = n + i %% 7 end; return n"

/* Milliseconds of sixteen equal pieces of work. */
static double map_work(void)
{
    char code[512];
    snprintf(code, sizeof code,
             "local w, list = orrery.worker.new '" WORK "', {}\n"
             "for i = 1, 16 do list[i] = i end\n"
             "orrery.worker.map(w, { 1, 2 })\n"
             "local start = orrery.loop.hrtime()\n"
             "orrery.worker.map(w, list)\n"
             "figure = (orrery.loop.hrtime() - start) / 1e6\n");
    return run_script(code);
}

static double work_in_place(void)
{
    char code[512];
    snprintf(code, sizeof code,
             "local work = load '" WORK "'\n"
             "local start = orrery.loop.hrtime()\n"
             "for i = 1, 16 do work() end\n"
             "figure = (orrery.loop.hrtime() - start) / 1e6\n");
    return run_script(code);
}

/* Milliseconds until the thread is free, the median of twenty. */
static double cancel_loop(void)
{
    return run_script("local spin, worker, times = orrery.worker.new 'while true do end', orrery.worker, {}\n"
                      "for i = 1, 20 do\n"
                      "  spin:run(function() end)\n"
                      "  orrery.async.sleep(5 + i / 7)\n"
                      "  local start = orrery.loop.hrtime()\n"
                      "  spin:cancel()\n"
                      "  while worker.stats().running > 0 do orrery.async.sleep(0.05) end\n"
                      "  times[i] = (orrery.loop.hrtime() - start) / 1e6\n"
                      "end\n"
                      "table.sort(times)\n"
                      "figure = times[10]\n");
}

static double first_call(void)
{
    return run_script("orrery.worker.new('return 1'):call()\n"
                      "local start = orrery.loop.hrtime()\n"
                      "for i = 1, 50 do orrery.worker.new('return 1'):call() end\n"
                      "figure = (orrery.loop.hrtime() - start) / 50 / 1e3\n");
}

/* Each worker has another module, so that none can use the isolate of another. */
static double first_call_of_new_isolate(void)
{
    return run_script("orrery.worker.new('return 1'):call()\n"
                      "local start = orrery.loop.hrtime()\n"
                      "for i = 1, 50 do\n"
                      "  orrery.worker.new('return 1', { modules = { m = 'return ' .. i } }):call()\n"
                      "end\n"
                      "figure = (orrery.loop.hrtime() - start) / 50 / 1e3\n");
}

int main(void)
{
    threads = 1;
    bench_compare("worker_call", "us", call_trip, "eventfd_round_trip", eventfd_trip);
    bench_compare("worker_call_cpu", "us", call_trip_cpu, "eventfd_round_trip_cpu", eventfd_trip_cpu);
    threads = 0;
    bench_compare("worker_call_of_two_threads", "us", call_trip, "eventfd_round_trip", eventfd_trip);
    for (at_once = 1; at_once <= 64; at_once *= 8) {
        char name[64];
        snprintf(name, sizeof name, "worker_jobs_%u_at_once", at_once);
        bench_line(name, bench_alternate(jobs_a_second, NULL).value, "jobs/s", 0, NULL);
    }
    bench_line("worker_first_call", bench_alternate(first_call, NULL).value, "us", 0, NULL);
    bench_line("worker_first_call_of_a_new_isolate", bench_alternate(first_call_of_new_isolate, NULL).value, "us", 0,
               NULL);
    bench_line("worker_cancel_endless_loop", bench_alternate(cancel_loop, NULL).value, "ms", 0, NULL);
    for (threads = 1; threads <= 2; threads++) {
        char name[64];
        snprintf(name, sizeof name, "worker_map_on_%u_cores", threads);
        bench_compare(name, "ms", map_work, "the_same_in_place", work_in_place);
    }
    threads = 1;
    bench_pin(0);
    bench_compare("worker_call_on_one_core", "us", call_trip, "eventfd_round_trip_on_one_core", eventfd_trip);
    return 0;
}
