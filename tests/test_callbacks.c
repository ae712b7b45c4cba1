/*
 * Callbacks of timers, of schedule() and of events share tasks as long as nobody can tell.  These
 * tests try to tell: in the order of what runs, in tasks, children, wakers and limits, and while
 * scripts end or memory runs out.  The last ones mix all that callbacks can do at random.
 */
#include "failing.h"
#include "harness.h"
#include "lua_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each allocation decrements this; the one that finds 0 fails. */
static int allowed = INT32_MAX;
static bool ran_out;

static bool may_allocate(void)
{
    bool may = allowed-- != 0;
    ran_out |= !may;
    return may;
}

static lua_State *state_of_host;

/* emit_host(name, data): emits an event of the host. */
static int emit_host(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    lua_settop(L, 2);
    lua_xmove(L, state_of_host, 1);
    lua_pushinteger(L, orr_events_emit(state_of_host, name));
    return 1;
}

static struct orr_waker kept_waker;

/* keep_waker(): the host keeps a waker of the task that runs. */
static int keep_waker(lua_State *L)
{
    (void)L;
    kept_waker = orr_task_waker(orr_task_current());
    return 0;
}

/* drop_kept(): what dropping the task of that waker answers. */
static int drop_kept(lua_State *L)
{
    lua_pushinteger(L, orr_task_drop(kept_waker));
    return 1;
}

static struct orr_runtime *open_runtime(void)
{
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc });
    assert_non_null(rt);
    return rt;
}

static lua_State *open_host(struct orr_runtime *rt, struct orr_lua_options options)
{
    lua_State *L = open_isolate(rt, options);
    lua_register(L, "emit_host", emit_host);
    lua_register(L, "keep_waker", keep_waker);
    lua_register(L, "drop_kept", drop_kept);
    state_of_host = L;
    return L;
}

/* What every script begins with. */
static const char prelude[] = "local async, events, schedule = game.async, game.events, game.schedule\n"
                              "local function timer(ms, fn) return game.loop.new_timer():start(ms, 0, fn) end\n";

static void run_code(struct orr_runtime *rt, lua_State *L, const char *code)
{
    static char all[16384];
    assert_true((size_t)snprintf(all, sizeof all, "%s%s", prelude, code) < sizeof all);
    struct orr_task *task = start(L, all);
    assert_int_equal(orr_runtime_run(rt), 0);
    error_of(rt, task);
}

/* Runs a script to its end in both profiles; all memory must be free in the end. */
static void expect_notes(const char *code, const char *expected)
{
    for (int profile = 0; profile < 2; profile++) {
        struct orr_runtime *rt = open_runtime();
        lua_State *L = open_host(rt, (struct orr_lua_options){ .profile = profile });
        noted[0] = '\0';
        run_code(rt, L, code);
        assert_string_equal(noted, expected);
        finish_counting(rt, L);
    }
}

static uint64_t spawned(struct orr_runtime *rt)
{
    struct orr_stats stats;
    assert_int_equal(orr_runtime_stats(rt, 1, &stats), 0);
    return stats.tasks_spawned;
}

/* --- A call ----------------------------------------------------------------------------------- */

static void handlers_that_do_not_wait_need_no_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    run_code(rt, L,
             "n = 0\n"
             "for i = 1, 1000 do events:on('e', function() n = n + 1 end) end\n");
    uint64_t before = spawned(rt);
    run_code(rt, L, "emit_host('e') async.sleep(1) note(n) events:emit('e') note(n)");
    assert_string_equal(noted, "1000;2000;");
    assert_true(spawned(rt) - before < 40);
    finish_counting(rt, L);
}

static void timers_that_are_due_together_share_a_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    uint64_t before = spawned(rt);
    run_code(rt, L, "n = 0 for i = 1, 500 do timer(5, function() n = n + 1 end) end async.sleep(10) note(n)");
    assert_string_equal(noted, "500;");
    assert_true(spawned(rt) - before < 40);
    finish_counting(rt, L);
}

static void a_runner_at_rest_is_no_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    run_code(rt, L, "timer(1, function() note 'fired' end)");
    assert_string_equal(noted, "fired;");
    struct orr_stats stats;
    assert_int_equal(orr_runtime_stats(rt, 1, &stats), 0);
    assert_int_equal(stats.tasks_live, 0);
    finish_counting(rt, L);
}

/* --- Order ------------------------------------------------------------------------------------ */

static void callbacks_and_tasks_run_in_the_order_of_their_deadlines(void **state)
{
    (void)state;
    expect_notes("timer(5, function() note(1) end)\n"
                 "timer(5, function() note(2) end)\n"
                 "async.run(function() async.sleep(5) note 'task' end)\n"
                 "timer(5, function() note(3) end)\n"
                 "timer(5, function() note(4) end)\n"
                 "async.sleep(10)\n",
                 "1;2;task;3;4;");
}

