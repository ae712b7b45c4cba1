/*
 * Limits in unusual situations: coroutines that do not belong to a script, tasks that end while
 * they are parked, hooks and signals of others, ways around the count of instructions.  Loops that
 * should be interrupted have an end, so that a failing test does not hang.
 */
#include "lua_host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any deadline here. */
#define FOR_LONG "for i = 1, 3e8 do end "

/* Longer than any slice here. */
#define FOR_A_WHILE "for i = 1, 3e6 do end "

static const char a_task_like_any_other[] = "game.async.sleep(1) note 'another'";

/* Checks that the isolate still runs scripts. */
static void goes_on(struct orr_runtime *rt, lua_State *L)
{
    noted[0] = '\0';
    struct orr_task *task = start(L, a_task_like_any_other);
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "another;");
}

static void call(lua_State *L, const char *code, uint64_t deadline_ns, int expected)
{
    load(L, code);
    assert_int_equal(orr_lua_call(L, 0, 0, deadline_ns), expected);
}

static void unref(struct orr_runtime *rt, struct orr_task *task)
{
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
}

static void drop(struct orr_runtime *rt, struct orr_task *task)
{
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_task_drop(orr_task_waker(task)), 0);
    assert_int_equal(orr_runtime_leave(rt), 0);
}

static lua_Integer global_of(lua_State *L, const char *name)
{
    lua_getglobal(L, name);
    lua_Integer value = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

static void turn_until_set(struct orr_runtime *rt, lua_State *L, const char *name)
{
    while (!global_of(L, name))
        assert_true(orr_runtime_turn(rt, MS) >= 0);
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in: %s", part, text);
}

/* --- Coroutines that do not belong to a script ------------------------------------------------ */

static const char meddles[] = "game.async.sleep(1)\n"
                              "local ok, e = coroutine.resume(saved) note(ok) note(e:match 'is a task.s')\n"
                              "ok, e = pcall(coroutine.close, saved) note(ok) note(e:match 'is a task.s')\n"
                              "for i = 1, 1e4 do local _ = {} end for i = 1, 100 do collectgarbage 'step' end";

static const char refused[] = "false;is a task's;false;is a task's;";

static void saved_coroutine_of_a_call_gives_no_power_over_a_later_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED });
    call(L, "saved = coroutine.running()", 0, 0);
    struct orr_task *victim = start(L, "local a = game.async\n"
                                       "a.with_timeout(1e6, function() a.sleep(20) end) lived = 1");
    struct orr_task *task = start(L, meddles);
    turn_until_done(rt, task, MS);
    expect_success(rt, task);
    assert_string_equal(noted, refused);
    turn_until_done(rt, victim, MS);
    assert_int_equal(error_of(rt, victim), 0);
    assert_int_equal(global_of(L, "lived"), 1);
    finish(rt, L);
}

static void coroutine_that_a_script_has_from_a_call_is_not_used_for_a_task(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED });
    call(L, "saved = coroutine.running()", 0, 0);
    struct orr_task *task = start(L, "note(coroutine.running() == saved)");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "false;");
    finish(rt, L);
}

static void hosts_own_thread_is_not_a_scripts_to_resume_or_close(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED });
    load(L, "saved = coroutine.running()");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    lua_pushliteral(L, "the host's");
    lua_pushcfunction(L, host_note);
    struct orr_task *task = start(L, meddles);
    turn_until_done(rt, task, MS);
    expect_success(rt, task);
    assert_string_equal(noted, refused);
    assert_int_equal(lua_gettop(L), 2);
    assert_string_equal(lua_tostring(L, 1), "the host's");
    lua_settop(L, 0);
    finish(rt, L);
}

static void starting_a_task_in_a_coroutine_that_lua_itself_resumed_runs_it_to_its_first_wait(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    luaL_requiref(L, "stock", luaopen_coroutine, 0);
    lua_setglobal(L, "stock");
    struct orr_task *task = start(L, "local a = game.async\n"
                                     "local started, early, ran = 0, 0, 0\n"
                                     "for i = 1, 300 do\n"
                                     "  stock.wrap(function()\n"
                                     "    if pcall(a.run, function() for j = 1, 20000 do end ran = ran + 1 a.sleep(1) "
                                     "end) then started = started + 1 end\n"
                                     "    if ran ~= i then early = early + 1 end\n"
                                     "  end)()\n"
                                     "end\n"
                                     "note(started) note(early) note(ran)");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "300;0;300;");
    finish(rt, L);
}

