/*
 * The kernel's timer that interrupts Lua: it ticks while slices follow one another, and stops when
 * nothing runs.  This program counts how often it is set.
 */
#include "lua_host.h"

#include <time.h>

static volatile unsigned settings; /* how often the timer was set */
static volatile bool ticks;

int __real_timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old);
int __wrap_timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old);

int __wrap_timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    settings++;
    ticks = value->it_interval.tv_sec || value->it_interval.tv_nsec;
    return __real_timer_settime(timer, flags, value, old);
}

/* A machine that stalls between two slices has the timer set: not every slice does without. */
enum { ENOUGH = 10, TOO_MANY = 2000 };

static uint64_t preemptions;     /* so far */
static unsigned settings_before; /* when a slice was last interrupted */
/* Slices that were interrupted without a setting, and while the timer ticked. */
static unsigned without, ticking;

/* Looks whether another slice was interrupted.  Returns whether there were enough. */
static int look(lua_State *L)
{
    struct orr_lua_stats stats;
    orr_lua_stats(L, &stats);
    if (stats.preemptions != preemptions) {
        preemptions = stats.preemptions;
        without += settings == settings_before;
        ticking += ticks;
        settings_before = settings;
    }
    lua_pushboolean(L, without >= ENOUGH || preemptions >= TOO_MANY);
    return 1;
}

/* Runs slices until there were enough.  The caller closes both. */
static lua_State *run_slices(struct orr_runtime *rt)
{
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS });
    preemptions = without = ticking = 0;
    lua_register(L, "look", look);
    struct orr_task *task = start(L, "while not look() do for i = 1, 1000 do end end");
    assert_int_equal(orr_runtime_run(rt), 0);
    expect_success(rt, task);
    return L;
}

static void slices_that_follow_one_another_do_not_set_the_timer(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = run_slices(rt);
    assert_true(without >= ENOUGH);
    finish(rt, L);
}

static void timer_stops_ticking_when_nothing_runs(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = run_slices(rt);
    assert_true(ticking > 0);
    while (ticks)
        continue;
    finish(rt, L);
}

/* Turns with an end set the timer for that end. */
static void turns_end_in_time_though_the_timer_has_ticked(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = run_slices(rt);
    struct orr_task *task = start(L, "for i = 1, 5e6 do end");
    assert_true(turn_until_done(rt, task, MS) > 1);
    expect_success(rt, task);
    assert_false(ticks);
    finish(rt, L);
}

static const struct CMUnitTest ticks_of_the_timer[] = {
    cmocka_unit_test(slices_that_follow_one_another_do_not_set_the_timer),
    cmocka_unit_test(timer_stops_ticking_when_nothing_runs),
    cmocka_unit_test(turns_end_in_time_though_the_timer_has_ticked),
};

HARNESS_MAIN(ticks_of_the_timer)
