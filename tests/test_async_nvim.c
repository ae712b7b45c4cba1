/*
 * The Lua module `orrery.async_nvim` in isolates of a host: under any name of the API, in the
 * sandbox, within limits, and while memory runs out.  What it does is tested in lua/async_nvim.lua.
 */
#include "failing.h"
#include "harness.h"
#include "lua_host.h"

#include <errno.h>
#include <string.h>

/* Each allocation decrements this; the one that finds 0 fails. */
static int allowed = INT32_MAX;
static bool ran_out;

static bool may_allocate(void)
{
    bool may = allowed-- != 0;
    ran_out |= !may;
    return may;
}

/* Runs a script to its end on a virtual clock; all memory must be free in the end. */
static void run_script(struct orr_lua_options options, const char *code, const char *expected)
{
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = counting_alloc });
    assert_non_null(rt);
    lua_State *L = open_isolate(rt, options);
    struct orr_task *task = start(L, code);
    assert_int_equal(orr_runtime_run(rt), 0);
    error_of(rt, task);
    assert_string_equal(noted, expected);
    finish_counting(rt, L);
}

static const char everything[] =
    "local a = require 'orrery.async_nvim'\n"
    "local semaphore, queue, event, future = a.semaphore(1), a._queue(1), a._event(), a._future()\n"
    "local parent = a.run('parent', function()\n"
    "  local child = a.run(function() semaphore:with(function() a.sleep(5) queue:put(1) queue:put(2) end) end)\n"
    "  local failing = a.run(function() a.sleep(1) error('CHILD', 0) end)\n"
    "  local ok, err = pcall(a.sleep, 100)\n"
    "  note(err)\n"
    "  local sum = queue:get() + queue:get()\n"
    "  a.run(function() event:wait() future:complete(nil, sum) end)\n"
    "  event:set()\n"
    "  future:wait(function(_, value) note(value) end)\n"
    "  for i, value in a.iter { a.run(function() a.sleep(2) return 'x' end) } do note(i .. value) end\n"
    "  local late = a.run(function()\n"
    "    a.await(function() return { close = function(_, over) over() end } end)\n"
    "  end)\n"
    "  note(select(2, pcall(a.timeout, 5, late)))\n"
    "  a.await(game.schedule)\n"
    "  note(#a._inspect_tree() > 10)\n"
    "  a.await(child)\n"
    "  return 'value'\n"
    "end)\n"
    "note(parent:wait(1000))\n";

static const char everything_noted[] = "child error: CHILD;3;1x;timeout;true;value;";

static void the_module_works_in_both_profiles(void **state)
{
    (void)state;
    run_script((struct orr_lua_options){ 0 }, everything, everything_noted);
    run_script((struct orr_lua_options){ .profile = ORR_LUA_TRUSTED }, everything, everything_noted);
}

/* open_isolate() mounts the API as `game`; `require` needs no name of the host's choice. */
static void the_module_is_loaded_once_and_only_when_it_is_required(void **state)
{
    (void)state;
    run_script((struct orr_lua_options){ .profile = ORR_LUA_TRUSTED },
               "note(package.loaded['orrery.async_nvim'])\n"
               "local a = require 'orrery.async_nvim'\n"
               "note(a == require 'orrery.async_nvim')\n"
               "note(game.async ~= a and game.async.pcall == nil)",
               "nil;true;true;");
}

static void scripts_of_their_own_globals_have_modules_of_their_own(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    static const char *const codes[] = {
        "local a = require 'orrery.async_nvim' a.run = nil a.sleep = nil note 'broken'",
        "local a = require 'orrery.async_nvim' note(a.run(function() a.sleep(1) return 'whole' end):wait())",
    };
    for (int i = 0; i < 2; i++) {
        struct orr_lua_source source = { .text = codes[i], .name = "script", .own_globals = true };
        assert_int_equal(orr_lua_load(L, &source), 0);
        assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
    }
    assert_string_equal(noted, "broken;whole;");
    finish_counting(rt, L);
}

static void the_module_needs_what_it_is_built_on(void **state)
{
    (void)state;
    static const char *const some[] = { "async", "loop", NULL };
    run_script((struct orr_lua_options){ .modules = some },
               "local ok, err = pcall(require, 'orrery.async_nvim') note(ok) note(err)",
               "false;orrery.async_nvim needs the modules async, loop and schedule, and the host has not given all "
               "of them;");
}

