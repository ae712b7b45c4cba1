/*
 * A worker shares its time between isolates first, with the host's tasks as one more, and then
 * between the tasks of an isolate.  The tests count instead of measuring time: polls of others
 * between a timer's deadline and its callback, and pieces of work that each isolate has done.
 */
#include "lua_host.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PIECE (3 * MS / 2)
#define SLICE (2 * MS)

/*
 * The number of pieces that may begin between the deadline of a timer and its callback: one if the
 * deadline passes just before a piece begins, and one if the worker does not know yet how long they
 * are.  More are counted when the kernel gives the core to another process at the wrong moment, so
 * some firings are ignored.
 */
enum { ALLOWED = 2, FIRINGS = 15, SPARED = 3, ISOLATES_MAX = 4 };

static uint64_t piece_ns;
static uint64_t due_at;    /* when the sleeping task should go on; 0 while it runs */
static unsigned overtook;  /* pieces that began after that */
static unsigned overtaken; /* the value of `overtook` when the task last went on */
static unsigned exceeded, firings;
static unsigned done[ISOLATES_MAX]; /* pieces of work, by isolate */

static void burn(void)
{
    uint64_t begin = clock_now();
    if (due_at && begin >= due_at)
        overtook++;
    while (clock_now() - begin < piece_ns)
        continue;
}

static int work(lua_State *L)
{
    done[lua_tointeger(L, lua_upvalueindex(1))]++;
    burn();
    return 0;
}

static int goes_to_sleep(lua_State *L)
{
    due_at = clock_now() + (uint64_t)lua_tointeger(L, 1) * MS;
    overtook = 0;
    return 0;
}

static int woke(lua_State *L)
{
    (void)L;
    exceeded += overtook > ALLOWED;
    overtaken = overtook;
    due_at = 0;
    firings++;
    return 0;
}

static void reset(uint64_t piece)
{
    piece_ns = piece;
    due_at = 0;
    overtook = overtaken = exceeded = firings = 0;
    for (int i = 0; i < ISOLATES_MAX; i++)
        done[i] = 0;
}

/* An isolate with this many tasks that work, one piece at a time. */
static lua_State *open_busy(struct orr_runtime *rt, int number, int tasks)
{
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = SLICE });
    lua_pushinteger(L, number);
    lua_pushcclosure(L, work, 1);
    lua_setglobal(L, "work");
    char code[256];
    snprintf(code, sizeof code,
             "local async = game.async\n"
             "for i = 1, %d do\n"
             "  async.run({ detached = true }, function() while true do async.checkpoint() work() end end)\n"
             "end",
             tasks);
    load(L, code);
    assert_int_equal(orr_lua_call(L, 0, 0, ORR_NEVER), 0);
    return L;
}

static lua_State *open_sleeper(struct orr_runtime *rt)
{
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = SLICE });
    lua_register(L, "goes_to_sleep", goes_to_sleep);
    lua_register(L, "woke", woke);
    load(L, "local async = game.async\n"
            "async.run({ detached = true }, function()\n"
            "  while true do goes_to_sleep(10) async.sleep(10) woke() end\n"
            "end)");
    assert_int_equal(orr_lua_call(L, 0, 0, ORR_NEVER), 0);
    return L;
}

static void close_all(struct orr_runtime *rt, lua_State **isolates, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(orr_lua_close(isolates[i]), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* --- A neighbour's timer ---------------------------------------------------------------------- */

static void sleeper_beside(const int *tasks, int count, uint64_t budget)
{
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .max_tasks = 20000 });
    lua_State *isolates[ISOLATES_MAX + 1];
    reset(PIECE);
    for (int i = 0; i < count; i++)
        isolates[i] = open_busy(rt, i, tasks[i]);
    orr_runtime_turn(rt, ORR_NEVER); /* the worker learns how long they run */
    isolates[count] = open_sleeper(rt);
    while (firings < FIRINGS && overtook < 200)
        assert_true(orr_runtime_turn(rt, budget) >= 0);
    unsigned fired = firings, late = exceeded;
    piece_ns = 0;
    close_all(rt, isolates, count + 1);
    if (fired < FIRINGS || late > SPARED)
        fail_msg("beside %d isolates, a timer fired %u times, of which %u after more than %d pieces", count, fired,
                 late, ALLOWED);
}

