/*
 * Ending scripts that refuse to end.  All cleanup together has one grace period.  After it no Lua
 * runs, and the host's turns stay short meanwhile.  The tests count the cleanups that began,
 * because time depends on the machine.
 */
#include "harness.h"
#include "lua_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The grace period is longer than a busy machine stands still. */
enum { TASKS = 9000, FEW = TASKS / 50, GRACE_MS = 300 };

static _Atomic unsigned begun; /* cleanups that began */
static char logged[16384];     /* every logged line */

static void keep_log(void *data, enum orr_log level, const char *message)
{
    size_t length = strlen(logged);
    (void)data;
    (void)level;
    snprintf(logged + length, sizeof logged - length, "%s\n", message);
}

static void swallow(void *data, struct orr_task *task)
{
    (void)data;
    orr_task_result(task);
}

static struct orr_runtime *ending_runtime(struct orr_options options)
{
    noted[0] = logged[0] = '\0';
    allocated_bytes = 0;
    begun = 0;
    options.reactor = harness_reactor;
    options.alloc = counting_alloc;
    options.grace_ms = options.grace_ms ? options.grace_ms : GRACE_MS;
    options.log = keep_log;
    options.sink = swallow;
    struct orr_runtime *rt = orr_runtime_new(&options);
    assert_non_null(rt);
    return rt;
}

static int begin_cleanup(lua_State *L)
{
    (void)L;
    begun++;
    return 0;
}

static void give(void *data, lua_State *L)
{
    (void)data;
    lua_register(L, "note", host_note);
    lua_register(L, "begin", begin_cleanup);
}

static const char stubborn[] =
    "local a = game.async\n"
    "local mt = { __close = function() begin() while true do pcall(function() while true do end end) end end }\n"
    "for i = 1, 9000 do\n"
    "  a.run(function() local x <close> = setmetatable({}, mt) a.sleep(1e9) end)\n"
    "end\n";

static struct orr_script *load_script_with(struct orr_runtime *rt, struct orr_script_options options, const char *text)
{
    struct orr_script *script;
    options.source = (struct orr_lua_source){ .name = "=script", .text = text };
    options.lua.mount = "game";
    options.prepare = options.shared ? NULL : give;
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    return script;
}

static struct orr_script *load_script(struct orr_runtime *rt, lua_State *shared, const char *text)
{
    return load_script_with(rt, (struct orr_script_options){ .shared = shared }, text);
}

static lua_State *open_shared(struct orr_runtime *rt)
{
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game" }, &L), 0);
    give(NULL, L);
    return L;
}

/* Runs code outside of tasks. */
static void run_code(lua_State *L, const char *code)
{
    load(L, code);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
}

static uint64_t tasks_of(lua_State *L)
{
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    return stats.tasks;
}

static void turn(struct orr_runtime *rt)
{
    assert_true(orr_runtime_turn(rt, 4000000) >= 0);
}

static void turn_until(struct orr_runtime *rt, lua_State *L, uint64_t tasks)
{
    while (tasks_of(L) != tasks)
        turn(rt);
}

/* --- One grace period ------------------------------------------------------------------------- */