/*
 * The allocator grants a number of requests, then refuses some in a row: Lua collects and asks
 * again after the first refusal.
 */
static struct {
    bool on;
    long granted, refused;
} scarcity;

static void *scarce(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    if (!size) {
        free(block);
        return NULL;
    }
    if (scarcity.on && (!block || size > old_size) && scarcity.granted-- <= 0 && scarcity.refused-- > 0)
        return NULL;
    return realloc(block, size);
}

static int set_scarce(lua_State *L)
{
    scarcity.on = lua_toboolean(L, 1);
    return 0;
}

static void coroutine_that_could_not_wait_for_lack_of_memory_leaves_the_others_as_they_were(void **state)
{
    (void)state;
    static const char code[] = "local function count() for i = 1, 3 do coroutine.yield(i) end end\n"
                               "local function nest(n)\n"
                               "  if n == 0 then\n"
                               "    collectgarbage() collectgarbage 'stop' set_scarce(true) game.async.sleep(1)\n"
                               "    return 'deep'\n"
                               "  end\n"
                               "  local other = coroutine.create(count)\n"
                               "  local ok, value = pcall(coroutine.wrap(nest), n - 1)\n"
                               "  set_scarce(false)\n"
                               "  if not ok then failed = 1 assert(value:find 'not enough memory', value) end\n"
                               "  for i = 1, 3 do\n"
                               "    local _, got = coroutine.resume(other)\n"
                               "    if got ~= i then note(tostring(got) .. ' for ' .. i) end\n"
                               "  end\n"
                               "  return value\n"
                               "end\n"
                               "nest(20)";
    bool failed = false;
    for (long granted = 0; granted < 10; granted++) {
        scarcity.on = false;
        scarcity.granted = granted;
        scarcity.refused = 2;
        struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = scarce });
        assert_non_null(rt);
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = 10000 * MS });
        lua_register(L, "set_scarce", set_scarce);
        struct orr_task *task = start(L, code);
        turn_until_done(rt, task, ORR_NEVER);
        scarcity.on = false;
        assert_int_equal(error_of(rt, task), 0);
        assert_string_equal(noted, "");
        failed |= global_of(L, "failed");
        finish(rt, L);
    }
    assert_true(failed);
}

/* --- Calls from the host, and to it ----------------------------------------------------------- */

static void call_inside_a_task_cannot_wait(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = 10000 * MS });
    lua_register(L, "call_back", host_call_back);
    struct orr_task *task = start(L,
                                  "local a = game.async\n"
                                  "local me = a.current()\n"
                                  "local slow = a.run({ detached = true }, function() a.sleep(300) note 'slow' end)\n"
                                  "a.run({ detached = true }, function() a.sleep(1) me:close() end)\n"
                                  "local error, text = call_back(function() slow:wait() end)\n"
                                  "note(error) note(text:match 'cannot wait')\n"
                                  "coroutine.wrap(function() for i = 1, 1e4 do local _ = {} end end)() note 'goes on'");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    char expected[64];
    snprintf(expected, sizeof expected, "%d;cannot wait;goes on;", -EREMOTEIO);
    assert_string_equal(noted, expected);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_contains(noted, "slow;");
    finish(rt, L);
}

static void call_that_cannot_wait_leaves_other_tasks_alone(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } });
    struct orr_task *innocent = start(L, "game.async.sleep(1) " FOR_A_WHILE "note 'innocent'");
    call(L, "game.async.run(function() game.async.sleep(400) end):wait()", MS, -EREMOTEIO);
    assert_contains(lua_tostring(L, -1), "a call from the host cannot wait");
    lua_pop(L, 1);
    turn_until_done(rt, innocent, MS);
    assert_int_equal(error_of(rt, innocent), 0);
    assert_string_equal(noted, "innocent;");
    finish(rt, L);
}

static int closed_with;

static void close_in_notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)data;
    (void)text;
    assert_int_equal(notice, ORR_LUA_TIMED_OUT);
    closed_with = orr_lua_close(L);
}

