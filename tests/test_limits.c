/*
 * Limits of time and memory: slices, deadlines, memory accounts.  The tests check who got a turn
 * and what came out, never how long it took.
 */
#include "lua_host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const char endless[] = "while true do end";

/* --- Slices ----------------------------------------------------------------------------------- */

static void host_goes_on_while_a_script_loops_without_end(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 400 * MS } });
    struct orr_task *task = start(L, endless);
    unsigned turns = turn_until_done(rt, task, MS);
    assert_true(turns >= 5);
    assert_true(runtime_stat(L, "preemptions") >= 5);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_int_equal(runtime_stat(L, "timeouts"), 1);
    finish(rt, L);
}

static void deadline_that_the_host_sets_later_ends_what_loops_without_end(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } });
    struct orr_task *task = start(L, endless);
    for (int i = 0; i < 3; i++)
        orr_runtime_turn(rt, MS);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_lua_set_deadline(task, 0), -EINVAL);
    assert_int_equal(orr_lua_set_deadline(NULL, MS), -EINVAL);
    assert_false(orr_task_done(task));
    assert_int_equal(orr_lua_set_deadline(task, MS), 0);
    assert_int_equal(orr_runtime_leave(rt), 0);
    turn_until_done(rt, task, MS);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_lua_set_deadline(task, MS), -ESRCH);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(error_of(rt, task), -ETIME);
    finish(rt, L);
}

static void other_isolates_run_meanwhile(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 200 * MS } });
    lua_State *other = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, endless);
    struct orr_task *quick = start(other, "for i = 1, 3 do game.async.sleep(1) note(i) end");
    turn_until_done(rt, quick, ORR_NEVER);
    assert_string_equal(noted, "1;2;3;");
    assert_int_equal(error_of(rt, quick), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_false(orr_task_done(task)); /* it still loops */
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_lua_close(other), 0);
    finish(rt, L);
}

static const char takes_long[] = "local n = 0 for i = 1, 3e6 do n = n + i end\n";

static void code_between_two_waits_is_not_interleaved(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    static const char code[] = "local a = game.async\n"
                               "local x, y, bad, rounds = 0, 0, 0, 0\n"
                               "local function work()\n"
                               "  for i = 1, 20 do\n"
                               "    if x ~= y then bad = bad + 1 end\n"
                               "    x = x + 1\n"
                               "    for j = 1, 20000 do local _ = {} end\n"
                               "    y = y + 1\n"
                               "    if x ~= y then bad = bad + 1 end\n"
                               "    rounds = rounds + 1\n"
                               "    if i % 3 == 0 then a.sleep(0) else a.checkpoint() end\n"
                               "  end\n"
                               "end\n"
                               "local tasks = {}\n"
                               "for i = 1, 8 do tasks[i] = a.run(work) end\n"
                               "local timer = game.loop.set_interval(0.1, function()\n"
                               "  if x ~= y then bad = bad + 1 end\n"
                               "end)\n"
                               "a.await_all(tasks) timer:close()\n"
                               "note(bad) note(rounds)";
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, MS / 2);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "0;160;");
    assert_true(runtime_stat(L, "preemptions") >= 20);
    finish(rt, L);
}

/* The first tick waits for the end of the slice, and ticks that come while it waits are skipped. */
static void a_repeating_timer_that_is_due_in_a_long_slice_fires_once_after_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    struct orr_task *task = start(L,
                                  "local loop, stats = game.loop, game.runtime.stats\n"
                                  "local once = loop.new_timer():start(0, 1e6, function() note 'first' end)\n"
                                  "local often\n"
                                  "often = loop.new_timer():start(0, 0.01, function() note 'often' often:close() end)\n"
                                  "local before = stats().preemptions\n"
                                  "repeat for i = 1, 1000 do end until stats().preemptions > before + 10\n"
                                  "note 'waits' game.async.sleep(1) once:close() note 'end'");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "waits;first;often;end;");
    finish(rt, L);
}

/* async.run returns when the task has reached its first wait, however long that takes. */
static void starting_a_task_that_uses_up_the_slice_suspends_the_starter(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    char code[1024];
    snprintf(code, sizeof code,
             "local a = game.async\n"
             "a.run(function() a.sleep(0) note 'other' end)\n"
             "local function long(depth)\n"
             "  if depth > 0 then a.run(long, depth - 1) note('after ' .. depth) end\n"
             "  %s note('done ' .. depth) a.sleep(1)\n"
             "end\n"
             "coroutine.wrap(function() a.run(long, 3) end)() note 'started'",
             takes_long);
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "done 0;after 1;done 1;after 2;done 2;after 3;done 3;started;other;");
    assert_true(runtime_stat(L, "preemptions") > 0);
    finish(rt, L);
}

static void fair_tasks_take_turns(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 2 });
    static const char code[] =
        "local a = game.async\n"
        "local counts, stop = {}, false\n"
        "for i = 1, 4 do\n"
        "  counts[i] = 0\n"
        "  a.run({ fair = true }, function() while not stop do counts[i] = counts[i] + 1 end end)\n"
        "end\n"
        "for i = 1, 3 do a.sleep(1) end\n"
        "while true do\n"
        "  local all = true\n"
        "  for i = 1, 4 do all = all and counts[i] > 0 end\n"
        "  if all then break end\n"
        "  a.checkpoint()\n"
        "end\n"
        "stop = true note 'all'";
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "all;");
    finish(rt, L);
}

static void call_into_an_isolate_in_mid_slice_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    char code[256];
    snprintf(code, sizeof code, "%s %s %s note 'done'", takes_long, takes_long, takes_long);
    struct orr_task *task = start(L, code);
    assert_int_equal(orr_runtime_turn(rt, MS / 10), 1);
    load(L, "return 7");
    int top = lua_gettop(L);
    assert_int_equal(orr_lua_call(L, 0, 1, 0), -EBUSY);
    assert_int_equal(orr_lua_is_held(L), 1);
    assert_int_equal(lua_gettop(L), top);
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(orr_lua_is_held(L), 0);
    assert_int_equal(orr_lua_call(L, 0, 1, 0), 0);
    assert_int_equal(lua_tointeger(L, -1), 7);
    lua_pop(L, 1);
    assert_int_equal(error_of(rt, task), 0);
    finish(rt, L);
}

