/*
 * How evenly time is shared.  First, ten fair tasks of one isolate, and ten isolates, all busy: by
 * how many percent the one that is farthest from the mean differs from it.  The runtime is driven
 * by orr_runtime_run(), and by turns of 4 ms, of 3 ms, which cut every second slice short, and of 1
 * ms, which cut every slice.  Then, how late a task that sleeps for about 10 ms is, beside ten busy
 * fair tasks of its isolate, and alone; a sleep during which the kernel gave the core to another
 * process is left out.  Last, how late a timer of 10 ms is beside another isolate that has 9,000
 * tasks, each of which runs for 1.5 ms at a time.
 */
#include "isolate.h"

#include <stdio.h>
#include <stdlib.h>

enum { BUSY = 10, SLEEPS = 60, ROUNDS = 3, SAMPLES = SLEEPS * ROUNDS };

#define SLICE (2 * BENCH_MS)
#define SPAN (1600 * BENCH_MS)

/* --- Shares ----------------------------------------------------------------------------------- */

static const char counting[] = "count = 0 while not stop do count = count + 1 end";
static const char counting_tasks[] = "for i = 1, 10 do\n"
                                     "  local name = 'count' .. i\n"
                                     "  _G[name] = 0\n"
                                     "  orrery.async.run({ fair = true }, function()\n"
                                     "    while not stop do _G[name] = _G[name] + 1 end\n"
                                     "  end)\n"
                                     "end";

/* Drives the runtime for the whole span.  A budget of ORR_NEVER stands for orr_runtime_run(). */
static void drive(struct orr_runtime *rt, uint64_t budget)
{
    uint64_t end = bench_now() + SPAN;
    while (bench_now() < end)
        bench_must(orr_runtime_turn(rt, budget), "orr_runtime_turn");
}

static void print_deviation(const char *what, const char *how, const double *counts)
{
    double sum = 0, most = 0;
    for (int i = 0; i < BUSY; i++)
        sum += counts[i];
    for (int i = 0; i < BUSY; i++) {
        double off = counts[i] / (sum / BUSY) - 1;
        off = off < 0 ? -off : off;
        most = off > most ? off : most;
    }
    char name[64];
    snprintf(name, sizeof name, "fairness_%s_%s", what, how);
    bench_line(name, most * 100, "percent", 0, NULL);
}