static void what_a_callback_makes_ready_comes_behind_those_that_are_due(void **state)
{
    (void)state;
    expect_notes("local set = async.event()\n"
                 "async.run(function() set:wait() note 'woken' end)\n"
                 "timer(5, function() note(1) set:set() emit_host('late') end)\n"
                 "events:on('late', function() note 'event' end)\n"
                 "timer(5, function() note(2) end)\n"
                 "async.sleep(10)\n",
                 "1;2;woken;event;");
}

static void what_a_callback_wakes_fails_behind_those_that_are_due(void **state)
{
    (void)state;
    expect_notes("async.run({ detached = true }, function()\n"
                 "  local child = async.run(function() async.sleep(100) end)\n"
                 "  local bad = async.run(function() async.await(function(done) fail = done end) error('x', 0) end)\n"
                 "  local ok, err = pcall(async.sleep, 50)\n"
                 "  note('parent ' .. tostring(ok))\n"
                 "end)\n"
                 "timer(5, function() note(1) fail() end)\n"
                 "timer(5, function() note(2) end)\n"
                 "async.sleep(60)\n",
                 "1;2;parent false;");
}

static void a_callback_that_waits_lets_the_others_go_on(void **state)
{
    (void)state;
    expect_notes("for i = 1, 4 do\n"
                 "  timer(5, function() note(i) if i % 2 == 0 then async.sleep(i) note('over ' .. i) end end)\n"
                 "end\n"
                 "async.run(function() async.sleep(5) note 'behind' end)\n"
                 "async.sleep(20)\n",
                 "1;2;3;4;behind;over 2;over 4;");
}

/* --- Tasks ------------------------------------------------------------------------------------ */

static void each_callback_has_a_task_of_its_own_when_it_asks(void **state)
{
    (void)state;
    expect_notes("local seen = {}\n"
                 "local function ask(i) return function() seen[i] = async.current() return 'r' .. i end end\n"
                 "timer(5, ask(1)) timer(5, ask(2)) schedule(ask(3))\n"
                 "events:on('name', ask(4)) events:on('name', ask(5))\n"
                 "async.sleep(10) events:emit('name') emit_host('name') async.sleep(1)\n"
                 "note(seen[1] ~= seen[2]) note(seen[4] ~= seen[5])\n"
                 "for i = 1, 5 do note(seen[i].name .. ' ' .. async.await(seen[i])) end\n",
                 "true;true;timer r1;timer r2;scheduled r3;name r4;name r5;");
}

static void a_child_belongs_to_the_callback_that_started_it(void **state)
{
    (void)state;
    expect_notes("timer(5, function()\n"
                 "  parent = async.current()\n"
                 "  async.run(function() async.sleep(10) note 'child' end)\n"
                 "end)\n"
                 "timer(5, function() note(async.current() ~= parent) end)\n"
                 "async.sleep(6) note(parent:status()) async.await(parent) note(parent:status())\n",
                 "true;awaiting;child;completed;");
}

static void a_callback_that_fails_is_reported_and_the_others_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    run_code(rt, L,
             "timer(5, function() note(1) end)\n"
             "timer(5, function() error 'BAD' end)\n"
             "timer(5, function() note(3) end)\n"
             "async.sleep(10)\n");
    assert_string_equal(noted, "1;3;");
    assert_non_null(strstr(sink_text, "BAD"));
    assert_non_null(strstr(sink_text, "script:4: in function"));
    finish_counting(rt, L);
}

static void a_waker_of_a_callback_does_not_name_the_next_one(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "first;%d;second;third;", -ESRCH);
    expect_notes("timer(5, function() keep_waker() note 'first' end)\n"
                 "timer(5, function() note(drop_kept()) note 'second' end)\n"
                 "timer(6, function() drop_kept() note 'third' end)\n"
                 "async.sleep(10)\n",
                 expected);
}

static void a_mutex_that_a_callback_leaves_locked_is_not_the_next_ones(void **state)
{
    (void)state;
    expect_notes("local mutex = async.mutex()\n"
                 "timer(5, function() mutex:lock() note 'locked' end)\n"
                 "timer(5, function() note(pcall(mutex.unlock, mutex)) end)\n"
                 "timer(5, function() note(pcall(mutex.lock, mutex)) end)\n"
                 "async.sleep(10)\n",
                 "locked;false;true;");
}