static void isolate_is_closed_in_mid_slice(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    for (int turns = 1; turns < 12; turns++) {
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
        struct orr_task *task = start(L, "local a = game.async\n"
                                         "for i = 1, 3 do a.run(function() a.sleep(0) a.sleep(1000) end) end\n"
                                         "game.loop.set_interval(1, function() while true do end end)\n"
                                         "a.run(function() a.run(function() while true do end end) end)\n");
        for (int i = 0; i < turns; i++)
            assert_true(orr_runtime_turn(rt, MS / 10) >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
        orr_task_unref(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        assert_int_equal(orr_lua_close(L), 0);
        harness_settle(rt);
        assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    }
    finish(rt, NULL);
}

/* --- Deadlines -------------------------------------------------------------------------------- */

/* Each script tries to survive the error that ends it.  The isolate must be usable afterwards. */
static const char *const survivors[] = {
    "while true do pcall(function() while true do end end) end",
    "xpcall(function() while true do end end, function() while true do end end)",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "local f f = function() pcall(f) while true do pcall(f) end end f()",
    "coroutine.wrap(function() while true do pcall(error) end end)()",
    "local function nest(n) if n == 0 then while true do pcall(error) end end coroutine.wrap(nest)(n - 1) end nest(20)",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "table.sort({ 3, 2, 1 }, function() while true do pcall(error) end end)",
    "while true do pcall(table.sort, { 3, 2, 1 }, function() while true do end end) end",
    "return pcall(table.sort, { 3, 2, 1 }, function() while true do end end)",
    "local t = setmetatable({}, { __index = function() while true do end end }) while true do pcall(function() return "
    "t.x end) end",
    "local x <close> = setmetatable({}, { __close = function() while true do pcall(error) end end }) while true do end",
    "while true do local x <close> = setmetatable({}, { __close = function() while true do end end }) end",
    "for _ in function() return 1 end do end",
    "coroutine.wrap(function()\n"
    "  local x <close> = setmetatable({}, { __close = function() while true do end end })\n"
    "  table.sort({ 3, 2, 1 }, function() while true do end end)\n"
    "end)()",
    "local co = coroutine.create(function()\n"
    "  local x <close> = setmetatable({}, { __close = function() while true do end end })\n"
    "  table.sort({ 3, 2, 1 }, function() while true do end end)\n"
    "end)\n"
    "while true do pcall(coroutine.resume, co) pcall(coroutine.close, co) end",
    "string.gsub('aaa', '.', function() while true do end end)",
    "string.gsub('aaa', '.', function() xpcall(error, function() while true do end end) end)",
    "load(function() while true do end end)",
    "while true do load(function() return ' ' end) end",
    "print(setmetatable({}, { __tostring = function() while true do end end }))",
    /* The rest is for tasks only. */
    "error(setmetatable({}, { __tostring = function() while true do end end }))",
    "game.async.shield(function() while true do end end)",
    "game.async.supervise(function() while true do pcall(error) end end)",
    "game.async.scope(function() game.async.run(function() game.async.sleep(10) end) while true do end end)",
    "game.async.run(function() while true do pcall(error) end end)",
    "for i = 1, 1e9 do game.async.run(function() end) end",
    "game.async.await(function(done) while true do pcall(error) end end)",
};

static void nothing_survives_its_deadline(enum orr_lua_mode mode)
{
    struct orr_runtime *rt = host_runtime();
    for (size_t i = 0; i < LENGTH(survivors); i++) {
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .mode = mode,
                                          .deadline_ns = { [ORR_LUA_SCRIPT] = 20 * MS, [ORR_LUA_TASK] = 20 * MS },
                                          .max_instructions = 300000,
                                          .check_interval = 1000 });
        struct orr_task *task = start(L, survivors[i]);
        turn_until_done(rt, task, 4 * MS);
        int error = error_of(rt, task);
        if (error != -ETIME)
            fail_msg("survivor %zu ended with %d, %s", i, error, sink_text);
        noted[0] = '\0';
        task = start(L, "local a = game.async\n"
                        "for i = 1, 3 do a.sleep(1) note(i) end\n"
                        "note(coroutine.wrap(function() return pcall(error, 'x') end)())");
        turn_until_done(rt, task, 4 * MS);
        assert_int_equal(error_of(rt, task), 0);
        assert_string_equal(noted, "1;2;3;false;");
        assert_int_equal(orr_lua_close(L), 0);
        harness_settle(rt);
        assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    }
    finish(rt, NULL);
}

static void nothing_survives_its_deadline_by_the_clock(void **state)
{
    (void)state;
    nothing_survives_its_deadline(ORR_LUA_SIGNAL);
}

static void nothing_survives_its_limit_of_instructions(void **state)
{
    (void)state;
    nothing_survives_its_deadline(ORR_LUA_COUNT);
}