static void timer_fires_before_busy_isolates_run(void **state)
{
    (void)state;
    static const uint64_t budgets[] = { ORR_NEVER, 4 * MS, MS };
    for (size_t i = 0; i < LENGTH(budgets); i++) {
        sleeper_beside((int[]){ 9000 }, 1, budgets[i]);
        sleeper_beside((int[]){ 3000, 1, 30 }, 3, budgets[i]);
    }
}

static _Atomic bool stop;

static enum orr_poll burn_poll(struct orr_task *task, void *data)
{
    (void)data;
    if (stop)
        return ORR_DONE;
    burn();
    return orr_task_yield(task);
}

static void timer_fires_before_busy_tasks_of_the_host_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    reset(0);
    stop = false;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = burn_poll }), 0);
    lua_State *L = open_sleeper(rt);
    orr_runtime_turn(rt, ORR_NEVER);
    piece_ns = PIECE;
    for (int i = 0; i < 20; i++)
        orr_runtime_turn(rt, 4 * MS); /* the worker learns how long they run */
    exceeded = firings = 0;
    while (firings < FIRINGS && overtook < 200)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    unsigned fired = firings, late = exceeded;
    stop = true;
    finish(rt, L);
    if (fired < FIRINGS || late > SPARED)
        fail_msg("a timer fired %u times, of which %u after more than %d pieces", fired, late, ALLOWED);
}

/*
 * A manual clock makes it exact: a timer that is due at the start of a turn fires before all else.
 */
static void timer_fires_first_while_the_clock_stands_still(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .clock = ORR_CLOCK_MANUAL, .max_tasks = 20000 });
    static const int tasks[] = { 9000, 1, 30 };
    lua_State *isolates[4];
    reset(0);
    for (int i = 0; i < 3; i++)
        isolates[i] = open_busy(rt, i, tasks[i]);
    isolates[3] = open_sleeper(rt);
    for (unsigned i = 0; i < FIRINGS; i++) {
        for (int turn = 0; turn < 50; turn++)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(firings, i);
        due_at = 1; /* no piece may begin from now on */
        overtook = 0;
        assert_int_equal(orr_runtime_advance(rt, 10 * MS), 0);
        while (firings == i && overtook < 1000)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(overtaken, 0);
    }
    close_all(rt, isolates, 4);
}

/* --- Shares ----------------------------------------------------------------------------------- */

static void check_shares(const unsigned *pieces, int count, double tolerance)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += pieces[i];
    for (int i = 0; i < count; i++)
        if (pieces[i] < sum / count * (1 - tolerance) || pieces[i] > sum / count * (1 + tolerance))
            fail_msg("share %d of %d has done %u pieces, and all together %.0f", i, count, pieces[i], sum);
}

static void share_of_an_isolate_does_not_depend_on_its_number_of_tasks(void **state)
{
    (void)state;
    static const int tasks[] = { 1, 100, 9000 };
    static const uint64_t budgets[] = { ORR_NEVER, 4 * MS, 3 * MS };
    for (size_t b = 0; b < LENGTH(budgets); b++) {
        struct orr_runtime *rt = host_runtime_with((struct orr_options){ .max_tasks = 20000 });
        lua_State *isolates[3];
        reset(MS / 10);
        for (int i = 0; i < 3; i++)
            isolates[i] = open_busy(rt, i, tasks[i]);
        while (done[0] + done[1] + done[2] < 6000)
            assert_true(orr_runtime_turn(rt, budgets[b]) >= 0);
        unsigned pieces[] = { done[0], done[1], done[2] };
        piece_ns = 0;
        close_all(rt, isolates, 3);
        check_shares(pieces, 3, 0.3);
    }
}

