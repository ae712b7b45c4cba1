/*
 * How much longer a host's turn of 4 ms takes while Lua loops for ever: in a hundred isolates, in a
 * hundred fair tasks of one isolate, in one isolate.  The peer, in turn, is a loop in C that a bare
 * kernel timer ends after 4 ms.  A turn in which the kernel gave the core to another process is
 * left out, on both sides; the last line of a case is about all turns.
 *
 * bench_turns [SECONDS]   for each of the three cases; 10
 */
#include "isolate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BUDGET (4 * BENCH_MS)

enum { MANY = 100, SAMPLES_MAX = 100000 };

/* --- A bare timer ----------------------------------------------------------------------------- */

static volatile sig_atomic_t rang;
static timer_t bare_timer;

static void ring(int number)
{
    (void)number;
    rang = 1;
}

static void bare_open(void)
{
    int number = SIGRTMIN + 7;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number, ._sigev_un._tid = gettid() };
    sigaction(number, &(struct sigaction){ .sa_handler = ring, .sa_flags = SA_RESTART }, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &bare_timer)) {
        perror("timer_create");
        exit(1);
    }
}

static void bare_turn(void)
{
    rang = 0;
    timer_settime(bare_timer, 0, &(struct itimerspec){ .it_value.tv_nsec = BUDGET }, NULL);
    while (!rang)
        ;
}

/* --- Ours ------------------------------------------------------------------------------------- */

static const char endless[] = "while true do end";
static const char endless_tasks[] = "for i = 1, 100 do\n"
                                    "  orrery.async.run({ fair = true }, function() while true do end end)\n"
                                    "end";

static lua_State *isolates[MANY];

static void open_isolates(struct orr_runtime *rt, unsigned count, const char *code)
{
    for (unsigned i = 0; i < count; i++) {
        isolates[i] = isolate_open(rt, 2 * BENCH_MS, ORR_NEVER);
        isolate_start(isolates[i], code);
    }
}

static double overrun(uint64_t start)
{
    return ((double)(bench_now() - start) - (double)BUDGET) / 1000;
}

struct samples {
    double all[SAMPLES_MAX], quiet[SAMPLES_MAX];
    unsigned taken, undisturbed;
};

static void take(struct samples *samples, double us, bool quiet)
{
    samples->all[samples->taken++] = us;
    if (quiet)
        samples->quiet[samples->undisturbed++] = us;
}

static void print(const char *name, const char *what, double ours, double bare)
{
    char line[64], peer[64];
    snprintf(line, sizeof line, "turn_overrun_%s_%s", name, what);
    snprintf(peer, sizeof peer, "bare_timer_%s", what);
    bench_line(line, ours, "us", ours / bare, peer);
    bench_line(peer, bare, "us", 0, NULL);
}

static void print_part(const char *name, const char *what, struct samples *ours, struct samples *bare, double part)
{
    print(name, what, percentile(ours->quiet, ours->undisturbed, part),
          percentile(bare->quiet, bare->undisturbed, part));
}

static void print_all(const char *name, struct samples *ours, struct samples *bare)
{
    print_part(name, "p50", ours, bare, 0.5);
    print_part(name, "p99", ours, bare, 0.99);
    print_part(name, "p99.9", ours, bare, 0.999);
    print_part(name, "max", ours, bare, 1);
    char line[64];
    snprintf(line, sizeof line, "turn_overrun_%s_p99.9_above", name);
    bench_line(line,
               percentile(ours->quiet, ours->undisturbed, 0.999) - percentile(bare->quiet, bare->undisturbed, 0.999),
               "us", 0, NULL);
    snprintf(line, sizeof line, "turn_overrun_%s_turns", name);
    bench_line(line, ours->undisturbed, "turns", (double)ours->undisturbed / ours->taken, "all");
    print(name, "p99.9_of_all", percentile(ours->all, ours->taken, 0.999), percentile(bare->all, bare->taken, 0.999));
}

static void one_turn(struct orr_runtime *rt, struct samples *samples)
{
    long before = disturbances();
    uint64_t start = bench_now();
    if (rt)
        bench_must(orr_runtime_turn(rt, BUDGET), "orr_runtime_turn");
    else
        bare_turn();
    double us = overrun(start);
    take(samples, us, disturbances() == before);
}

static void measure(const char *name, unsigned count, const char *code, double seconds)
{
    static struct samples ours, bare;
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    open_isolates(rt, count, code);
    for (int i = 0; i < MANY; i++) /* until all have begun */
        bench_must(orr_runtime_turn(rt, BUDGET), "orr_runtime_turn");
    ours.taken = ours.undisturbed = bare.taken = bare.undisturbed = 0;
    uint64_t end = bench_now() + (uint64_t)(seconds * 1e9);
    while (ours.taken < SAMPLES_MAX && bench_now() < end) {
        one_turn(rt, &ours);
        one_turn(NULL, &bare);
    }
    print_all(name, &ours, &bare);
    for (unsigned i = 0; i < count; i++)
        isolate_close(isolates[i]);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    bare_open();
    measure("100_isolates", MANY, endless, seconds);
    measure("100_fair_tasks", 1, endless_tasks, seconds);
    measure("1_isolate", 1, endless, seconds);
    return 0;
}