static void errors_of_calls_from_the_host_have_hints(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    static const struct orr_lua_options modes[] = { { 0 }, { .mode = ORR_LUA_COUNT } };
    for (size_t i = 0; i < LENGTH(modes); i++) {
        lua_State *L = open_trusted(rt, modes[i]);
        load(L, "game.async.spawn()");
        assert_int_equal(orr_lua_call(L, 0, 0, 0), -EREMOTEIO);
        assert_non_null(strstr(lua_tostring(L, -1), "; async has no 'spawn': write async.run(fn)"));
        lua_pop(L, 1);
        assert_int_equal(orr_lua_close(L), 0);
    }
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void calls_from_the_host_are_ended_at_their_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    for (size_t i = 0; i < LENGTH(survivors) - 7; i++) {
        int top = lua_gettop(L);
        load(L, survivors[i]);
        int error = orr_lua_call(L, 0, 0, 10 * MS);
        if (error != -ETIME)
            fail_msg("survivor %zu ended with %d, %s", i, error, lua_tostring(L, -1));
        assert_string_equal(lua_tostring(L, -1), "Script execution timeout");
        lua_pop(L, 1);
        assert_int_equal(lua_gettop(L), top);
        load(L, "local a, b = ... note(a) return b, nil, a");
        lua_pushinteger(L, 1);
        lua_pushinteger(L, 2);
        assert_int_equal(orr_lua_call(L, 2, LUA_MULTRET, 0), 0);
        assert_int_equal(lua_gettop(L), top + 3);
        assert_int_equal(lua_tointeger(L, -3), 2);
        lua_settop(L, top);
    }
    assert_int_equal(notices[ORR_LUA_TIMED_OUT], LENGTH(survivors) - 7);
    load(L, "error { 5 }");
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -EREMOTEIO);
    assert_true(lua_istable(L, -1));
    lua_pop(L, 1);
    load(L, "coroutine.yield()");
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -EREMOTEIO);
    lua_pop(L, 1);
    load(L, "game.async.sleep(1)");
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -EREMOTEIO);
    assert_non_null(strstr(lua_tostring(L, -1), "not inside a task"));
    lua_pop(L, 1);
    load(L, "return game.async.run(function() game.async.sleep(1) note 'ran' end)");
    noted[0] = '\0';
    assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "ran;");
    assert_int_equal(orr_lua_call(NULL, 0, 0, 0), -EINVAL);
    assert_int_equal(orr_lua_call(L, 1000, 0, 0), -EINVAL);
    finish(rt, L);
}

/* Calls a function that does nothing, so often that calls take the short way. */
static void call_often(lua_State *L)
{
    load(L, "return ...");
    for (int i = 0; i < 200; i++) {
        lua_pushvalue(L, -1);
        lua_pushinteger(L, i);
        assert_int_equal(orr_lua_call(L, 1, 1, 0), 0);
        assert_int_equal(lua_tointeger(L, -1), i);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void expect_call(lua_State *L, const char *code, int error)
{
    int top = lua_gettop(L);
    load(L, code);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), error);
    assert_int_equal(lua_gettop(L), top + (error != 0));
    if (error == -ETIME)
        assert_string_equal(lua_tostring(L, -1), "Script execution timeout");
    lua_settop(L, top);
}

static void call_after_many_short_ones_is_ended_at_its_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .deadline_ns[ORR_LUA_CALL] = 20 * MS });
    lua_register(L, "call_back", host_call_back);
    for (int round = 0; round < 3; round++) {
        call_often(L);
        expect_call(L, "while true do end", -ETIME);
        call_often(L);
        expect_call(L, "call_back(function() while true do end end)", -ETIME);
        call_often(L);
        expect_call(L, "error('x')", -EREMOTEIO);
        call_often(L);
        expect_call(L, "assert(call_back(function() error('y') end) ~= 0)", 0);
        expect_call(L, "kept = coroutine.running() note(game.async.current() == nil)", 0);
    }
    assert_string_equal(noted, "true;true;true;");
    finish(rt, L);
}

static lua_State *called_inside;

static int call_inside(lua_State *L)
{
    (void)L;
    expect_call(called_inside, "for i = 1, 1000 do end", 0);
    return 0;
}

static void isolate_that_was_called_inside_another_is_called_alone_later(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    struct orr_lua_options options = { .deadline_ns[ORR_LUA_CALL] = 20 * MS };
    lua_State *outer = open_isolate(rt, options), *L = open_isolate(rt, options);
    lua_register(outer, "call_inside", call_inside);
    called_inside = L;
    call_often(L);
    call_often(outer);
    expect_call(outer, "call_inside()", 0);
    assert_int_equal(orr_lua_close(outer), 0);
    call_often(L);
    expect_call(L, "while true do end", -ETIME);
    expect_call(L, "game.events:emit('x')", 0);
    call_often(L);
    finish(rt, L);
}

/* A nested call has no more time than is left of the outer call's. */
static void nested_limits_all_hold(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "call_back", host_call_back);
    /* The inner call has no limit of its own.  The outer limit ends both. */
    load(L, "note(call_back(function() while true do end end)) note 'alive'");
    assert_int_equal(orr_lua_call(L, 0, 0, 20 * MS), -ETIME);
    assert_string_equal(noted, "");
    lua_pop(L, 1);
    /* A task started inside another has its own deadline; its end leaves the other task alone. */
    struct orr_task *task = start(L, "local a = game.async\n"
                                     "local t = a.run({ deadline = 10 }, function() while true do end end)\n"
                                     "note(select(2, pcall(a.await, t))) note(game.runtime.stats().timeouts)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "Script execution timeout;3;");
    finish(rt, L);
}

static void waiting_resets_the_deadline_of_a_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(
        rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = 100000, .check_interval = 1000 });
    struct orr_task *task = start(
        L, "local limit = game.runtime.execution_limit\n"
           "local most = 0\n"
           "for i = 1, 20 do\n"
           "  for j = 1, 30000 do local _ = j end\n"
           "  most = math.max(most, game.runtime.instructions_used)\n"
           "  game.async.checkpoint()\n"
           "end\n"
           "note(limit) note(most > 20000 and most < limit) note(game.runtime.instructions_used)");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "100000;true;0;");
    finish(rt, L);
}

static void count_of_instructions_is_the_same_each_time(void **state)
{
    (void)state;
    char first[64] = "";
    for (int i = 0; i < 3; i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = 54321 });
        struct orr_task *task = start(L, "n = 0 while true do n = n + 1 end");
        turn_until_done(rt, task, ORR_NEVER);
        assert_int_equal(error_of(rt, task), -ETIME);
        lua_getglobal(L, "n");
        snprintf(noted, sizeof noted, "%lld", lua_tointeger(L, -1));
        lua_pop(L, 1);
        if (i)
            assert_string_equal(noted, first);
        snprintf(first, sizeof first, "%.60s", noted);
        finish(rt, L);
    }
    assert_true(atoi(first) > 54321 / 8 && atoi(first) < 54321);
}