/* A task that has slept runs first.  That must not give it more than its share. */
static void short_sleeps_do_not_enlarge_a_share(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .max_tasks = 20000 });
    lua_State *isolates[3];
    reset(MS / 4);
    for (int i = 0; i < 2; i++)
        isolates[i] = open_busy(rt, i, i ? 300 : 1);
    isolates[2] = open_trusted(rt, (struct orr_lua_options){ .slice_ns = SLICE });
    lua_pushinteger(isolates[2], 2);
    lua_pushcclosure(isolates[2], work, 1);
    lua_setglobal(isolates[2], "work");
    load(isolates[2], "local async = game.async\n"
                      "for i = 1, 8 do\n"
                      "  async.run({ detached = true }, function() while true do async.sleep(0.01) work() end end)\n"
                      "end");
    assert_int_equal(orr_lua_call(isolates[2], 0, 0, ORR_NEVER), 0);
    while (done[0] + done[1] + done[2] < 3000)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    unsigned pieces[] = { done[0], done[1], done[2] };
    piece_ns = 0;
    close_all(rt, isolates, 3);
    check_shares(pieces, 2, 0.3);
    if (pieces[2] > 1300)
        fail_msg("one that sleeps now and then has done %u of 3000 pieces", pieces[2]);
}

/* On a virtual clock polls are counted, so the result is exact and always the same. */
static void polls_are_shared_while_the_clock_stands_still(void **state)
{
    (void)state;
    unsigned before[4] = { 0 };
    for (int round = 0; round < 2; round++) {
        struct orr_runtime *rt = host_runtime_with(
            (struct orr_options){ .clock = ORR_CLOCK_MANUAL, .max_tasks = 20000 });
        static const int tasks[] = { 1, 100, 9000 };
        lua_State *isolates[3];
        reset(0);
        for (int i = 0; i < 3; i++)
            isolates[i] = open_busy(rt, i, tasks[i]);
        for (int i = 0; i < 3000; i++)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        unsigned pieces[] = { done[0], done[1], done[2], done[3] };
        close_all(rt, isolates, 3);
        check_shares(pieces, 3, 0.05);
        for (int i = 0; i < 4 && round; i++)
            assert_int_equal(pieces[i], before[i]);
        memcpy(before, pieces, sizeof before);
    }
}

/* Tasks that never wait, fair ones among them, beside many that do. */
static void tasks_that_never_wait_have_their_isolates_share(void **state)
{
    (void)state;
    static const char *const busy[] = {
        "while true do work() end",
        "for i = 1, 30 do game.async.run({ fair = true }, function() while true do work() end end) end",
    };
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .max_tasks = 20000 });
    lua_State *isolates[3];
    reset(MS / 20);
    isolates[0] = open_busy(rt, 0, 3000);
    for (int i = 1; i < 3; i++) {
        isolates[i] = open_trusted(
            rt, (struct orr_lua_options){ .slice_ns = SLICE, .deadline_ns[ORR_LUA_SCRIPT] = ORR_NEVER });
        lua_pushinteger(isolates[i], i);
        lua_pushcclosure(isolates[i], work, 1);
        lua_setglobal(isolates[i], "work");
        struct orr_task *task = start(isolates[i], busy[i - 1]);
        orr_runtime_enter(rt);
        orr_task_unref(task);
        orr_runtime_leave(rt);
    }
    while (done[0] + done[1] + done[2] < 6000)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    unsigned pieces[] = { done[0], done[1], done[2] };
    close_all(rt, isolates, 3);
    check_shares(pieces, 3, 0.3);
}

/* --- Closed isolates -------------------------------------------------------------------------- */