static void a_coroutine_of_a_callback_is_not_used_again(void **state)
{
    (void)state;
    expect_notes("timer(5, function() one = coroutine.running() end)\n"
                 "timer(5, function() two = coroutine.running() end)\n"
                 "async.sleep(10) note(one ~= two) note(coroutine.status(one))\n",
                 "true;dead;");
}

/* --- Limits ----------------------------------------------------------------------------------- */

static void only_the_callback_that_spins_is_ended(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        struct orr_runtime *rt = open_runtime();
        struct orr_lua_options options = { .mode = mode ? ORR_LUA_COUNT : ORR_LUA_SIGNAL };
        for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
            options.deadline_ns[entry] = 30 * 1000000;
        lua_State *L = open_host(rt, options);
        run_code(rt, L,
                 "for i = 1, 6 do timer(5, function() note(i) if i % 3 == 0 then while true do end end end) end\n"
                 "async.sleep(10)\n");
        assert_string_equal(noted, "1;2;3;4;5;6;");
        assert_int_equal(notices[ORR_LUA_TIMED_OUT], 2);
        finish_counting(rt, L);
    }
}

static void the_limit_of_a_call_begins_with_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    struct orr_lua_options options = { .slice_ns = 1000000 };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = UINT64_C(2000000000);
    lua_State *L = open_host(rt, options);
    /* Together they run for longer than one of them may. */
    run_code(rt, L,
             "local function spin() for i = 1, 20000 do local _ = i end end\n"
             "for i = 1, 400 do events:on('e', spin) end\n"
             "emit_host('e') async.sleep(1) note(events:emit('e'))\n");
    assert_string_equal(noted, "400;");
    assert_int_equal(notices[ORR_LUA_TIMED_OUT], 0);
    finish_counting(rt, L);
}

static void callbacks_stay_atomic_when_the_slice_ends(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    struct orr_lua_options options = { .slice_ns = 100000 };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    lua_State *L = open_host(rt, options);
    run_code(rt, L,
             "inside, broken, calls = false, 0, 0\n"
             "local function work()\n"
             "  if inside then broken = broken + 1 end\n"
             "  inside = true for i = 1, 30000 do local _ = i end inside = false\n"
             "  calls = calls + 1\n"
             "end\n"
             "events:on('e', work) events:on('e', work)\n"
             "for i = 1, 20 do timer(5, work) schedule(work) emit_host('e') end\n"
             "async.sleep(10) while calls < 80 do async.sleep(1) end\n"
             "note(broken) note(calls)\n");
    assert_string_equal(noted, "0;80;");
    finish_counting(rt, L);
}

static void callbacks_that_wait_count_as_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ .max_tasks = 10 });
    run_code(rt, L,
             "n, over = 0, 0\n"
             "for i = 1, 50 do timer(5, function() n = n + 1 async.sleep(20) over = over + 1 end) end\n"
             "async.sleep(100) note(n == over and n >= 5 and n <= 10)\n"
             "for i = 1, 50 do timer(5, function() n = n + 1 end) end\n"
             "n = 0 async.sleep(100) note(n)\n");
    assert_string_equal(noted, "true;50;");
    finish_counting(rt, L);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void closing_an_isolate_skips_callbacks_that_are_due(void **state)
{
    (void)state;
    for (int turns = 0; turns < 4; turns++) {
        struct orr_runtime *rt = open_runtime();
        lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
        run_code(rt, L,
                 "for i = 1, 5 do\n"
                 "  events:on('e', function() if i == 3 then async.sleep(1000) end end)\n"
                 "end\n"
                 "events:once('e', function() end)\n");
        for (int i = 0; i < 3; i++) {
            lua_pushinteger(L, i);
            assert_int_equal(orr_events_emit(L, "e"), 0);
        }
        for (int i = 0; i < turns; i++)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        finish_counting(rt, L);
    }
}

static void a_timer_may_be_closed_or_started_in_its_own_callback(void **state)
{
    (void)state;
    expect_notes("local t = game.loop.new_timer()\n"
                 "t:start(1, 1, function() n = (n or 0) + 1 note(n) if n == 3 then t:close() end end)\n"
                 "local u = game.loop.new_timer()\n"
                 "u:start(2, 0, function() u:start(2, 0, function() note 'again' u:close() end) end)\n"
                 "local v, w = game.loop.new_timer(), game.loop.new_timer()\n"
                 "v:start(9, 0, function() w:stop() note 'v' end)\n"
                 "w:start(9, 0, function() note 'w' end)\n"
                 "async.sleep(20)\n",
                 "1;2;3;again;v;");
}