static void a_task_that_never_waits_is_ended_at_its_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    struct orr_lua_options options = { 0 };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = 20 * 1000000;
    lua_State *L = open_isolate(rt, options);
    struct orr_task *task = start(L, "local a = require 'orrery.async_nvim'\n"
                                     "local task = a.run(function() a.sleep(1) while true do end end)\n"
                                     "local other = a.run(function() a.await(task) end)\n"
                                     "local ok, err = other:pwait()\n"
                                     "note(ok) note(err:find('Script execution timeout', 1, true) ~= nil)");
    assert_int_equal(orr_runtime_run(rt), 0);
    error_of(rt, task);
    assert_string_equal(noted, "false;true;");
    assert_int_equal(notices[ORR_LUA_TIMED_OUT], 1);
    finish_counting(rt, L);
}

static void tasks_count_as_memory_of_their_isolate(void **state)
{
    (void)state;
    run_script((struct orr_lua_options){ .memory_limit = 4 << 20 },
               "local a = require 'orrery.async_nvim'\n"
               "local count, held, err = 0, {}\n"
               "while not err do\n"
               "  local ok, problem = pcall(a.run, a.await, function() end)\n"
               "  count = count + 1\n"
               "  held[count] = ok and problem\n"
               "  err = not ok and problem\n"
               "end\n"
               "note(count > 100 and count < 100000)\n"
               "note(tostring(err):find('memory', 1, true) ~= nil)",
               "true;true;");
}

/* True if no allocation failed. */
static bool run_without_memory(int point, enum orr_lua_profile profile)
{
    allowed = INT32_MAX;
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc });
    assert_non_null(rt);
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = profile });
    char code[4096];
    snprintf(code, sizeof code,
             "pcall(collectgarbage, 'stop')\n"
             "local ok, err = pcall(game.async.with_timeout, 100000, function() %s end)\n"
             "note(ok and 'well' or err == 'timeout' and err or 'failed')\n",
             everything);
    struct orr_task *task = start(L, code);
    ran_out = false;
    allowed = point;
    int error = orr_runtime_run(rt);
    bool lacking = ran_out;
    allowed = INT32_MAX;
    assert_int_equal(error, 0);
    error_of(rt, task);
    if (!lacking && !strstr(noted, "value;well;"))
        fail_msg("with memory: %s, %s", noted, sink_text);
    /* A timer's callback that finds no memory is reported; what waits for it waits on. */
    bool waits_on = strstr(noted, "timeout;timeout;") || !strcmp(noted, "timeout;");
    if (waits_on && !*sink_text)
        fail_msg("a task waits for ever, without a report, when allocation %d fails: %s", point, noted);
    noted[0] = '\0';
    task = start(L, "local a = require 'orrery.async_nvim'\n"
                    "note(a.run(function() a.sleep(1) return a.await(a.run(a.await, game.schedule)) end):pwait(10))");
    assert_int_equal(orr_runtime_run(rt), 0);
    expect_success(rt, task);
    assert_string_equal(noted, "true;");
    finish(rt, L);
    if (allocated_bytes)
        fail_msg("%lld bytes are left when allocation %d fails", (long long)allocated_bytes, point);
    return !lacking;
}

static void one_failed_allocation_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    for (int profile = 0; profile < 2; profile++) {
        assert_true(run_without_memory(INT32_MAX, profile));
        int last = 0, step = WORK(100) == 100 ? 1 : 13;
        while (!run_without_memory(last, profile))
            last += step;
        print_message("about %d points of failure\n", last);
        assert_true(last > 100);
    }
}

static const struct CMUnitTest async_nvim[] = {
    cmocka_unit_test(the_module_works_in_both_profiles),
    cmocka_unit_test(the_module_is_loaded_once_and_only_when_it_is_required),
    cmocka_unit_test(scripts_of_their_own_globals_have_modules_of_their_own),
    cmocka_unit_test(the_module_needs_what_it_is_built_on),
    cmocka_unit_test(a_task_that_never_waits_is_ended_at_its_deadline),
    cmocka_unit_test(tasks_count_as_memory_of_their_isolate),
    cmocka_unit_test(one_failed_allocation_is_an_error_and_loses_nothing),
};

HARNESS_MAIN(async_nvim)