static void share_tasks(const char *how, uint64_t budget)
{
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *L = isolate_open(rt, SLICE, ORR_NEVER);
    double counts[BUSY];
    isolate_start(L, counting_tasks);
    drive(rt, budget);
    for (int i = 0; i < BUSY; i++) {
        char name[16];
        snprintf(name, sizeof name, "count%d", i + 1);
        counts[i] = isolate_number(L, name);
    }
    print_deviation("10_tasks", how, counts);
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

static void share_isolates(const char *how, uint64_t budget)
{
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *isolates[BUSY];
    double counts[BUSY];
    for (int i = 0; i < BUSY; i++) {
        isolates[i] = isolate_open(rt, SLICE, ORR_NEVER);
        isolate_start(isolates[i], counting);
    }
    drive(rt, budget);
    for (int i = 0; i < BUSY; i++) {
        counts[i] = isolate_number(isolates[i], "count");
        isolate_close(isolates[i]);
    }
    print_deviation("10_isolates", how, counts);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

/* --- The sleeper ------------------------------------------------------------------------------ */

static const char sleeper[] = "local hrtime, sleep = orrery.loop.hrtime, orrery.async.sleep\n"
                              "return function(busy)\n"
                              "  local stop = false\n"
                              "  for i = 1, busy do\n"
                              "    orrery.async.run({ fair = true }, function() while not stop do end end)\n"
                              "  end\n"
                              "  for i = 1, 60 do\n"
                              "    local ms = 9 + 2 * math.random()\n" /* not in step with slices */
                              "    local due = hrtime() + ms * 1e6\n"
                              "    sleep(ms)\n"
                              "    sample(hrtime() - due)\n"
                              "  end\n"
                              "  stop = true\n"
                              "end";

static struct samples {
    double late[SAMPLES];
    unsigned taken;
} beside, alone, *sampled;

static int sample(lua_State *L)
{
    static long before;
    long now = disturbances();
    if (now == before)
        sampled->late[sampled->taken++] = lua_tonumber(L, 1) / 1000;
    before = now;
    return 0;
}

static void sleep_beside(struct orr_runtime *rt, lua_State *L, int busy, struct samples *samples)
{
    sampled = samples;
    lua_pushvalue(L, -1);
    lua_pushinteger(L, busy);
    bench_must(orr_lua_start(L, 1, "sleeper", NULL), "orr_lua_start");
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
}

static void be_late(void)
{
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *L = isolate_open(rt, SLICE, ORR_NEVER);
    lua_register(L, "sample", sample);
    isolate_load(L, sleeper);
    lua_call(L, 0, 1);
    for (int round = 0; round < ROUNDS; round++) {
        sleep_beside(rt, L, BUSY, &beside);
        sleep_beside(rt, L, 0, &alone);
    }
    static const struct {
        const char *name;
        double part;
    } parts[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "max", 1 } };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        double late = percentile(beside.late, beside.taken, parts[i].part);
        double usual = percentile(alone.late, alone.taken, parts[i].part);
        snprintf(name, sizeof name, "sleeper_late_beside_10_tasks_%s", parts[i].name);
        bench_line(name, late, "us", late / usual, "alone");
        snprintf(name, sizeof name, "sleeper_late_alone_%s", parts[i].name);
        bench_line(name, usual, "us", 0, NULL);
        snprintf(name, sizeof name, "sleeper_later_by_%s", parts[i].name);
        bench_line(name, late - usual, "us", 0, NULL);
    }
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

/* --- The neighbour ---------------------------------------------------------------------------- */

static const char crowd[] = "local async, clock = orrery.async, orrery.loop.hrtime\n"
                            "for i = 1, 9000 do\n"
                            "  async.run({ detached = true }, function()\n"
                            "    while not stop do\n"
                            "      async.checkpoint()\n"
                            "      local till = clock() + 1.5e6\n"
                            "      while clock() < till and not stop do end\n"
                            "    end\n"
                            "  end)\n"
                            "end";
static const char neighbour[] = "local hrtime, sleep = orrery.loop.hrtime, orrery.async.sleep\n"
                                "fired = 0\n"
                                "while true do\n"
                                "  local due = hrtime() + 10e6\n"
                                "  sleep(10)\n"
                                "  sample(hrtime() - due)\n"
                                "  fired = fired + 1\n"
                                "end";

static struct samples next_door;

static void live_next_door(void)
{
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *busy = isolate_open(rt, SLICE, ORR_NEVER);
    lua_State *L = isolate_open(rt, SLICE, ORR_NEVER);
    sampled = &next_door;
    lua_register(L, "sample", sample);
    isolate_start(busy, crowd);
    isolate_start(L, neighbour);
    drive(rt, ORR_NEVER);
    bench_line("timer_fired_beside_9000_tasks", isolate_number(L, "fired") / (SPAN / (10.0 * BENCH_MS)), "share", 0,
               NULL);
    if (next_door.taken) {
        bench_line("timer_late_beside_9000_tasks_p50", percentile(next_door.late, next_door.taken, 0.5), "us", 0, NULL);
        bench_line("timer_late_beside_9000_tasks_p99", percentile(next_door.late, next_door.taken, 0.99), "us", 0,
                   NULL);
    }
    lua_pushboolean(busy, true);
    lua_setglobal(busy, "stop");
    isolate_close(busy);
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

int main(void)
{
    static const struct {
        const char *name;
        uint64_t budget;
    } ways[] = {
        { "run", ORR_NEVER }, { "turns_4ms", 4 * BENCH_MS }, { "turns_3ms", 3 * BENCH_MS }, { "turns_1ms", BENCH_MS }
    };
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        share_tasks(ways[i].name, ways[i].budget);
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        share_isolates(ways[i].name, ways[i].budget);
    be_late();
    live_next_door();
    return 0;
}