static void a_handler_removed_by_an_earlier_one_is_not_called(void **state)
{
    (void)state;
    expect_notes("local second\n"
                 "events:on('e', function() note(1) events:off(second) end)\n"
                 "second = events:on('e', function() note(2) end)\n"
                 "events:once('e', function() note 'once' end)\n"
                 "events:on('e', function() note(3) end)\n"
                 "emit_host('e') async.sleep(1) note(events:emit('e'))\n",
                 "1;once;3;1;3;2;");
}

static void an_emit_reaches_all_handlers_however_deep_it_is(void **state)
{
    (void)state;
    expect_notes("local calls = 0\n"
                 "events:on('e', function(depth)\n"
                 "  calls = calls + 1\n"
                 "  if depth < 30 then events:emit('e', depth + 1) end\n"
                 "end)\n"
                 "events:on('e', function(depth) calls = calls + 1 if depth % 7 == 0 then async.sleep(1) end end)\n"
                 "note(events:emit('e', 1)) note(calls)\n"
                 "note(select(2, pcall(function()\n"
                 "  events:clear()\n"
                 "  events:on('f', function() events:emit('f') end)\n"
                 "  return events:emit('f')\n"
                 "end)))\n",
                 "2;60;1;");
}

static void a_thousand_handlers_that_wait_do_not_grow_the_stack(void **state)
{
    (void)state;
    expect_notes("local over = 0\n"
                 "for i = 1, 1000 do events:on('e', function() async.sleep(1) over = over + 1 end) end\n"
                 "note(events:emit('e')) emit_host('e') async.sleep(10) note(over)\n",
                 "1000;2000;");
}

/* --- Memory ----------------------------------------------------------------------------------- */

static const char everything[] = "local function wait() async.sleep(2) note 'w' end\n"
                                 "local function ask() async.current() end\n"
                                 "local function spawn() async.run(async.sleep, 1) end\n"
                                 "local function fail() error('F', 0) end\n"
                                 "local kinds = { false, wait, ask, spawn, fail, wait }\n"
                                 "for i = 1, 6 do\n"
                                 "  local fn = kinds[i] or function() end\n"
                                 "  timer(3, fn) schedule(fn) events:on('e', fn)\n"
                                 "end\n"
                                 "events:once('e', function() note 'o' end)\n"
                                 "local t, left = game.loop.new_timer(), 8\n"
                                 "t:start(1, 1, function() left = left - 1 if left == 0 then t:close() end end)\n"
                                 "emit_host('e') events:emit('e') async.sleep(5) emit_host('e') async.sleep(5)\n"
                                 "note 'end'\n";

/* True if no allocation failed. */
static bool run_without_memory(int point, int profile)
{
    allowed = INT32_MAX;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ .profile = profile });
    static char all[8192];
    snprintf(all, sizeof all, "pcall(collectgarbage, 'stop')\n%s%s", prelude, everything);
    noted[0] = '\0';
    struct orr_task *task = start(L, all);
    ran_out = false;
    allowed = point;
    int error = orr_runtime_run(rt);
    bool lacking = ran_out;
    allowed = INT32_MAX;
    assert_int_equal(error, 0);
    error_of(rt, task);
    if (!lacking)
        assert_non_null(strstr(noted, "end;"));
    /* Callbacks go on as if nothing had happened. */
    noted[0] = '\0';
    run_code(rt, L,
             "events:clear() events:on('x', function() note 'x' end)\n"
             "timer(1, function() note(1) end) timer(1, function() note(2) end)\n"
             "async.sleep(2) schedule(note, 3) async.sleep(1) emit_host('x') events:emit('x') async.sleep(1)\n");
    if (strcmp(noted, "1;2;3;x;x;") != 0)
        fail_msg("after allocation %d has failed: %s", point, noted);
    finish(rt, L);
    if (allocated_bytes)
        fail_msg("%lld bytes are left when allocation %d fails", (long long)allocated_bytes, point);
    return !lacking;
}

static void one_failed_allocation_loses_nothing_else(void **state)
{
    (void)state;
    for (int profile = 0; profile < 2; profile++) {
        assert_true(run_without_memory(INT32_MAX, profile));
        int last = 0, step = WORK(100) == 100 ? 1 : 7;
        while (!run_without_memory(last, profile))
            last += step;
        print_message("about %d points of failure\n", last);
        assert_true(last > 50);
    }
}

/* --- At random -------------------------------------------------------------------------------- */

/*
 * A script that starts callbacks, which do things at random.  It checks that they begin in the
 * order in which they are due, once each, and not inside one another; and that all of them end.
 */