static void coroutines_do_not_escape_the_count(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT });
    struct orr_task *task = start(L, "while true do coroutine.wrap(function() for i = 1, 2000 do end end)() end");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    finish(rt, L);
}

static void few_instructions_that_take_long_are_interrupted_where_they_are_counted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(
        rt, (struct orr_lua_options){
                .mode = ORR_LUA_COUNT, .max_instructions = ORR_NEVER, .check_interval = 1000000, .slice_ns = MS / 10 });
    struct orr_task *task = start(L, "local s, began, n = ('x'):rep(2000000), os.clock(), 0\n"
                                     "repeat n = n + 1 local t = s .. n until os.clock() - began > 0.05");
    assert_true(turn_until_done(rt, task, MS) >= 10);
    assert_int_equal(error_of(rt, task), 0);
    finish(rt, L);
}

static void scripts_without_limits_are_not_interrupted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(
        rt, (struct orr_lua_options){ .mode = ORR_LUA_OFF, .deadline_ns = { [ORR_LUA_SCRIPT] = MS } });
    struct orr_task *task = start(L, takes_long);
    assert_int_equal(turn_until_done(rt, task, MS / 10), 1);
    assert_int_equal(error_of(rt, task), 0);
    finish(rt, L);
}

static void scripts_deadlines_are_no_longer_than_the_hosts(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L;
    assert_int_equal(
        orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game", .deadline_ns = { [ORR_LUA_TASK] = 20 * MS } }, &L),
        0);
    lua_register(L, "note", host_note);
    struct orr_task *task = start(L, "note(pcall(game.async.run, { deadline = 0 }, print))\n"
                                     "note(pcall(game.async.run, { deadline = 'x' }, print))\n"
                                     "game.async.run({ deadline = 1e6 }, function() while true do end end)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_string_equal(noted, "false;false;");
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_non_null(strstr(orr_task_result(task)->message, "the limit is 20 ms"));
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(error_of(rt, task), -ETIME);
    finish(rt, L);
}

static void scheduled_callbacks_have_a_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCHEDULED] = 5 * MS } });
    struct orr_task *task = start(L, "game.schedule(function() while true do end end)\n"
                                     "game.schedule(function() note 'next' end)\n"
                                     "while game.runtime.stats().timeouts == 0 do game.async.sleep(1) end");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "next;");
    assert_non_null(strstr(notice_text, "the scheduled callback has run for"));
    finish(rt, L);
}

static void compiling_has_a_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = MS } });
    enum { PIECES = 1 << 20 };
    char *text = malloc(4 * PIECES + 1);
    for (int i = 0; i < PIECES; i++)
        memcpy(text + 4 * i, "x=1 ", 4);
    text[4 * PIECES] = '\0';
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ .text = text }), -EPROTO);
    assert_non_null(strstr(lua_tostring(L, -1), "Script execution timeout"));
    lua_pop(L, 1);
    free(text);
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ .text = "return 1" }), 0);
    lua_pop(L, 1);
    finish(rt, L);
}

static void trusted_scripts_may_have_patterns_that_can_be_interrupted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(
        rt, (struct orr_lua_options){ .safe_patterns = true, .deadline_ns = { [ORR_LUA_SCRIPT] = 200 * MS } });
    struct orr_task *task = start(L, "return (('a'):rep(5000)):find(('.-'):rep(8) .. 'b')");
    unsigned turns = turn_until_done(rt, task, MS);
    assert_true(turns >= 5);
    assert_int_equal(error_of(rt, task), -ETIME);
    finish(rt, L);
}

/* --- Handlers --------------------------------------------------------------------------------- */

static void handler_that_times_out_thrice_is_disabled(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_TIMER] = 5 * MS } });
    struct orr_task *task = start(
        L, "local calls = 0\n"
           "local timer = game.loop.new_timer()\n"
           "local function bad() calls = calls + 1 if calls ~= 2 then while true do end end end\n"
           "timer:start(1, 1, bad)\n"
           "while timer:is_active() do game.async.sleep(1) end\n"
           "note(calls) calls = 1\n"
           "timer:start(1, 1, bad)\n" /* it may be started again */
           "while calls < 2 do game.async.sleep(1) end\n"
           "timer:close() note 'again'");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "5;again;"); /* one timeout, a success, three timeouts in a row */
    assert_int_equal(notices[ORR_LUA_DISABLED], 1);
    assert_int_equal(notices[ORR_LUA_TIMED_OUT], 4);
    finish(rt, L);
}

static void host_chooses_how_often_a_handler_may_time_out(void **state)
{
    (void)state;
    static const struct {
        unsigned strikes, disabled;
        const char *calls;
    } cases[] = { { 1, 1, "1;" }, { UINT_MAX, 0, "1;2;3;4;" } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .strikes = cases[i].strikes, .deadline_ns = { [ORR_LUA_HANDLER] = 5 * MS } });
        load(L, "game.events:on('x', function(n) note(n) while true do end end)");
        assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
        for (int n = 1; n <= 4; n++) {
            lua_pushinteger(L, n);
            assert_int_equal(orr_events_emit(L, "x"), 0);
            assert_int_equal(orr_runtime_run(rt), 0);
        }
        assert_string_equal(noted, cases[i].calls);
        assert_int_equal(notices[ORR_LUA_DISABLED], cases[i].disabled);
        finish(rt, L);
    }
}

static void emit(lua_State *L, const char *name, int value, int expected)
{
    lua_pushinteger(L, value);
    assert_int_equal(orr_events_emit(L, name), expected);
}