static void isolate_closed_in_a_notice_is_closed_when_the_call_has_returned(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .notice = close_in_notice });
    call(L, "kept = setmetatable({}, { __gc = function() note 'gone' end })", 0, 0);
    closed_with = 0;
    call(L, FOR_LONG, 5 * MS, -ETIME);
    assert_int_equal(closed_with, -EINPROGRESS);
    /* The state still exists. */
    assert_string_equal(lua_tostring(L, -1), "Script execution timeout");
    assert_string_equal(noted, "");
    harness_settle(rt);
    assert_string_equal(noted, "gone;");
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    finish(rt, NULL);
}

/* --- Tasks that only their event keeps alive -------------------------------------------------- */

/*
 * Waits through several cycles of the collector, so that only the event holds the task that waits
 * for it.
 */
#define COLLECT "for i = 1, 4 do collectgarbage() game.async.sleep(1) end "

static void task_that_was_woken_goes_on_though_nobody_can_reach_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "local a = game.async\n"
                                     "local event = a.event()\n"
                                     "a.run({ detached = true }, function()\n"
                                     "  local own = event\n"
                                     "  note(pcall(function() own:wait() end)) note 'goes on'\n"
                                     "end)\n" COLLECT "event:set() event = nil collectgarbage() collectgarbage()\n"
                                     "a.sleep(5) note 'end'");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "true;goes on;end;");
    assert_string_equal(harness_log(), "");
    finish(rt, L);
}

static void orphan_task_is_collected_while_its_isolate_closes(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(
        L, "event = game.async.event()\n"
           "game.async.run({ detached = true }, function() pcall(function() event:wait() end) end)\n" COLLECT
           "event = nil collectgarbage 'stop' ready = 1\n"
           "while not game.async.is_closing() do end\n"
           "collectgarbage 'restart' while true do local _ = {} end");
    turn_until_set(rt, L, "ready");
    assert_int_equal(orr_runtime_turn(rt, MS), 1);
    unref(rt, task);
    assert_int_equal(orr_lua_close(L), 0);
    harness_settle(rt);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    finish(rt, NULL);
}

static void task_held_by_a_weak_table_may_be_dropped(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *waits = start(L, "event = game.async.event() event:wait()");
    struct orr_task *task = start(L, COLLECT);
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    drop(rt, waits);
    unref(rt, waits);
    task = start(L, "event = nil " COLLECT "note 'fine'");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "fine;");
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    finish(rt, L);
}

/* --- Parked tasks ----------------------------------------------------------------------------- */

static void task_that_should_run_next_may_be_parked(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    struct orr_task *task = start(L, "local a = game.async\n"
                                     "local other = a.run({ detached = true }, function()\n"
                                     "  pcall(a.sleep, 0.2) note 'woken' " FOR_A_WHILE "note 'done'\n"
                                     "end)\n" FOR_A_WHILE "note 'closes it' other:close() note 'goes on'");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "closes it;woken;done;goes on;");
    assert_true(runtime_stat(L, "preemptions") > 0);
    goes_on(rt, L);
    finish(rt, L);
}

static void task_dropped_in_mid_slice_does_not_block_others(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .slice_ns = MS / 10 });
    struct orr_task *task = start(L, "game.async.run(function() game.async.sleep(1e6) end) while true do end");
    while (runtime_stat(L, "preemptions") < 3)
        assert_true(orr_runtime_turn(rt, MS) >= 0);
    drop(rt, task);
    turn_until_done(rt, task, MS);
    assert_true(error_of(rt, task) < 0);
    goes_on(rt, L);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    finish(rt, L);
}

static void parked_tasks_go_on_in_their_original_order(void **state)
{
    (void)state;
    char expected[sizeof noted] = "";
    for (int i = 0; i < 6; i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .mode = i ? ORR_LUA_SIGNAL : ORR_LUA_OFF, .slice_ns = MS / 10 });
        struct orr_task *task = start(
            L, "local a = game.async\n"
               "local order, tasks = {}, {}\n"
               "for i = 1, 200 do tasks[i] = a.run(function() a.sleep(i * 0.05) order[#order + 1] = i end) end\n"
               "for round = 1, 30 do for i = 1, 60000 do end a.checkpoint() end\n"
               "a.await_all(tasks) note(table.concat(order, ' '))");
        turn_until_done(rt, task, MS / 10);
        assert_int_equal(error_of(rt, task), 0);
        if (i)
            assert_string_equal(noted, expected);
        snprintf(expected, sizeof expected, "%s", noted);
        finish(rt, L);
    }
}

/* --- Other isolates --------------------------------------------------------------------------- */