static const char random_script[] =
    "local state = seed\n"
    "local function random(n) state = (state * 1103515245 + 12345) %% 2147483648 return state // 65536 %% n + 1 end\n"
    "local expected, begun, started, ended, inside = {}, {}, 0, 0, false\n"
    "local act\n"
    "local function body(id)\n"
    "  return function()\n"
    "    assert(not inside, 'a callback began inside another') inside = true\n"
    "    begun[#begun + 1] = id\n"
    "    inside = false\n"
    "    act(random(12))\n"
    "    ended = ended + 1\n"
    "  end\n"
    "end\n"
    "local function start_timer(ms)\n"
    "  started = started + 1\n"
    "  expected[#expected + 1] = { at = now + ms, id = started }\n"
    "  timer(ms, body(started))\n"
    "end\n"
    "now = 0\n"
    "events:on('r', function(depth) inner = (inner or 0) + 1 if random(3) == 1 then async.sleep(1) end end)\n"
    "events:on('r', function(depth) if random(4) == 1 then async.current() end end)\n"
    "events:on('r', function(depth) if depth and depth < 5 and random(3) == 1 then events:emit('r', depth + 1) end "
    "end)\n"
    "function act(what)\n"
    "  if what == 1 then async.sleep(random(4))\n"
    "  elseif what == 2 then async.run(function() async.sleep(random(4)) end)\n"
    "  elseif what == 3 then async.await(async.run(function() async.sleep(random(3)) return 1 end))\n"
    "  elseif what == 4 then async.current()\n"
    "  elseif what == 5 then pcall(error, 'caught')\n"
    "  elseif what == 6 then pcall(async.await, async.run(function() async.sleep(1) error('child', 0) end))\n"
    "  elseif what == 7 then events:emit('r', 1)\n"
    "  elseif what == 8 then emit_host('r', 1)\n"
    "  elseif what == 9 then schedule(function() if random(2) == 1 then async.sleep(1) end end)\n"
    "  elseif what == 10 then local t = timer(random(3), function() lost = true end) t:close()\n"
    "  elseif what == 11 then local c = async.run(function() async.sleep(99) end) c:close()\n"
    "  elseif what == 12 then for i = 1, spin do local _ = i end end\n"
    "end\n"
    "for round = 1, 12 do\n"
    "  for i = 1, random(12) do start_timer(random(6)) end\n"
    "  for i = 1, 8 do async.sleep(1) now = now + 1 end\n"
    "end\n"
    "async.sleep(200)\n"
    "table.sort(expected, function(a, b) return a.at < b.at or a.at == b.at and a.id < b.id end)\n"
    "assert(#begun == #expected and ended == #begun, 'some callbacks have not begun or not ended')\n"
    "for i = 1, #begun do assert(begun[i] == expected[i].id, 'the order is wrong') end\n"
    "assert(not lost, 'a closed timer has fired')\n"
    "note 'fine'\n";

static void run_random(uint64_t seed, int profile, uint64_t slice_ns)
{
    struct orr_runtime *rt = open_runtime();
    struct orr_lua_options options = { .profile = profile, .slice_ns = slice_ns };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    lua_State *L = open_host(rt, options);
    char code[sizeof random_script + 64];
    int length = snprintf(code, sizeof code, "seed, spin = %u, %d\n", (unsigned)(seed & 0x7fffffff),
                          slice_ns ? 20000 : 10);
    snprintf(code + length, sizeof code - (size_t)length, random_script);
    noted[0] = sink_text[0] = '\0';
    run_code(rt, L, code);
    if (strcmp(noted, "fine;") != 0)
        fail_msg("seed %u, profile %d: %s %s", (unsigned)(seed & 0x7fffffff), profile, noted, sink_text);
    finish_counting(rt, L);
}

static void callbacks_of_all_kinds_mix_at_random(void **state)
{
    (void)state;
    uint64_t seed = harness_seed(19);
    for (unsigned i = 0; i < WORK(60); i++)
        run_random((seed << 12) + i * UINT64_C(2654435761), (int)(i % 2), i % 3 == 2 ? 100000 : 0);
}

/* The same, and the isolate is closed at each point. */
static void an_isolate_may_close_at_any_point(void **state)
{
    (void)state;
    uint64_t seed = harness_seed(19);
    for (unsigned turns = 0; turns < WORK(120); turns++) {
        struct orr_runtime *rt = open_runtime();
        lua_State *L = open_host(rt, (struct orr_lua_options){ .profile = turns % 2 });
        static char code[sizeof random_script + sizeof prelude + 64];
        int length = snprintf(code, sizeof code, "%sseed, spin = %u, 10\n", prelude,
                              (unsigned)((seed + turns) & 0x7fffffff));
        snprintf(code + length, sizeof code - (size_t)length, random_script);
        struct orr_task *task = start(L, code);
        for (unsigned i = 0; i < turns; i++)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
        orr_task_unref(task);
        orr_runtime_leave(rt);
        finish_counting(rt, L);
    }
}