static void events_of_the_host_keep_their_order_while_a_handler_is_suspended(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    char code[512];
    snprintf(code, sizeof code,
             "game.events:on('a', function(n) note('a' .. n) if n == 1 then %s end note 'end' end)\n"
             "game.events:on('*', function(n) note('*' .. n) end)",
             takes_long);
    load(L, code);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
    emit(L, "a", 1, 0);
    assert_int_equal(orr_runtime_turn(rt, MS / 10), 1);
    emit(L, "a", 2, 0);
    emit(L, "b", 3, 0);
    assert_int_equal(orr_runtime_turn(rt, MS / 10), 1);
    emit(L, "a", 4, 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "a1;end;*1;a2;end;*2;*3;a4;end;*4;");
    finish(rt, L);
}

static void full_event_queue_applies_the_policy(void **state)
{
    (void)state;
    static const struct {
        enum orr_events_policy policy;
        int fourth;
        const char *seen;
    } cases[] = {
        { ORR_EVENTS_REFUSE, -ENOBUFS, "x1;y2;x3;" },
        { ORR_EVENTS_DROP_OLDEST, 0, "y2;x3;y4;" },
        { ORR_EVENTS_COALESCE, 0, "x1;y4;x3;" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .slice_ns = MS / 10, .events_limit = 3, .events_policy = cases[i].policy });
        char code[512];
        snprintf(code, sizeof code,
                 "for _, name in ipairs { 'x', 'y' } do\n"
                 "  game.events:on(name, function(n) note(name .. n) end)\n"
                 "end\n"
                 "game.async.sleep(0) %s",
                 takes_long);
        struct orr_task *task = start(L, code);
        while (runtime_stat(L, "preemptions") == 0)
            orr_runtime_turn(rt, MS / 10);
        emit(L, "x", 1, 0);
        emit(L, "y", 2, 0);
        emit(L, "x", 3, 0);
        emit(L, "y", 4, cases[i].fourth);
        if (cases[i].policy == ORR_EVENTS_COALESCE)
            emit(L, "z", 5, -ENOBUFS);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_string_equal(noted, cases[i].seen);
        assert_int_equal(error_of(rt, task), 0);
        finish(rt, L);
    }
}

static void handlers_of_events_are_disabled_and_enabled(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_HANDLER] = 5 * MS } });
    load(L, "game.events:on('x', function(n) note(n) while true do end end)\n"
            "return game.events:on('x', function() end)");
    assert_int_equal(orr_lua_call(L, 0, 1, 0), 0);
    lua_Integer id = lua_tointeger(L, -1) - 1;
    lua_pop(L, 1);
    for (int i = 1; i <= 5; i++) {
        emit(L, "x", i, 0);
        assert_int_equal(orr_runtime_run(rt), 0);
    }
    assert_string_equal(noted, "1;2;3;");
    assert_int_equal(notices[ORR_LUA_DISABLED], 1);
    assert_int_equal(disabled_handler, id);
    assert_non_null(strstr(notice_text, "of the event 'x' has timed out 3 times in a row"));
    assert_int_equal(orr_events_disabled(L), 0); /* it can be asked only inside the notice */
    assert_int_equal(orr_events_enable(L, id), 0);
    assert_int_equal(orr_events_enable(L, 999), -ENOENT);
    emit(L, "x", 6, 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "1;2;3;6;");
    assert_int_equal(orr_events_reserve(L, "window:*"), 0);
    load(L, "game.events:emit('window:open')");
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -EREMOTEIO);
    assert_non_null(strstr(lua_tostring(L, -1), "only the host may emit 'window:open'"));
    lua_pop(L, 1);
    emit(L, "window:open", 1, 0);
    emit(L, "a*", 1, -EINVAL);
    emit(L, "", 1, -EINVAL);
    lua_settop(L, 0);
    assert_int_equal(orr_events_emit(L, "x"), -EINVAL);
    assert_int_equal(orr_events_emit(NULL, "x"), -EINVAL);
    finish(rt, L);
}

/* --- The report ------------------------------------------------------------------------------- */

/* dawdle(ms): uses this much CPU time of the thread. */
static int dawdle(lua_State *L)
{
    struct timespec begun, now;
    lua_Integer ms = lua_tointeger(L, 1), passed = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    while (passed < ms) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        passed = (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
    }
    return 0;
}

static void report_says_what_took_the_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 20 * MS } });
    load(L, "local function spin()\n  while true do end\nend\nspin()");
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    static const char *const parts[] = { "Script execution timeout: the script 'script' has run for",
                                         "the limit is 20 ms",
                                         "it was at script:2, in function 'spin'",
                                         "checkpoint",
                                         "stack traceback:",
                                         "script:4: in main chunk" };
    for (size_t i = 0; i < LENGTH(parts); i++)
        if (!strstr(notice_text, parts[i]))
            fail_msg("no \"%s\" in: %s", parts[i], notice_text);

    lua_register(L, "dawdle", dawdle);
    load(L, "dawdle(60)\nlocal x = 1\nwhile true do x = x + 1 end");
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    if (!strstr(notice_text, "time went into 'dawdle', a C function, for"))
        fail_msg("%s", notice_text);
    finish(rt, L);
}

/* --- Memory ----------------------------------------------------------------------------------- */

static void script_over_its_memory_limit_gets_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .memory_limit = 4 << 20, .memory_soft = 1 << 20 });
    struct orr_task *task = start(L,
                                  "note(game.runtime.memory_limit)\n"
                                  "local ok, e = pcall(function() local t = {} while true do t[#t + 1] = {} end end)\n"
                                  "note(e)\n"
                                  "ok, e = pcall(function() local s = 'x' while true do s = s .. s end end)\n"
                                  "note(e) ok, e = pcall(string.rep, 'x', 1e9) note(e)\n"
                                  "collectgarbage() note(game.runtime.memory_used < 1 << 20)\n"
                                  "local t = {} for i = 1, 1e4 do t[i] = {} end note(#t)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "4194304;not enough memory;not enough memory;not enough memory;true;10000;");
    assert_int_equal(notices[ORR_LUA_MEMORY_SOFT] >= 1, 1);
    finish(rt, L);
}

