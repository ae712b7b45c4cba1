/*
 * Timers, with many outstanding: insert, start and stop, re-arm and cancel at random, fire.  Each
 * figure is for one operation.  Ours are the handles of the public API, those for any thread and
 * local ones.  The peers are libuv's and libev's, in the same run, with the same deadlines in the
 * same order.
 *
 * Time is that of the thread on its core.  Deadlines are spread over a minute.  Ours are absolute; the peers add theirs to a time that they
 * have read before.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_UV
#include <uv.h>
#endif
#ifdef HAVE_EV
#include <ev.h>
#endif

enum { MILLION = 1000000, SPREAD_MS = 60000 };

enum { INSERT, START_STOP, REARM, CANCEL, FIRE, OPERATIONS };
static const char *const operations[] = { "insert", "start_stop", "rearm_random", "cancel_random", "fire" };

static unsigned count;           /* outstanding timers */
static uint32_t delays[MILLION]; /* in milliseconds */
static uint32_t shuffled[MILLION];

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void shuffle(void)
{
    for (unsigned i = 0; i < count; i++) {
        delays[i] = 1 + (uint32_t)(random_bits() % SPREAD_MS);
        shuffled[i] = i;
    }
    for (unsigned i = count; i-- > 1;) {
        unsigned other = (unsigned)(random_bits() % (i + 1));
        uint32_t swap = shuffled[i];
        shuffled[i] = shuffled[other];
        shuffled[other] = swap;
    }
}

/* One run of one implementation: nanoseconds for each operation. */
typedef void contender(double *ns);

static double each(uint64_t start, unsigned operations_done)
{
    return (double)(bench_cpu_now() - start) / operations_done;
}

/* --- ours ------------------------------------------------------------------------------------- */

static struct orr_timer *ours[MILLION];
static unsigned fired;
static bool local;

static void our_fire(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    (void)data;
    fired += status == 0;
}

/* Runs inside a task, because that is where timers are used. */
static enum orr_poll run_ours(struct orr_task *task, void *data)
{
    double *ns = data;
    struct orr_runtime *rt = orr_task_runtime(task);
    uint64_t base = orr_runtime_now(rt);
    struct orr_timer_options what = { .fire = our_fire, .local = local };
    for (unsigned i = 0; i < count; i++)
        bench_must(orr_timer_new(rt, &what, &ours[i]), "orr_timer_new");

    uint64_t start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        orr_timer_start_at(ours[i], base + delays[i] * 1000000ull, 0);
    ns[INSERT] = each(start, count);

    struct orr_timer *one;
    bench_must(orr_timer_new(rt, &what, &one), "orr_timer_new");
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++) {
        orr_timer_start_at(one, base + delays[i] * 1000000ull, 0);
        orr_timer_cancel(one);
    }
    ns[START_STOP] = each(start, count);
    orr_timer_free(one);

    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        orr_timer_start_at(ours[shuffled[i]], base + delays[i] * 1000000ull, 0);
    ns[REARM] = each(start, count);

    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        orr_timer_cancel(ours[shuffled[i]]);
    ns[CANCEL] = each(start, count);

    for (unsigned i = 0; i < count; i++)
        orr_timer_start_at(ours[i], base + delays[i] * 1000000ull, 0);
    return ORR_DONE;
}

static void run_contender_ours(double *ns)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .clock = ORR_CLOCK_MANUAL });
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = run_ours, .data = ns }), "orr_spawn");
    bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    fired = 0;
    orr_runtime_advance(rt, (SPREAD_MS + 1) * 1000000ull);
    uint64_t start = bench_cpu_now();
    while (fired < count)
        bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    ns[FIRE] = each(start, count);
    for (unsigned i = 0; i < count; i++)
        orr_timer_free(ours[i]);
    orr_runtime_free(rt);
}

static void run_shared(double *ns)
{
    local = false;
    run_contender_ours(ns);
}

static void run_local(double *ns)
{
    local = true;
    run_contender_ours(ns);
}

/* --- libuv ------------------------------------------------------------------------------------ */

#ifdef HAVE_UV
static uv_timer_t *uv_timers;

static void uv_fire(uv_timer_t *timer)
{
    (void)timer;
    fired++;
}