/* --- Turns inside a poll ---------------------------------------------------------------------- */

/*
 * On the machine's clock, a callback that starts its timer again, or schedules itself again, runs
 * in turns that begin inside the poll of its runner.
 */
static struct orr_runtime *open_on_machine_clock(void)
{
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = failing_alloc });
    assert_non_null(rt);
    return rt;
}

/* Runs a script to its end in both profiles, on the machine's clock. */
static void expect_notes_of_turns(const char *code, const char *expected)
{
    for (int profile = 0; profile < 2; profile++) {
        struct orr_runtime *rt = open_on_machine_clock();
        lua_State *L = open_host(rt, (struct orr_lua_options){ .profile = profile });
        noted[0] = '\0';
        run_code(rt, L, code);
        assert_string_equal(noted, expected);
        finish_counting(rt, L);
    }
}

static void a_timer_that_starts_itself_again_needs_no_task_each_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_on_machine_clock();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    struct orr_stats before, after;
    run_code(rt, L, "");
    assert_int_equal(orr_runtime_stats(rt, 1, &before), 0);
    run_code(rt, L,
             "local t, n = game.loop.new_timer(), 0\n"
             "local function again() n = n + 1 if n < 1000 then t:start(0, 0, again) else t:close() end end\n"
             "t:start(0, 0, again)\n");
    assert_int_equal(orr_runtime_stats(rt, 1, &after), 0);
    assert_true(after.polls - before.polls >= 1000);
    assert_true(after.tasks_spawned - before.tasks_spawned < 1000); /* a runner serves turns */
    finish_counting(rt, L);
}

static void what_is_scheduled_in_a_callback_runs_behind_what_was_scheduled_before(void **state)
{
    (void)state;
    expect_notes_of_turns("schedule(function() note(1) schedule(function() note(3) end) end)\n"
                          "schedule(function() note(2) schedule(function() note(4) end) end)\n",
                          "1;2;3;4;");
}

static void a_turn_begins_no_more_callbacks_than_allowed(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_on_machine_clock();
    lua_State *L = open_host(rt, (struct orr_lua_options){ .schedule_per_turn = 4 });
    struct orr_stats before, after;
    run_code(rt, L, "");
    assert_int_equal(orr_runtime_stats(rt, 1, &before), 0);
    run_code(rt, L, "n = 0 for i = 1, 400 do schedule(function() n = n + 1 end) end");
    assert_int_equal(orr_runtime_stats(rt, 1, &after), 0);
    assert_true(after.turns - before.turns >= 100);
    run_code(rt, L, "note(n)");
    assert_string_equal(noted, "400;");
    finish_counting(rt, L);
}

static void a_task_that_a_callback_wakes_runs_before_the_next_turn(void **state)
{
    (void)state;
    expect_notes_of_turns("local set, t, n = async.event(), game.loop.new_timer(), 0\n"
                          "async.run(function() set:wait() note 'woken' end)\n"
                          "local function again()\n"
                          "  n = n + 1 note(n)\n"
                          "  if n == 3 then set:set() end\n"
                          "  if n < 5 then t:start(0, 0, again) else t:close() end\n"
                          "end\n"
                          "t:start(0, 0, again)\n",
                          "1;2;3;woken;4;5;");
}

static void a_callback_that_waits_in_such_a_turn_keeps_its_task(void **state)
{
    (void)state;
    expect_notes_of_turns("local t, n, tasks = game.loop.new_timer(), 0, {}\n"
                          "local function again()\n"
                          "  n = n + 1 local i = n\n"
                          "  if n < 6 then t:start(0, 0, again) else t:close() end\n"
                          "  if i % 2 == 0 then tasks[#tasks + 1] = async.current() async.sleep(20 + i) end\n"
                          "end\n"
                          "t:start(0, 0, again)\n"
                          "while n < 6 do async.sleep(1) end\n"
                          "note(#tasks) note(tasks[1] ~= tasks[2] and tasks[2] ~= tasks[3])\n"
                          "for _, task in ipairs(tasks) do async.await(task) end note(tasks[3]:status())\n",
                          "3;true;completed;");
}

static void timers_and_scheduled_callbacks_take_turns(void **state)
{
    (void)state;
    expect_notes_of_turns("local t, n, m = game.loop.new_timer(), 0, 0\n"
                          "local function fire() n = n + 1 if n < 200 then t:start(0, 0, fire) else t:close() end end\n"
                          "local function call() m = m + 1 if m < 200 then schedule(call) end end\n"
                          "t:start(0, 0, fire) schedule(call)\n"
                          "local apart = 0\n"
                          "while n < 200 or m < 200 do\n"
                          "  if n < 200 and m < 200 then apart = math.max(apart, math.abs(n - m)) end\n"
                          "  async.checkpoint()\n"
                          "end\n"
                          "note(apart < 100)\n",
                          "true;");
}