static int call_other(lua_State *L)
{
    lua_State *other = lua_touserdata(L, lua_upvalueindex(1));
    lua_getglobal(other, "work");
    int error = orr_lua_call(other, 0, 0, 0);
    lua_settop(other, 0);
    lua_pushinteger(L, error);
    return 1;
}

static void short_calls_into_another_isolate_do_not_put_off_a_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 50 * MS } });
    lua_State *other = open_trusted(rt, (struct orr_lua_options){ 0 });
    call(other, "function work() local x = 1 end", 0, 0);
    lua_pushlightuserdata(L, other);
    lua_pushcclosure(L, call_other, 1);
    lua_setglobal(L, "call_other");
    struct orr_task *task = start(L, "for i = 1, 3e6 do call_other() end");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_int_equal(orr_lua_close(other), 0);
    finish(rt, L);
}

/* --- Ways around the count of instructions ---------------------------------------------------- */

enum { COUNT = 1000000 };

static void coroutine_made_outside_does_not_escape_the_count(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_isolate(
        rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .profile = ORR_LUA_UNTRUSTED, .max_instructions = COUNT });
    load(L, "co = coroutine.create(function() " FOR_LONG "note 'escaped' end)");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    struct orr_task *task = start(L, "coroutine.resume(co)");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_string_equal(noted, "");
    finish(rt, L);
}

/* Each piece is shorter than the interval between two checks of the count. */
static void assert_counted(struct orr_lua_options options, const char *code)
{
    struct orr_runtime *rt = host_runtime();
    options.mode = ORR_LUA_COUNT;
    options.max_instructions = COUNT;
    lua_State *L = open_trusted(rt, options);
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_in_range(global_of(L, "count"), COUNT / 4, COUNT);
    finish(rt, L);
}

static void short_tasks_do_not_escape_the_count(void **state)
{
    (void)state;
    assert_counted((struct orr_lua_options){ 0 },
                   "count = 0\n"
                   "for i = 1, 2000 do\n"
                   "  game.async.run(function() for j = 1, 9000 do end count = count + 9000 end)\n"
                   "end");
}

static void going_over_the_memory_limit_does_not_escape_the_count(void **state)
{
    (void)state;
    assert_counted((struct orr_lua_options){ .memory_limit = 1 << 20 },
                   "count = 0\n"
                   "local kept = ('y'):rep(250000)\n"
                   "for i = 1, 1000 do\n"
                   "  for j = 1, 9000 do end count = count + 9000\n"
                   "  pcall(string.rep, 'x', 600000)\n"
                   "end");
}

/* --- Hooks of others -------------------------------------------------------------------------- */

static void hook_for_calls_does_not_switch_off_the_deadline_of_a_call(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    call(L, "debug.sethook(function() end, 'c') for i = 1, 1e7 do math.abs(1) end", 20 * MS, -ETIME);
    lua_pop(L, 1);
    goes_on(rt, L);
    finish(rt, L);
}

static void hook_for_calls_and_lines_does_not_switch_off_deadlines(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "while true do math.abs(1) end",
        "local function f() return f() end f()", /* only calls and first instructions */
    };
    for (size_t i = 0; i < LENGTH(scripts); i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 50 * MS } });
        char code[256];
        snprintf(code, sizeof code,
                 "local n = 0 debug.sethook(function() n = n + 1 if n > 1e7 then error 'survived' end end, 'cl') %s",
                 scripts[i]);
        struct orr_task *task = start(L, code);
        turn_until_done(rt, task, MS);
        assert_int_equal(error_of(rt, task), -ETIME);
        goes_on(rt, L);
        finish(rt, L);
    }
}

static void hook_of_a_task_is_not_a_hook_of_the_next(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "debug.sethook(function() error 'stray' end, 'l')");
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    for (int i = 0; i < 3; i++)
        call(L, "\nlocal x = 1\nlocal y = 2\nreturn x + y", 0, 0);
    goes_on(rt, L);
    finish(rt, L);
}

/* --- Signals of others ------------------------------------------------------------------------ */

static void signal_that_the_host_may_not_choose_is_refused(void **state)
{
    (void)state;
    /* 33 belongs to the C library. */
    static const int numbers[] = { 33, SIGSEGV, SIGKILL, SIGALRM, -1, 1000 };
    for (size_t i = 0; i < LENGTH(numbers); i++) {
        assert_null(harness_runtime_with((struct orr_options){ .preempt_signal = numbers[i] }));
        assert_int_equal(errno, EINVAL);
        assert_contains(harness_log(), "option preempt_signal is");
    }
}