static void memory_error_that_was_caught_is_not_raised_again(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .memory_limit = 8 << 20 });
    struct orr_task *task = start(L, "local hold, s = {}, ('x'):rep(1 << 20)\n"
                                     "local function fill() while true do hold[#hold + 1] = s .. #hold end end\n"
                                     "local _, e = pcall(fill) note(e)\n"
                                     "local t = {} for i = 1, 100 do t[i] = {} end note(#t)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "not enough memory;100;");
    finish(rt, L);
}

/* The task is suspended while the collector works, and others run meanwhile. */
static void fair_task_is_told_of_its_memory_limit_too(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    struct orr_lua_options options = {
        .memory_limit = 16 << 20,
        .deadline_ns = { [ORR_LUA_TASK] = ORR_NEVER, [ORR_LUA_SCRIPT] = ORR_NEVER },
        .longest_step_ns = ORR_NEVER, /* sanitizers make steps long */
    };
    lua_State *L = open_isolate(rt, options);
    struct orr_task *task = start(L, "local function fill() local all while true do all = { all } end end\n"
                                     "game.async.run({ fair = true }, function()\n"
                                     "  local _, e = pcall(fill) note(e)\n"
                                     "end)");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "not enough memory;");
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    assert_in_range(stats.memory_peak, 16 << 20, 20 << 20);
    finish(rt, L);
}

/* The coroutine that exceeds the limit ends before its next instruction. */
static void counting_goes_on_after_a_coroutine_has_met_the_memory_limit(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    struct orr_lua_options options = {
        .mode = ORR_LUA_COUNT,
        .max_instructions = ORR_NEVER,
        .slice_ns = 20 * MS,
        .memory_limit = 64 << 20,
    };
    lua_State *L = open_trusted(rt, options);
    struct orr_task *task = start(L,
                                  "local a, all = game.async, nil\n"
                                  "while game.runtime.memory_used < 60 << 20 do all = { all } end\n"
                                  "pcall(function() local s = coroutine.wrap(string.rep)('x', 8 << 20) note(#s) end)\n"
                                  "all = nil collectgarbage()\n"
                                  "local before = game.runtime.stats().preemptions\n"
                                  "for _ = 1, 100 do a.sleep(0) collectgarbage 'step' end\n"
                                  "note(game.runtime.stats().preemptions - before < 50)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "true;");
    finish(rt, L);
}

/* Such a call must not need a whole collection in one piece. */
static void host_can_call_a_script_that_is_at_its_memory_limit(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    struct orr_lua_options options = {
        .memory_limit = 8 << 20,
        .deadline_ns = { [ORR_LUA_TASK] = ORR_NEVER, [ORR_LUA_SCRIPT] = ORR_NEVER },
        .longest_step_ns = ORR_NEVER, /* sanitizers make steps long */
    };
    lua_State *L = open_isolate(rt, options);
    struct orr_task *task = start(L, "local last\n"
                                     "function keep(text) last = text end\n"
                                     "local function fill() local all for _ = 1, 1e6 do all = { all } end end\n"
                                     "game.async.run({ fair = true }, function()\n"
                                     "  for _ = 1, 5 do pcall(fill) end\n"
                                     "end)");
    static char text[1000];
    memset(text, 'x', sizeof text);
    struct orr_value argument = { .type = ORR_STRING, .string = { text, sizeof text } };
    unsigned at_limit = 0;
    for (bool done = false; !done;) {
        orr_runtime_turn(rt, MS);
        struct orr_lua_stats stats;
        assert_int_equal(orr_lua_stats(L, &stats), 0);
        at_limit += stats.memory_used > 8 << 20;
        int error = orr_lua_call_values(L, "keep", &argument, 1, NULL, NULL, 0);
        /* The called function may get the error at its first instruction. */
        assert_int_not_equal(error, -ENOMEM);
        assert_int_equal(orr_runtime_enter(rt), 0);
        done = orr_task_done(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
    }
    assert_true(at_limit > 0);
    assert_int_equal(error_of(rt, task), 0);
    finish(rt, L);
}

/* Takes two milliseconds to free 100 KB. */
static void *free_slowly(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    if (size)
        return realloc(block, size);
    struct timespec now, end = { 0 };
    if (block && old_size > 100 << 10)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    end.tv_nsec += 2000000;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
    free(block);
    return NULL;
}

/* One step of the collector could free them all. */
static void large_blocks_are_freed_one_by_one(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = free_slowly });
    lua_State *L = open_isolate(
        rt, (struct orr_lua_options){ .memory_limit = 16 << 20, .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } });
    struct orr_task *task = start(L, "for i = 1, 4 do\n"
                                     "  local all = {}\n"
                                     "  for j = 1, 50 do all[j] = ('x'):rep(200000) .. j end\n"
                                     "end\n"
                                     "note 'done'");
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "done;");
    assert_int_equal(notices[ORR_LUA_ENDED], 0);
    finish(rt, L);
}

static void strings_have_a_longest_length(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .longest_string = 1 << 20 });
    struct orr_task *task = start(L, "local s = ('x'):rep(1 << 20) note(#s)\n"
                                     "note(select(2, pcall(function() return s .. s end)))\n"
                                     "note(#(s:sub(1, -2) .. 'y'))");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "1048576;script:2: string too long: 2097152 bytes, and may have 1048576;1048576;");
    finish(rt, L);
}

static void unused_time_of_a_turn_is_used_to_collect(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    load(L, "collectgarbage('setpause', 1000) collectgarbage()\n"
            "for i = 1, 10000 do local _ = { i } end");
    assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
    struct orr_lua_stats before, after;
    assert_int_equal(orr_lua_stats(L, &before), 0);
    int more;
    while ((more = orr_runtime_idle(rt, MS)) == 1)
        ;
    assert_int_equal(more, 0);
    assert_int_equal(orr_lua_stats(L, &after), 0);
    assert_true(after.memory_used + (1 << 19) < before.memory_used);
    assert_int_equal(orr_runtime_idle(rt, MS), 0); /* nothing is left to do */
    assert_int_equal(orr_runtime_idle(NULL, MS), -EINVAL);
    finish(rt, L);
}

/* --- Hooks and signals of others -------------------------------------------------------------- */