static int host_timer_calls;
static bool host_timer_in_lua;

static void host_timer_fires(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    (void)data;
    (void)status;
    host_timer_calls++;
    /* Inside a slice, the host could not make a call that may wait. */
    host_timer_in_lua |= orr_task_current() != NULL;
}

static struct orr_timer *overdue_timer;

/* make_due(): the host's timer is due since the clock's beginning. */
static int make_due(lua_State *L)
{
    if (orr_timer_start_at(overdue_timer, 1, 0))
        return luaL_error(L, "the timer was not started");
    return 0;
}

static void a_timer_of_the_host_fires_outside_lua(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_on_machine_clock();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "make_due", make_due);
    struct orr_timer_options options = { .fire = host_timer_fires };
    assert_int_equal(orr_timer_new(rt, &options, &overdue_timer), 0);
    host_timer_calls = 0;
    host_timer_in_lua = false;
    struct orr_task *task = start(L, "local t, n = game.loop.new_timer(), 0\n"
                                     "local function again()\n"
                                     "  n = n + 1 make_due()\n"
                                     "  if n < 1000 then t:start(0, 0, again) else t:close() end\n"
                                     "end\n"
                                     "t:start(0, 0, again)\n");
    assert_int_equal(orr_runtime_run(rt), 0); /* turns begin inside polls only there */
    orr_timer_free(overdue_timer);
    assert_true(host_timer_calls > 0);
    assert_false(host_timer_in_lua);
    error_of(rt, task);
    finish_counting(rt, L);
}

/* --- Failures and scripts --------------------------------------------------------------------- */

static struct orr_task *kept_task;

/* keep_task(): the host keeps the task that runs. */
static int keep_task(lua_State *L)
{
    (void)L;
    kept_task = orr_task_current();
    return 0;
}

/* fail_kept(): the host ends that task with an error. */
static int fail_kept(lua_State *L)
{
    (void)L;
    assert_int_equal(orr_task_complete(kept_task, (struct orr_result){ .error = -EIO }), 0);
    assert_int_equal(orr_task_drop(orr_task_waker(kept_task)), 0);
    return 0;
}

static void a_failure_reaches_its_parent_before_the_runner_makes_the_next_call(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "keep_task", keep_task);
    lua_register(L, "fail_kept", fail_kept);
    run_code(rt, L,
             "async.run({ detached = true }, function()\n"
             "  async.run(function() keep_task() async.sleep(100) end)\n"
             "  note('parent ' .. tostring(pcall(async.sleep, 50)))\n"
             "end)\n"
             "for i = 1, 3 do timer(5, function() note(i) if i == 1 then fail_kept() end end) end\n"
             "async.sleep(60)\n");
    assert_string_equal(noted, "1;parent false;2;3;");
    finish_counting(rt, L);
}

static struct orr_script *load_shared(struct orr_runtime *rt, lua_State *L, const char *text)
{
    struct orr_script_options options = { .source = { .name = "=script", .text = text }, .shared = L };
    struct orr_script *script;
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    return script;
}