static void ignore(int number)
{
    (void)number;
}

static void calls_are_ended_though_the_host_has_put_its_own_handler_in_place_of_ours(void **state)
{
    (void)state;
    int number = SIGRTMIN + 10;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .preempt_signal = number });
    assert_non_null(rt);
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    call(L, "return 1", 20 * MS, 0);
    signal(number, ignore);
    /* Several ticks of the kernel; we look in one of them. */
    struct timespec ticks = { .tv_nsec = 30000000 };
    while (nanosleep(&ticks, &ticks))
        continue;
    call(L, FOR_LONG, 50 * MS, -ETIME);
    lua_pop(L, 1);
    assert_contains(harness_log(), "another handler was installed");
    finish(rt, L);
}

static struct sigaction predecessor;
static volatile sig_atomic_t chained;

/* Calls the handler that was there before, as many handlers do. */
static void chain(int number, siginfo_t *info, void *context)
{
    if (++chained < 100 && predecessor.sa_flags & SA_SIGINFO)
        predecessor.sa_sigaction(number, info, context);
}

static void handler_that_passes_on_to_ours_is_called_once(void **state)
{
    (void)state;
    int number = SIGRTMIN + 11;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .preempt_signal = number });
    assert_non_null(rt);
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 20 * MS } });
    struct sigaction action = { .sa_sigaction = chain, .sa_flags = SA_SIGINFO };
    for (int i = 0; i < 2; i++) {
        struct orr_task *task = start(L, FOR_LONG);
        turn_until_done(rt, task, MS);
        assert_int_equal(error_of(rt, task), -ETIME);
        if (i == 0)
            assert_int_equal(sigaction(number, &action, &predecessor), 0);
    }
    chained = 0;
    raise(number);
    assert_int_equal(chained, 1);
    finish(rt, L);
}

static const struct CMUnitTest limits_edges[] = {
    cmocka_unit_test(saved_coroutine_of_a_call_gives_no_power_over_a_later_task),
    cmocka_unit_test(coroutine_that_a_script_has_from_a_call_is_not_used_for_a_task),
    cmocka_unit_test(hosts_own_thread_is_not_a_scripts_to_resume_or_close),
    cmocka_unit_test(starting_a_task_in_a_coroutine_that_lua_itself_resumed_runs_it_to_its_first_wait),
    cmocka_unit_test(coroutine_that_could_not_wait_for_lack_of_memory_leaves_the_others_as_they_were),
    cmocka_unit_test(call_inside_a_task_cannot_wait),
    cmocka_unit_test(call_that_cannot_wait_leaves_other_tasks_alone),
    cmocka_unit_test(isolate_closed_in_a_notice_is_closed_when_the_call_has_returned),
    cmocka_unit_test(task_that_was_woken_goes_on_though_nobody_can_reach_it),
    cmocka_unit_test(orphan_task_is_collected_while_its_isolate_closes),
    cmocka_unit_test(task_held_by_a_weak_table_may_be_dropped),
    cmocka_unit_test(task_that_should_run_next_may_be_parked),
    cmocka_unit_test(task_dropped_in_mid_slice_does_not_block_others),
    cmocka_unit_test(parked_tasks_go_on_in_their_original_order),
    cmocka_unit_test(short_calls_into_another_isolate_do_not_put_off_a_deadline),
    cmocka_unit_test(coroutine_made_outside_does_not_escape_the_count),
    cmocka_unit_test(short_tasks_do_not_escape_the_count),
    cmocka_unit_test(going_over_the_memory_limit_does_not_escape_the_count),
    cmocka_unit_test(hook_for_calls_does_not_switch_off_the_deadline_of_a_call),
    cmocka_unit_test(hook_for_calls_and_lines_does_not_switch_off_deadlines),
    cmocka_unit_test(hook_of_a_task_is_not_a_hook_of_the_next),
    cmocka_unit_test(signal_that_the_host_may_not_choose_is_refused),
    cmocka_unit_test(calls_are_ended_though_the_host_has_put_its_own_handler_in_place_of_ours),
    cmocka_unit_test(handler_that_passes_on_to_ours_is_called_once),
};

HARNESS_MAIN(limits_edges)