static void hooks_of_a_script_see_the_same_events_with_slices(void **state)
{
    (void)state;
    static const char code[] = "local lines, calls, returns = 0, 0, 0\n"
                               "debug.sethook(function(event)\n"
                               "  if event == 'line' then lines = lines + 1\n"
                               "  elseif event == 'return' then returns = returns + 1\n"
                               "  else calls = calls + 1 end\n"
                               "end, 'lcr')\n"
                               "local function f(n)\n"
                               "  local t = {}\n"
                               "  for i = 1, n do\n"
                               "    t[i] = i\n"
                               "  end\n"
                               "  return #t\n"
                               "end\n"
                               "local sum = 0\n"
                               "for i = 1, 3000 do\n"
                               "  sum = sum + f(i % 20) + math.abs(-1)\n"
                               "  assert(debug.gethook() ~= 'external hook')\n"
                               "end\n"
                               "debug.sethook()\n"
                               "note(lines) note(calls) note(returns) note(sum)";
    char expected[256] = "";
    for (int i = 0; i < 4; i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .mode = i ? ORR_LUA_SIGNAL : ORR_LUA_OFF, .slice_ns = MS / 10 });
        struct orr_task *task = start(L, code);
        turn_until_done(rt, task, ORR_NEVER);
        expect_success(rt, task);
        if (i) {
            assert_string_equal(noted, expected);
            assert_true(runtime_stat(L, "preemptions") > 5);
        }
        snprintf(expected, sizeof expected, "%.250s", noted);
        finish(rt, L);
    }
}

static volatile sig_atomic_t strangers;

static void count_stranger(int number)
{
    (void)number;
    strangers++;
}

static void host_may_use_the_same_signal(void **state)
{
    (void)state;
    int number = SIGRTMIN + 9;
    strangers = 0;
    signal(number, count_stranger); /* before our handler is set */
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .preempt_signal = number });
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 30 * MS } });
    struct orr_task *task = start(L, endless);
    assert_true(orr_runtime_turn(rt, MS) >= 0);
    raise(number);
    assert_int_equal(strangers, 1);
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    raise(number);
    assert_int_equal(strangers, 2);
    signal(number, count_stranger); /* after our handler was set */
    task = start(L, endless);
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    int before = strangers; /* one may have arrived together with ours, between two turns */
    raise(number);
    assert_int_equal(strangers, before + 1);
    assert_non_null(strstr(harness_log(), "another handler was installed"));
    finish(rt, L);
}

struct moved {
    struct orr_runtime *rt;
    struct orr_task *task;
    unsigned turns;
};

static void turn_elsewhere(void *data)
{
    struct moved *moved = data;
    moved->turns += turn_until_done(moved->rt, moved->task, MS);
}

static void worker_may_move_from_thread_to_thread(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 200 * MS } });
    for (int i = 0; i < 4; i++) {
        struct moved moved = { .rt = rt, .task = start(L, endless) };
        for (int j = 0; j < 3; j++)
            assert_true(orr_runtime_turn(rt, MS) >= 0);
        harness_on_thread(turn_elsewhere, &moved);
        assert_true(moved.turns >= 2);
        assert_int_equal(error_of(rt, moved.task), -ETIME);
    }
    finish(rt, L);
}

/* --- The stack of the signal ------------------------------------------------------------------ */

static char *volatile handler_frame; /* where the handler's stack is */

static void note_frame(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    handler_frame = __builtin_frame_address(0);
}

struct signalled {
    struct orr_runtime *rt;
    lua_State *L;
    stack_t own, found; /* the alternate stack of the thread before and after its turns */
};

/* Drives a script that is interrupted, then asks what stack a signal would have. */
static void drive_and_look(void *data)
{
    struct signalled *signalled = data;
    if (signalled->own.ss_sp)
        assert_int_equal(sigaltstack(&signalled->own, NULL), 0);
    struct orr_task *task = start(signalled->L, endless);
    turn_until_done(signalled->rt, task, MS);
    assert_int_equal(error_of(signalled->rt, task), -ETIME);
    assert_int_equal(sigaltstack(NULL, &signalled->found), 0);
    handler_frame = NULL;
    raise(SIGRTMIN + 10);
    if (signalled->own.ss_sp)
        sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
}

static void drive_on_thread(struct signalled *signalled)
{
    struct sigaction action = { .sa_sigaction = note_frame, .sa_flags = SA_SIGINFO };
    sigaction(SIGRTMIN + 10, &action, NULL); /* our handler passes the signal on to it */
    signalled->rt = host_runtime_with((struct orr_options){ .preempt_signal = SIGRTMIN + 10 });
    signalled->L = open_trusted(signalled->rt,
                                (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 10 * MS } });
    harness_on_thread(drive_and_look, signalled);
    finish(signalled->rt, signalled->L);
    signal(SIGRTMIN + 10, SIG_DFL);
}

static bool is_inside(const stack_t *stack, const char *address)
{
    const char *begin = stack->ss_sp;
    return address >= begin && address < begin + stack->ss_size;
}

static void a_thread_without_an_alternate_stack_gets_one_until_it_ends(void **state)
{
    (void)state;
    struct signalled signalled = { 0 };
    drive_on_thread(&signalled);
    assert_int_equal(signalled.found.ss_flags & SS_DISABLE, 0);
    assert_true(is_inside(&signalled.found, handler_frame));
    assert_int_equal(msync(signalled.found.ss_sp, 4096, MS_ASYNC), -1); /* unmapped */
    assert_int_equal(errno, ENOMEM);
}

static void a_thread_keeps_the_alternate_stack_that_it_has(void **state)
{
    (void)state;
    static char stack[1 << 17];
    struct signalled signalled = { .own = { .ss_sp = stack, .ss_size = sizeof stack } };
    drive_on_thread(&signalled);
    assert_ptr_equal(signalled.found.ss_sp, stack);
    assert_true(is_inside(&signalled.found, handler_frame));
}

/* --- Ordinary programs ------------------------------------------------------------------------ */