static void run_uv(double *ns)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    uv_timers = calloc(count + 1, sizeof *uv_timers);
    for (unsigned i = 0; i <= count; i++)
        uv_timer_init(&loop, &uv_timers[i]);
    uint64_t start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        uv_timer_start(&uv_timers[i], uv_fire, delays[i], 0);
    ns[INSERT] = each(start, count);
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++) {
        uv_timer_start(&uv_timers[count], uv_fire, delays[i], 0);
        uv_timer_stop(&uv_timers[count]);
    }
    ns[START_STOP] = each(start, count);
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        uv_timer_start(&uv_timers[shuffled[i]], uv_fire, delays[i], 0);
    ns[REARM] = each(start, count);
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        uv_timer_stop(&uv_timers[shuffled[i]]);
    ns[CANCEL] = each(start, count);
    /* All are due at once, in the order of their deadlines: the loop's time is a minute behind. */
    for (unsigned i = 0; i < count; i++)
        uv_timer_start(&uv_timers[i], uv_fire, delays[i] / 1000, 0);
    struct timespec pause = { 0, SPREAD_MS / 1000 * 1000000 + 2000000 };
    nanosleep(&pause, NULL);
    fired = 0;
    start = bench_cpu_now();
    while (fired < count)
        uv_run(&loop, UV_RUN_NOWAIT);
    ns[FIRE] = each(start, count);
    for (unsigned i = 0; i <= count; i++)
        uv_close((uv_handle_t *)&uv_timers[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(uv_timers);
}
#endif

/* --- libev ------------------------------------------------------------------------------------ */

#ifdef HAVE_EV
static void ev_fire(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop;
    (void)timer;
    (void)events;
    fired++;
}

static void run_ev(double *ns)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    ev_timer *timers = calloc(count + 1, sizeof *timers);
    for (unsigned i = 0; i <= count; i++)
        ev_init(&timers[i], ev_fire);
    uint64_t start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++) {
        ev_timer_set(&timers[i], delays[i] / 1000.0, 0.0);
        ev_timer_start(loop, &timers[i]);
    }
    ns[INSERT] = each(start, count);
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++) {
        ev_timer_set(&timers[count], delays[i] / 1000.0, 0.0);
        ev_timer_start(loop, &timers[count]);
        ev_timer_stop(loop, &timers[count]);
    }
    ns[START_STOP] = each(start, count);
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++) {
        ev_timer *timer = &timers[shuffled[i]];
        timer->repeat = delays[i] / 1000.0;
        ev_timer_again(loop, timer);
    }
    ns[REARM] = each(start, count);
    start = bench_cpu_now();
    for (unsigned i = 0; i < count; i++)
        ev_timer_stop(loop, &timers[shuffled[i]]);
    ns[CANCEL] = each(start, count);
    for (unsigned i = 0; i < count; i++) {
        ev_timer_set(&timers[i], delays[i] / 1000000.0, 0.0);
        ev_timer_start(loop, &timers[i]);
    }
    struct timespec pause = { 0, SPREAD_MS / 1000 * 1000000 + 2000000 };
    nanosleep(&pause, NULL);
    fired = 0;
    start = bench_cpu_now();
    while (fired < count)
        ev_run(loop, EVRUN_NOWAIT);
    ns[FIRE] = each(start, count);
    ev_loop_destroy(loop);
    free(timers);
}
#endif

/* --- the contest ------------------------------------------------------------------------------ */

enum { RUNS = 5 };

static const struct {
    const char *name;
    contender *run;
} contenders[] = {
    { "timer", run_shared },
    { "timer_local", run_local },
#ifdef HAVE_UV
    { "libuv", run_uv },
#endif
#ifdef HAVE_EV
    { "libev", run_ev },
#endif
};

enum { CONTENDERS = sizeof contenders / sizeof *contenders, OURS = 2 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void contest(unsigned outstanding)
{
    static double all[CONTENDERS][OPERATIONS][RUNS];
    count = outstanding;
    for (int run = 0; run < RUNS; run++) {
        shuffle();
        for (int c = 0; c < CONTENDERS; c++) {
            double ns[OPERATIONS];
            contenders[c].run(ns);
            for (int op = 0; op < OPERATIONS; op++)
                all[c][op][run] = ns[op];
        }
    }
    for (int op = 0; op < OPERATIONS; op++) {
        double medians[CONTENDERS];
        for (int c = 0; c < CONTENDERS; c++) {
            qsort(all[c][op], RUNS, sizeof(double), by_value);
            medians[c] = all[c][op][RUNS / 2];
        }
        for (int c = 0; c < OURS; c++) {
            char name[64];
            snprintf(name, sizeof name, "%s_%s_%u", contenders[c].name, operations[op], count);
            if (CONTENDERS == OURS)
                bench_line(name, medians[c], "ns", 0, NULL);
            for (int peer = OURS; peer < CONTENDERS; peer++) {
                char peer_name[64];
                snprintf(peer_name, sizeof peer_name, "%s(%.1f)", contenders[peer].name, medians[peer]);
                bench_line(name, medians[c], "ns", medians[c] / medians[peer], peer_name);
            }
        }
    }
}

/* With a number as its argument, only with that many outstanding timers. */
int main(int argc, char **argv)
{
    static const unsigned counts[] = { 1000, 100000, MILLION };
    unsigned long only = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!only || only == counts[i])
            contest(counts[i]);
#ifndef HAVE_UV
    printf("libuv: not installed\n");
#endif
#ifndef HAVE_EV
    printf("libev: not installed\n");
#endif
    return 0;
}