static void isolates_may_be_closed_while_they_wait_for_their_turn(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .max_tasks = 20000 });
    lua_State *isolates[ISOLATES_MAX];
    reset(MS / 20);
    for (int i = 0; i < ISOLATES_MAX; i++)
        isolates[i] = open_busy(rt, i, 500);
    for (int i = 0; i < 5; i++)
        orr_runtime_turn(rt, 0);
    for (int i = 0; i < ISOLATES_MAX - 1; i++) {
        assert_int_equal(orr_lua_close(isolates[i]), 0);
        unsigned before = done[ISOLATES_MAX - 1];
        isolates[i] = open_busy(rt, i, 10); /* may get the address of the closed isolate */
        for (int turn = 0; turn < 200; turn++)
            orr_runtime_turn(rt, ORR_NEVER);
        assert_true(done[ISOLATES_MAX - 1] > before);
        assert_true(done[i] > 0);
    }
    close_all(rt, isolates, ISOLATES_MAX);
}

static lua_State *victim;

static enum orr_poll close_victim(struct orr_task *task, void *data)
{
    (void)task;
    (void)data;
    int error = orr_lua_close(victim);
    assert_true(error == 0 || error == -EINPROGRESS);
    return ORR_DONE;
}

static void isolates_may_be_closed_by_a_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .max_tasks = 20000 });
    lua_State *isolates[2];
    reset(MS / 20);
    isolates[0] = open_busy(rt, 0, 200);
    isolates[1] = victim = open_busy(rt, 1, 200);
    for (int i = 0; i < 3; i++)
        orr_runtime_turn(rt, 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = close_victim }), 0);
    for (int i = 0; i < 1000; i++)
        orr_runtime_turn(rt, ORR_NEVER);
    unsigned before = done[1];
    for (int i = 0; i < 20; i++)
        orr_runtime_turn(rt, ORR_NEVER);
    assert_int_equal(done[1], before);
    close_all(rt, isolates, 1);
}

/* A C task that a script's task made and that was detached: it outlives the isolate. */
static struct orr_task *leaver;
static struct orr_runtime *leavers_runtime;

static enum orr_poll leave_poll(struct orr_task *task, void *data)
{
    (void)data;
    done[3]++;
    return stop ? ORR_DONE : orr_task_yield(task);
}

static int start_leaver(lua_State *L)
{
    lua_pushinteger(L, orr_spawn(leavers_runtime, &(struct orr_spawn){ .poll = leave_poll, .task = &leaver }));
    return 1;
}

static void task_that_has_left_its_isolate_goes_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    leavers_runtime = rt;
    stop = false;
    reset(0);
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "start_leaver", start_leaver);
    struct orr_task *task = start(L, "note(start_leaver()) game.async.sleep(1)");
    orr_runtime_turn(rt, ORR_NEVER);
    assert_string_equal(noted, "0;");
    orr_runtime_enter(rt);
    assert_int_equal(orr_task_detach(leaver), 0);
    orr_task_unref(leaver);
    orr_runtime_leave(rt);
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_int_equal(orr_lua_close(L), 0);
    unsigned before = done[3];
    for (int i = 0; i < 10; i++)
        orr_runtime_turn(rt, ORR_NEVER);
    assert_true(done[3] > before);
    stop = true;
    finish(rt, NULL);
}

static const struct CMUnitTest share[] = {
    cmocka_unit_test(timer_fires_before_busy_isolates_run),
    cmocka_unit_test(timer_fires_before_busy_tasks_of_the_host_run),
    cmocka_unit_test(timer_fires_first_while_the_clock_stands_still),
    cmocka_unit_test(share_of_an_isolate_does_not_depend_on_its_number_of_tasks),
    cmocka_unit_test(short_sleeps_do_not_enlarge_a_share),
    cmocka_unit_test(polls_are_shared_while_the_clock_stands_still),
    cmocka_unit_test(tasks_that_never_wait_have_their_isolates_share),
    cmocka_unit_test(isolates_may_be_closed_while_they_wait_for_their_turn),
    cmocka_unit_test(isolates_may_be_closed_by_a_task),
    cmocka_unit_test(task_that_has_left_its_isolate_goes_on),
};

HARNESS_MAIN(share)