/*
 * Programs that are interrupted ten thousand times a second give the same results as undisturbed.
 */
static const char ordinary[] = "local programs = dofile(os.getenv 'ORR_ORDINARY')\n"
                               "local results = {}\n"
                               "for round = 1, ... do\n"
                               "  for i, program in ipairs(programs) do\n"
                               "    local result = program[1] .. '=' .. program[2]()\n"
                               "    assert(round == 1 or results[i] == result, program[1])\n"
                               "    results[i] = result\n"
                               "  end\n"
                               "end\n"
                               "note(table.concat(results, ' '))";

static void ordinary_programs_give_the_same_results_when_interrupted_often(void **state)
{
    (void)state;
    char expected[sizeof noted] = "";
    for (int i = 0; i < 3; i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(rt, (struct orr_lua_options){
                                            .mode = i == 0   ? ORR_LUA_OFF
                                                    : i == 1 ? ORR_LUA_SIGNAL
                                                             : ORR_LUA_COUNT,
                                            .slice_ns = MS / 10,
                                            .check_interval = 100,
                                            .max_instructions = ORR_NEVER,
                                            .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER },
                                        });
        load(L, ordinary);
        lua_pushinteger(L, i == 1 ? WORK(300) : 2);
        struct orr_task *task;
        assert_int_equal(orr_lua_start(L, 1, "ordinary", &task), 0);
        turn_until_done(rt, task, ORR_NEVER);
        expect_success(rt, task);
        if (i) {
            assert_string_equal(noted, expected);
            assert_true(runtime_stat(L, "preemptions") > 100);
        }
        snprintf(expected, sizeof expected, "%s", noted);
        finish(rt, L);
    }
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .slice_ns = 1 }, &L), -EINVAL);
    assert_non_null(strstr(harness_log(), "slice_ns is 1, expected at least"));
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mode = (enum orr_lua_mode)9 }, &L), -EINVAL);
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .profile = (enum orr_lua_profile)9 }, &L), -EINVAL);
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .check_interval = UINT32_MAX }, &L), -EINVAL);
    finish(rt, NULL);
    assert_null(orr_runtime_new(&(struct orr_options){ .preempt_signal = SIGKILL, .log = NULL }));
}

static const struct CMUnitTest limits[] = {
    cmocka_unit_test(host_goes_on_while_a_script_loops_without_end),
    cmocka_unit_test(deadline_that_the_host_sets_later_ends_what_loops_without_end),
    cmocka_unit_test(other_isolates_run_meanwhile),
    cmocka_unit_test(code_between_two_waits_is_not_interleaved),
    cmocka_unit_test(a_repeating_timer_that_is_due_in_a_long_slice_fires_once_after_it),
    cmocka_unit_test(starting_a_task_that_uses_up_the_slice_suspends_the_starter),
    cmocka_unit_test(fair_tasks_take_turns),
    cmocka_unit_test(call_into_an_isolate_in_mid_slice_is_refused),
    cmocka_unit_test(isolate_is_closed_in_mid_slice),
    cmocka_unit_test(nothing_survives_its_deadline_by_the_clock),
    cmocka_unit_test(nothing_survives_its_limit_of_instructions),
    cmocka_unit_test(errors_of_calls_from_the_host_have_hints),
    cmocka_unit_test(calls_from_the_host_are_ended_at_their_deadline),
    cmocka_unit_test(call_after_many_short_ones_is_ended_at_its_deadline),
    cmocka_unit_test(isolate_that_was_called_inside_another_is_called_alone_later),
    cmocka_unit_test(nested_limits_all_hold),
    cmocka_unit_test(waiting_resets_the_deadline_of_a_task),
    cmocka_unit_test(count_of_instructions_is_the_same_each_time),
    cmocka_unit_test(coroutines_do_not_escape_the_count),
    cmocka_unit_test(few_instructions_that_take_long_are_interrupted_where_they_are_counted),
    cmocka_unit_test(scripts_without_limits_are_not_interrupted),
    cmocka_unit_test(scripts_deadlines_are_no_longer_than_the_hosts),
    cmocka_unit_test(scheduled_callbacks_have_a_deadline),
    cmocka_unit_test(compiling_has_a_deadline),
    cmocka_unit_test(trusted_scripts_may_have_patterns_that_can_be_interrupted),
    cmocka_unit_test(handler_that_times_out_thrice_is_disabled),
    cmocka_unit_test(host_chooses_how_often_a_handler_may_time_out),
    cmocka_unit_test(events_of_the_host_keep_their_order_while_a_handler_is_suspended),
    cmocka_unit_test(full_event_queue_applies_the_policy),
    cmocka_unit_test(handlers_of_events_are_disabled_and_enabled),
    cmocka_unit_test(report_says_what_took_the_time),
    cmocka_unit_test(script_over_its_memory_limit_gets_an_error),
    cmocka_unit_test(memory_error_that_was_caught_is_not_raised_again),
    cmocka_unit_test(fair_task_is_told_of_its_memory_limit_too),
    cmocka_unit_test(counting_goes_on_after_a_coroutine_has_met_the_memory_limit),
    cmocka_unit_test(host_can_call_a_script_that_is_at_its_memory_limit),
    cmocka_unit_test(large_blocks_are_freed_one_by_one),
    cmocka_unit_test(strings_have_a_longest_length),
    cmocka_unit_test(unused_time_of_a_turn_is_used_to_collect),
    cmocka_unit_test(hooks_of_a_script_see_the_same_events_with_slices),
    cmocka_unit_test(host_may_use_the_same_signal),
    cmocka_unit_test(worker_may_move_from_thread_to_thread),
    cmocka_unit_test(a_thread_without_an_alternate_stack_gets_one_until_it_ends),
    cmocka_unit_test(a_thread_keeps_the_alternate_stack_that_it_has),
    cmocka_unit_test(ordinary_programs_give_the_same_results_when_interrupted_often),
    cmocka_unit_test(options_out_of_range_are_refused),
};

HARNESS_MAIN(limits)
