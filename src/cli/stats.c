#include "cli/stats.h"

#include <orrery.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

static void row(const char *what, uint64_t count)
{
    fprintf(stderr, "  %-28s %12" PRIu64 "\n", what, count);
}

static void row_of(const char *what, double amount, const char *unit)
{
    fprintf(stderr, "  %-28s %12.3f %s\n", what, amount, unit);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void stats_print(struct orr_runtime *rt, struct lua_State *L)
{
    struct orr_stats stats;
    struct orr_lua_stats lua;
    struct rusage usage;
    if (orr_runtime_stats(rt, 0, &stats) || orr_lua_stats(L, &lua) || getrusage(RUSAGE_SELF, &usage))
        return;
    fflush(stdout);
    fprintf(stderr, "orrery: statistics (reactor: %s)\n", orr_reactor_name(stats.reactor));
    row_of("processor time, own", seconds(usage.ru_utime), "s");
    row_of("processor time, system", seconds(usage.ru_stime), "s");
    row_of("memory of Lua, peak", (double)lua.memory_peak / 1024, "KB");
    row_of("memory of Lua, at the end", (double)lua.memory_used / 1024, "KB");
    row_of("memory of the process, peak", (double)usage.ru_maxrss, "KB");
    row("tasks started", stats.tasks_spawned);
    row("tasks left", stats.tasks_live);
    row("polls", stats.polls);
    row("turns", stats.turns);
    row("sleeps", stats.sleeps);
    row("slices suspended", lua.preemptions);
    row("ended at a deadline", lua.timeouts);
    row("timers fired", stats.timers_fired);
    row("timers cancelled", stats.timers_cancelled);
    row("timers left", stats.timers_pending);
    if (stats.timers_fired) {
        row_of("timers late by, median", (double)stats.lateness_p50_ns / 1e6, "ms");
        row_of("timers late by, 99th in 100", (double)stats.lateness_p99_ns / 1e6, "ms");
        row_of("timers late by, at most", (double)stats.lateness_max_ns / 1e6, "ms");
    }
}