static void cleanup_of_an_isolate_has_one_grace_period(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    struct orr_script *script = load_script(rt, NULL, stubborn);
    turn_until(rt, orr_script_state(script), TASKS + 1);
    assert_int_equal(orr_script_unload(script), 0);
    assert_in_range(begun, 1, FEW);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void cleanup_of_a_script_that_shares_has_one_grace_period(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    lua_State *L = open_shared(rt);
    struct orr_script *script = load_script(rt, L, stubborn);
    turn_until(rt, L, TASKS + 1);
    assert_int_equal(orr_script_unload(script), 0);
    assert_in_range(begun, 1, FEW);
    assert_int_equal(tasks_of(L), 0);
    run_code(L, "note 'the isolate lives'");
    turn_until(rt, L, 0);
    assert_string_equal(noted, "the isolate lives;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void *volatile left_behind; /* the state: nothing can free it after its runtime is gone */

static void cleanup_has_one_grace_period_when_the_runtime_ends(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    lua_State *L = open_shared(rt);
    left_behind = L;
    run_code(L, stubborn);
    turn_until(rt, L, TASKS + 1);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_in_range(begun, 1, FEW);
    assert_non_null(strstr(logged, "tasks were still there 300 ms after they had been cancelled"));
    assert_non_null(strstr(logged, "more\n")); /* a summary instead of nine thousand lines */
}

static void task_that_computes_leaves_others_time_to_clean_up(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game", .profile = ORR_LUA_TRUSTED }, &L), 0);
    give(NULL, L);
    run_code(L, "local a = game.async\n"
                "a.run(function()\n"
                "  local x <close> = setmetatable({}, { __close = function() a.shield(a.sleep, 1) note 'clean' end })\n"
                "  a.sleep(1e9)\n"
                "end)\n"
                "note 'ready' while true do end");
    while (strcmp(noted, "ready;") != 0)
        turn(rt);
    assert_int_equal(orr_lua_close(L), 0);
    assert_string_equal(noted, "ready;clean;");
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void task_that_swallows_its_cancellation_is_ended_and_named(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    struct orr_script *script = load_script(rt, NULL,
                                            "local a = game.async\n"
                                            "a.run('mule', function()\n"
                                            "  while true do\n"
                                            "    pcall(a.sleep, 1000)\n"
                                            "    a.shield(a.sleep, 1)\n"
                                            "  end\n"
                                            "end)");
    turn_until(rt, orr_script_state(script), 2);
    assert_int_equal(orr_script_unload(script), 0);
    assert_non_null(strstr(logged, "task 'mule' was ended by force 300 ms after it had been cancelled: "
                                   "it swallowed the cancellation "));
    assert_non_null(strstr(logged, " at script:"));
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void keep_notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)L;
    (void)notice;
    snprintf(data, 1024, "%s", text);
}

static void task_that_swallows_its_cancellation_without_waiting_is_told_so(void **state)
{
    (void)state;
    char report[1024] = "";
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    struct orr_script_options options = { .lua = { .notice = keep_notice, .notice_data = report } };
    struct orr_script *script = load_script_with(rt, options,
                                                 "while true do\n"
                                                 "  pcall(game.async.sleep, 1000)\n"
                                                 "end");
    turn(rt);
    assert_int_equal(orr_script_unload(script), 0);
    assert_non_null(strstr(report, "was cancelled, has swallowed that "));
    assert_non_null(strstr(report, " times at script:2, and has run on for"));
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* --- Termination in many turns ---------------------------------------------------------------- */

static enum orr_poll unload(struct orr_task *task, void *data)
{
    (void)task;
    assert_int_equal(orr_script_unload(data), -EINPROGRESS);
    return ORR_DONE;
}

static uint64_t cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct course {
    unsigned turns;
    uint64_t worst_ms;    /* the longest turn of 4 ms, in CPU time of the thread */
    long long most_freed; /* most bytes freed in one turn */
};

static struct course unload_by_turns(struct orr_runtime *rt, struct orr_script *script)
{
    struct course course = { 0 };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = unload, .data = script }), 0);
    do {
        uint64_t before = cpu_ms();
        long long held_before = allocated_bytes;
        turn(rt);
        long long freed = held_before - allocated_bytes;
        course.most_freed = freed > course.most_freed ? freed : course.most_freed;
        uint64_t took = cpu_ms() - before;
        course.worst_ms = took > course.worst_ms ? took : course.worst_ms;
        course.turns++;
    } while (harness_stats(rt, 0).tasks_live);
    return course;
}

/* A turn must not free everything at once. */
static void turn_stays_short_while_a_script_is_unloaded(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
        lua_State *L = shared ? open_shared(rt) : NULL;
        struct orr_script *script = load_script(rt, L, stubborn);
        turn_until(rt, orr_script_state(script), TASKS + 1);
        struct course course = unload_by_turns(rt, script);
        assert_in_range(course.worst_ms, 0, 400);
        assert_in_range(begun, 1, FEW);
        if (shared)
            assert_int_equal(orr_lua_close(L), 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static void large_state_is_freed_in_many_turns(void **state)
{
    (void)state;
    for (int profile = ORR_LUA_UNTRUSTED; profile <= ORR_LUA_TRUSTED; profile++) {
        struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
        struct orr_script_options options = { .lua.profile = (enum orr_lua_profile)profile };
        struct orr_script *script = load_script_with(rt, options,
                                                     "local all = {} keep = all\n"
                                                     "game.events:on('x', function() return all end)\n"
                                                     "for i = 1, 3e5 do all[i] = { i } end");
        while (harness_stats(rt, 0).tasks_live)
            turn(rt);
        assert_true(allocated_bytes > 20 << 20);
        assert_in_range(unload_by_turns(rt, script).turns, 4, 1000000);
        assert_true(allocated_bytes < 1 << 20);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

/* Lua would collect everything at once when it is refused a table. */
static void state_at_its_memory_limit_is_freed_in_many_turns(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    struct orr_script_options options = { .lua.memory_limit = 24 << 20 };
    struct orr_script *script = load_script_with(rt, options,
                                                 "for _ = 1, 20 do\n"
                                                 "  game.async.run({ fair = true }, function()\n"
                                                 "    local all = {}\n"
                                                 "    local function fill() while true do all[#all + 1] = {} end end\n"
                                                 "    while true do\n"
                                                 "      pcall(fill)\n"
                                                 "      if #all > 20000 then all = {} end\n"
                                                 "    end\n"
                                                 "  end)\n"
                                                 "end");
    struct orr_lua_stats stats;
    do {
        orr_runtime_turn(rt, 1000000);
        assert_int_equal(orr_lua_stats(orr_script_state(script), &stats), 0);
    } while (stats.memory_used <= 24 << 20);
    assert_in_range(unload_by_turns(rt, script).most_freed, 1, 12 << 20);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void neighbours_go_on_while_a_script_is_unloaded(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    lua_State *L = open_shared(rt);
    struct orr_script *doomed = load_script(rt, L, stubborn);
    struct orr_script *other = load_script(rt, L,
                                           "for i = 1, 3 do game.async.sleep(1) note(i) end\n"
                                           "game.loop.set_interval(1, function() end)");
    turn_until(rt, L, TASKS + 1 + 1);
    unload_by_turns(rt, doomed);
    while (tasks_of(L))
        turn(rt);
    assert_string_equal(noted, "1;2;3;");
    assert_int_equal(orr_script_unload(other), 0);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* --- Finalizers ------------------------------------------------------------------------------- */

static lua_State *run_trusted(struct orr_runtime *rt, const char *code)
{
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game", .profile = ORR_LUA_TRUSTED }, &L), 0);
    give(NULL, L);
    run_code(L, code);
    turn_until(rt, L, 0);
    return L;
}

static void finalizers_have_no_more_than_the_grace_period(void **state)
{
    static const char *const kinds[] = {
        "{ __gc = spin }",
        "{ __gc = coroutine.wrap(spin) }",
        "{ __gc = setmetatable({}, { __call = spin }) }",
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        char code[512];
        struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
        snprintf(code, sizeof code,
                 "local function spin() begin() while true do end end\n"
                 "keep = {} for i = 1, 1000 do keep[i] = setmetatable({}, %s) end\n"
                 "timer = game.loop.new_timer()",
                 kinds[i]);
        lua_State *L = run_trusted(rt, code);
        assert_int_equal(orr_lua_close(L), 0);
        assert_in_range(begun, 1, 10);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static void finalizers_that_end_are_all_called_in_their_order(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    lua_State *L = run_trusted(rt, "keep = {}\n"
                                   "for i = 1, 3 do\n"
                                   "  keep[i] = setmetatable({ i }, { __gc = function(self) note(self[1]) end })\n"
                                   "end\n"
                                   "keep[4] = debug.setmetatable({}, { __gc = function() note 'debug' end })\n"
                                   "keep[5] = setmetatable({}, { __gc = function() error 'not caught' end })");
    assert_int_equal(orr_lua_close(L), 0);
    assert_string_equal(noted, "debug;3;2;1;");
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void setmetatable_of_trusted_scripts_is_as_lua_has_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ 0 });
    lua_State *L = run_trusted(rt, "local t, mt = {}, {}\n"
                                   "assert(setmetatable(t, mt) == t and getmetatable(t) == mt)\n"
                                   "assert(getmetatable(setmetatable(t, nil)) == nil)\n"
                                   "local locked = setmetatable({}, { __metatable = 1 })\n"
                                   "note(select(2, pcall(setmetatable, locked, {})))\n"
                                   "note(select(2, pcall(setmetatable, 1, {})))\n"
                                   "note(select(2, pcall(setmetatable, {}, 1)))\n"
                                   "note(select(2, pcall(setmetatable, {})))");
    assert_string_equal(noted, "cannot change a protected metatable;"
                               "bad argument #1 to 'setmetatable' (table expected, got number);"
                               "bad argument #2 to 'setmetatable' (nil or table expected, got number);"
                               "bad argument #2 to 'setmetatable' (nil or table expected, got no value);");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* --- Jobs ------------------------------------------------------------------------------------- */

static void job_that_will_not_end_frees_its_thread(void **state)
{
    (void)state;
    struct orr_runtime *rt = ending_runtime((struct orr_options){ .pool_threads = 1 });
    struct orr_lua_options options = { .mount = "game", .profile = ORR_LUA_TRUSTED, .worker_prepare = give };
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    give(NULL, L);
    run_code(L, "local worker, async = game.worker, game.async\n"
                "local ready = worker.channel(4)\n"
                "local stuck = worker.new([[\n"
                "  local ready = ...\n"
                "  local a = require('orrery').async\n"
                "  local mt = { __close = function() begin() while true do end end }\n"
                "  for i = 1, 2000 do\n"
                "    a.run(function() local x <close> = setmetatable({}, mt) a.sleep(1e9) end)\n"
                "  end\n"
                "  ready:send(true)\n"
                "]])\n"
                "for i = 1, 4 do\n"
                "  async.run(function() pcall(stuck.call, stuck, ready) end)\n"
                "  ready:receive()\n"
                "  stuck:cancel()\n"
                "end\n"
                "note(worker.new('return 7'):call())");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "7;");
    assert_in_range(begun, 0, 4 * 2000 / 20);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* --- A body that fails ------------------------------------------------------------------------ */

static const char failing[] = "local a = game.async\n"
                              "game.loop.set_interval(1, function() note 'tick' end)\n"
                              "game.events:on('x', function() note 'handler' end)\n"
                              "a.run({ detached = true }, function()\n"
                              "  local x <close> = setmetatable({}, { __close = function() note 'closed' end })\n"
                              "  a.sleep(1e9)\n"
                              "end)\n"
                              "game.schedule(function() note 'scheduled' end)\n"
                              "error 'the body fails'";

static void run_failing_script(bool ends, bool shares, const char *expected)
{
    struct orr_runtime *rt = ending_runtime((struct orr_options){ .clock = ORR_CLOCK_MANUAL });
    lua_State *L = shares ? open_shared(rt) : NULL;
    struct orr_script *script = load_script_with(rt, (struct orr_script_options){ .shared = L, .end_on_failure = ends },
                                                 failing);
    harness_settle(rt);
    assert_int_equal(orr_runtime_advance(rt, 1000000), 0);
    harness_settle(rt);
    lua_pushnil(orr_script_state(script)); /* the state exists until the script is unloaded */
    assert_int_equal(orr_events_emit(orr_script_state(script), "x"), 0);
    harness_settle(rt);
    assert_string_equal(noted, expected);
    assert_int_equal(orr_script_unload(script), 0);
    assert_non_null(strstr(noted, "closed;"));
    if (shares)
        assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void script_whose_body_fails_goes_on(void **state)
{
    (void)state;
    run_failing_script(false, false, "scheduled;tick;handler;");
    run_failing_script(false, true, "scheduled;tick;handler;");
}

static void script_whose_body_fails_ends_if_the_host_asked_for_that(void **state)
{
    (void)state;
    run_failing_script(true, false, "closed;");
    run_failing_script(true, true, "closed;");
}

static void script_that_ends_for_its_failure_can_be_unloaded_meanwhile(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        for (int shares = 0; shares < 2; shares++) {
            struct orr_runtime *rt = ending_runtime((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
            lua_State *L = shares ? open_shared(rt) : NULL;
            struct orr_script *script = load_script_with(
                rt, (struct orr_script_options){ .shared = L, .end_on_failure = true },
                "local a = game.async\n"
                "a.run({ detached = true }, function() pcall(a.sleep, 1e9) a.shield(a.sleep, 5) note 'clean' end)\n"
                "local x <close> = setmetatable({}, { __close = function() a.sleep(1) end })\n"
                "error 'fails'");
            for (int i = 0; i < turns; i++)
                turn(rt);
            if (turns % 2) {
                unload_by_turns(rt, script);
            } else {
                assert_int_equal(orr_script_unload(script), 0);
            }
            if (turns > 2)
                assert_string_equal(noted, "clean;");
            if (shares)
                assert_int_equal(orr_lua_close(L), 0);
            assert_int_equal(orr_runtime_free(rt), 0);
            assert_int_equal(allocated_bytes, 0);
        }
    }
}

static const struct CMUnitTest terminate[] = {
    cmocka_unit_test(cleanup_of_an_isolate_has_one_grace_period),
    cmocka_unit_test(cleanup_of_a_script_that_shares_has_one_grace_period),
    cmocka_unit_test(cleanup_has_one_grace_period_when_the_runtime_ends),
    cmocka_unit_test(task_that_computes_leaves_others_time_to_clean_up),
    cmocka_unit_test(task_that_swallows_its_cancellation_is_ended_and_named),
    cmocka_unit_test(task_that_swallows_its_cancellation_without_waiting_is_told_so),
    cmocka_unit_test(turn_stays_short_while_a_script_is_unloaded),
    cmocka_unit_test(large_state_is_freed_in_many_turns),
    cmocka_unit_test(state_at_its_memory_limit_is_freed_in_many_turns),
    cmocka_unit_test(neighbours_go_on_while_a_script_is_unloaded),
    cmocka_unit_test(finalizers_have_no_more_than_the_grace_period),
    cmocka_unit_test(finalizers_that_end_are_all_called_in_their_order),
    cmocka_unit_test(setmetatable_of_trusted_scripts_is_as_lua_has_it),
    cmocka_unit_test(job_that_will_not_end_frees_its_thread),
    cmocka_unit_test(script_whose_body_fails_goes_on),
    cmocka_unit_test(script_whose_body_fails_ends_if_the_host_asked_for_that),
    cmocka_unit_test(script_that_ends_for_its_failure_can_be_unloaded_meanwhile),
};

HARNESS_MAIN(terminate)
