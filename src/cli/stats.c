#include "cli/stats.h"

#include "base/text.h"

#include <orrery.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static void row(const char *what, uint64_t count)
{
    fprintf(stderr, "  %-28s %12" PRIu64 "\n", what, count);
}

static void row_of(const char *what, double amount, const char *unit)
{
    fprintf(stderr, "  %-28s %12.3f %s\n", what, amount, unit);
}

/* Writes a time as in all messages, with the number aligned with other rows. */
static void row_of_time(const char *what, uint64_t ns)
{
    char text[TEXT_DURATION_ROOM];
    text_duration(text, ns);
    size_t number = strcspn(text, " ");
    fprintf(stderr, "  %-28s %12.*s%s\n", what, (int)number, text, text + number);
}

static uint64_t nanoseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
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
    row_of_time("processor time, user", nanoseconds(usage.ru_utime));
    row_of_time("processor time, system", nanoseconds(usage.ru_stime));
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
    row("scheduled callbacks run", lua.schedule_run);
    row("timers pending", stats.timers_pending);
    row("timers fired", stats.timers_fired);
    row("timers cancelled", stats.timers_cancelled);
    row("timers re-armed", stats.timers_rearmed);
    row("timers migrated", stats.timers_migrated);
    row("timers dropped", stats.timers_dropped + lua.timers_dropped);
    if (stats.timers_fired) {
        row_of_time("timers late by, median", stats.lateness_p50_ns);
        row_of_time("timers late by, 99th percentile", stats.lateness_p99_ns);
        row_of_time("timers late by, maximum", stats.lateness_max_ns);
    }
}