static void unloading_a_script_skips_its_callbacks_and_no_others(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    static const char one_code[] = "for i = 1, 40 do game.schedule(function() note 'one' end) end\n"
                                   "game.loop.new_timer():start(0, 0, function() note 'one' end)\n"
                                   "game.events:on('e', function() note 'one' end)\n";
    static const char two_code[] = "for i = 1, 3 do game.schedule(function() note('two ' .. i) end) end\n"
                                   "game.loop.new_timer():start(0, 0, function() note 'timer of two' end)\n"
                                   "game.events:on('e', function() note 'event of two' end)\n";
    noted[0] = '\0';
    struct orr_script *one = load_shared(rt, L, one_code), *two = load_shared(rt, L, two_code);
    assert_true(orr_runtime_turn(rt, 1) >= 0); /* the bodies run; callbacks of both are queued */
    lua_pushnil(L);
    assert_int_equal(orr_events_emit(L, "e"), 0);
    noted[0] = '\0';
    assert_int_equal(orr_script_unload(one), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_null(strstr(noted, "one"));
    assert_non_null(strstr(noted, "two 1;two 2;two 3;"));
    assert_non_null(strstr(noted, "timer of two;"));
    assert_non_null(strstr(noted, "event of two;"));
    assert_int_equal(orr_script_unload(two), 0);
    finish_counting(rt, L);
}

/* Keeps the full report of a failure, with the chain of tasks. */
static void keep_report(void *data, struct orr_task *task)
{
    (void)data;
    assert_int_equal(orr_lua_push_report(state_of_host, task), 0);
    snprintf(sink_text, sizeof sink_text, "%s", lua_tostring(state_of_host, -1));
    lua_pop(state_of_host, 1);
}

static void the_report_of_a_failure_in_a_callback_names_its_tasks(void **state)
{
    (void)state;
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc, .sink = keep_report });
    assert_non_null(rt);
    lua_State *L = open_host(rt, (struct orr_lua_options){ 0 });
    run_code(rt, L,
             "events:on('opened', function()\n"
             "  async.run({ name = 'child' }, function() async.sleep(1) error 'BAD' end)\n"
             "end)\n"
             "timer(5, function() note 'before' end)\n"
             "timer(5, function() events:emit('opened') note 'emitted' end)\n"
             "timer(5, function() note 'behind' end)\n"
             "async.sleep(20)\n");
    assert_string_equal(noted, "before;emitted;behind;");
    assert_non_null(strstr(sink_text, "BAD"));
    const char *child = strstr(sink_text, "task 'child'");
    assert_non_null(child);
    assert_non_null(strstr(child, "task 'opened' failed because of it"));
    assert_null(strstr(sink_text, "timer"));
    finish_counting(rt, L);
}

static const struct CMUnitTest callbacks[] = {
    cmocka_unit_test(handlers_that_do_not_wait_need_no_tasks),
    cmocka_unit_test(timers_that_are_due_together_share_a_task),
    cmocka_unit_test(a_runner_at_rest_is_no_task),
    cmocka_unit_test(callbacks_and_tasks_run_in_the_order_of_their_deadlines),
    cmocka_unit_test(what_a_callback_makes_ready_comes_behind_those_that_are_due),
    cmocka_unit_test(what_a_callback_wakes_fails_behind_those_that_are_due),
    cmocka_unit_test(a_callback_that_waits_lets_the_others_go_on),
    cmocka_unit_test(each_callback_has_a_task_of_its_own_when_it_asks),
    cmocka_unit_test(a_child_belongs_to_the_callback_that_started_it),
    cmocka_unit_test(a_callback_that_fails_is_reported_and_the_others_run),
    cmocka_unit_test(a_waker_of_a_callback_does_not_name_the_next_one),
    cmocka_unit_test(a_mutex_that_a_callback_leaves_locked_is_not_the_next_ones),
    cmocka_unit_test(a_coroutine_of_a_callback_is_not_used_again),
    cmocka_unit_test(only_the_callback_that_spins_is_ended),
    cmocka_unit_test(the_limit_of_a_call_begins_with_it),
    cmocka_unit_test(callbacks_stay_atomic_when_the_slice_ends),
    cmocka_unit_test(callbacks_that_wait_count_as_tasks),
    cmocka_unit_test(closing_an_isolate_skips_callbacks_that_are_due),
    cmocka_unit_test(a_timer_may_be_closed_or_started_in_its_own_callback),
    cmocka_unit_test(a_handler_removed_by_an_earlier_one_is_not_called),
    cmocka_unit_test(an_emit_reaches_all_handlers_however_deep_it_is),
    cmocka_unit_test(a_thousand_handlers_that_wait_do_not_grow_the_stack),
    cmocka_unit_test(a_timer_that_starts_itself_again_needs_no_task_each_time),
    cmocka_unit_test(what_is_scheduled_in_a_callback_runs_behind_what_was_scheduled_before),
    cmocka_unit_test(a_turn_begins_no_more_callbacks_than_allowed),
    cmocka_unit_test(a_task_that_a_callback_wakes_runs_before_the_next_turn),
    cmocka_unit_test(a_callback_that_waits_in_such_a_turn_keeps_its_task),
    cmocka_unit_test(timers_and_scheduled_callbacks_take_turns),
    cmocka_unit_test(a_timer_of_the_host_fires_outside_lua),
    cmocka_unit_test(a_failure_reaches_its_parent_before_the_runner_makes_the_next_call),
    cmocka_unit_test(unloading_a_script_skips_its_callbacks_and_no_others),
    cmocka_unit_test(the_report_of_a_failure_in_a_callback_names_its_tasks),
    cmocka_unit_test(one_failed_allocation_loses_nothing_else),
    cmocka_unit_test(callbacks_of_all_kinds_mix_at_random),
    cmocka_unit_test(an_isolate_may_close_at_any_point),
};

HARNESS_MAIN(callbacks)
