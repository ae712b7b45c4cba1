/*
 * Garbage, and the limits that keep each step of the collector short.  The tests check results,
 * turns and numbers of cycles, never durations.
 */
#include "lua_host.h"

#include "lua/isolate.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

static const struct collector *collector_of(lua_State *L)
{
    return &isolate_find(L)->collector;
}

static struct orr_lua_stats stats_of(lua_State *L)
{
    struct orr_lua_stats stats;
    assert_int_equal(orr_lua_stats(L, &stats), 0);
    return stats;
}

static unsigned ticks;

static int host_tick(lua_State *L)
{
    (void)L;
    ticks++;
    return 0;
}

/* Milliseconds of this thread's CPU time. */
static double cpu_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double hook_time; /* CPU time spent on setting hooks */

/* cpu(): CPU time, and the part of it that was spent on setting hooks. */
static int host_cpu(lua_State *L)
{
    lua_pushnumber(L, cpu_time());
    lua_pushnumber(L, hook_time);
    return 2;
}

void __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);
void __real_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);

void __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count)
{
    double before = cpu_time();
    __real_lua_sethook(L, hook, mask, count);
    hook_time += cpu_time() - before;
}

static const struct orr_lua_options patient = { .deadline_ns = { ORR_NEVER, ORR_NEVER, ORR_NEVER, ORR_NEVER, ORR_NEVER,
                                                                 ORR_NEVER, ORR_NEVER } };

static lua_State *with_functions(lua_State *L)
{
    ticks = 0;
    lua_register(L, "tick", host_tick);
    lua_register(L, "cpu", host_cpu);
    lua_register(L, "call_back", host_call_back);
    return L;
}

static lua_State *patient_trusted(struct orr_runtime *rt, struct orr_lua_options options)
{
    memcpy(options.deadline_ns, patient.deadline_ns, sizeof options.deadline_ns);
    return with_functions(open_trusted(rt, options));
}

/*
 * No script is ended for a long step, unless the test asks for that: a step is long on a slow
 * machine.
 */
static lua_State *patient_untrusted(struct orr_runtime *rt, struct orr_lua_options options)
{
    if (!options.longest_step_ns)
        options.longest_step_ns = ORR_NEVER;
    memcpy(options.deadline_ns, patient.deadline_ns, sizeof options.deadline_ns);
    return with_functions(open_isolate(rt, options));
}

static char message[8192]; /* the message of the last script that failed */

/* Runs a script to its end, in turns of 4 ms; returns its error. */
static int run(struct orr_runtime *rt, lua_State *L, const char *code)
{
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(orr_runtime_enter(rt), 0);
    const struct orr_result *result = orr_task_result(task);
    snprintf(message, sizeof message, "%s", result->message ? result->message : "");
    assert_int_equal(orr_runtime_leave(rt), 0);
    return error_of(rt, task);
}

static void run_well(struct orr_runtime *rt, lua_State *L, const char *code)
{
    if (run(rt, L, code))
        fail_msg("%s", message);
}

static void expect_noted(const char *text)
{
    assert_string_equal(noted, text);
    *noted = '\0';
}

static bool is_done(struct orr_runtime *rt, struct orr_task *task)
{
    assert_int_equal(orr_runtime_enter(rt), 0);
    bool done = orr_task_done(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    return done;
}

/* --- Pace ------------------------------------------------------------------------------------- */

static const char steady[] = "local keep = {} for i = 1, 20000 do keep[i] = { i } end\n"
                             "collectgarbage 'step' note(game.runtime.memory_used)\n"
                             "for i = 1, 30000 do local t = {} for j = 1, 20 do t[j] = { j } end end";

static void check_steady(struct orr_runtime *rt, lua_State *L)
{
    uint64_t before = collector_of(L)->cycles;
    run_well(rt, L, steady);
    size_t live = strtoul(noted, NULL, 10);
    assert_true(live > 500 * KB);
    assert_true(collector_of(L)->cycles >= before + 5);
    assert_true(stats_of(L).memory_peak < 4 * live);
    finish(rt, L);
}

static void memory_stays_bounded_while_a_script_makes_garbage(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    check_steady(rt, patient_untrusted(rt, (struct orr_lua_options){ 0 }));
}

static void memory_stays_bounded_in_a_trusted_state(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    check_steady(rt, patient_trusted(rt, (struct orr_lua_options){ 0 }));
}

static void memory_stays_bounded_where_instructions_are_counted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    check_steady(
        rt, patient_untrusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = ORR_NEVER }));
}

static void state_without_limits_on_time_keeps_luas_own_collector(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_OFF });
    run_well(rt, L, steady);
    size_t live = strtoul(noted, NULL, 10);
    assert_int_equal(collector_of(L)->cycles, 0);
    assert_true(stats_of(L).memory_peak < 4 * live);
    *noted = '\0';
    run_well(rt, L,
             "note(collectgarbage 'isrunning') note(collectgarbage())\n"
             "note(collectgarbage 'generational') note(collectgarbage 'incremental')");
    expect_noted("true;0;incremental;generational;");
    finish(rt, L);
}

static void garbage_is_collected_while_the_host_runs_lua_outside_of_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    load(L, "for i = 1, 300000 do local t = { i, {} } end");
    assert_int_equal(lua_pcall(L, 0, 0, 0), LUA_OK);
    assert_true(stats_of(L).memory_peak < 8 * MB); /* of about 40 MB allocated */
    /* Afterwards the runtime steps the collector again. */
    run_well(rt, L, "for i = 1, 300000 do local t = { i, {} } end");
    assert_true(collector_of(L)->cycles > 0);
    assert_false(collector_of(L)->left_to_lua);
    finish(rt, L);
}

static const char makes_a_heap[] = "heap = {} for i = 1, 100000 do heap[i] = { i } end collectgarbage() note 'made'";

/* While collector work is owed, no Lua of the isolate runs, not even the next task. */
static void owed_collector_work_is_done_before_any_lua_of_the_isolate_goes_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, makes_a_heap);
    struct orr_task *task = start(L, "local done\n"
                                     "local other = game.async.run(function()\n"
                                     "  while not done do tick() game.async.checkpoint() end\n"
                                     "end)\n"
                                     "game.async.sleep(0)\n"
                                     "for i = 1, 5 do collectgarbage() game.async.sleep(0) end\n"
                                     "done = true game.async.await(other)");
    unsigned waits = 0;
    while (!is_done(rt, task)) {
        bool owed = collector_owes(isolate_find(L));
        unsigned before = ticks;
        uint64_t cycles = collector_of(L)->cycles;
        assert_true(orr_runtime_turn(rt, MS / 2) >= 0);
        if (!owed || !collector_owes(isolate_find(L)) || collector_of(L)->cycles != cycles)
            continue;
        waits++;
        assert_int_equal(ticks, before);
    }
    assert_int_equal(error_of(rt, task), 0);
    assert_true(waits >= 5);
    assert_true(ticks > 0);
    finish(rt, L);
}

static void collector_work_counts_against_the_deadline_of_the_script(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, makes_a_heap);
    *noted = '\0';
    struct orr_task *task = start(L, "local cpu_before, before = cpu(), game.runtime.time_used\n"
                                     "local took repeat collectgarbage() took = cpu() - cpu_before until took > 50\n"
                                     "note((game.runtime.time_used - before) / took > 0.5)");
    assert_true(turn_until_done(rt, task, MS / 2) >= 20);
    assert_int_equal(error_of(rt, task), 0);
    expect_noted("true;");
    finish(rt, L);
}

static void script_that_only_collects_meets_its_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, makes_a_heap);
    assert_int_equal(orr_lua_close(L), 0);
    L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 200 * MS } });
    struct orr_task *task = start(L,
                                  "heap = {} for i = 1, 1e4 do heap[i] = { i } end while true do collectgarbage() end");
    turn_until_done(rt, task, MS / 2);
    assert_int_equal(error_of(rt, task), -ETIME);
    finish(rt, L);
}

/* --- At the memory limit ---------------------------------------------------------------------- */

/* The script stops the collector, so all garbage is still there when the limit is reached. */
static void limit_is_no_error_when_collecting_helps(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ .memory_limit = 16 * MB });
    lua_State *other = patient_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *neighbour = start(other, "while true do tick() game.async.sleep(0) end");
    struct orr_task *task = start(L, "local keep = {} for i = 1, 50000 do keep[i] = { i } end\n"
                                     "collectgarbage 'stop'\n"
                                     "for i = 1, 300000 do local t = { i, {} } end note 'through'");
    unsigned paying = 0, neighbours = 0;
    while (!is_done(rt, task)) {
        unsigned before = ticks;
        assert_true(orr_runtime_turn(rt, MS) >= 0);
        if (!collector_owes(isolate_find(L)))
            continue;
        paying++;
        neighbours += ticks - before;
    }
    assert_int_equal(error_of(rt, task), 0);
    expect_noted("through;");
    assert_true(collector_of(L)->cycles >= 1);
    assert_true(paying >= 3);     /* turns in which the script was suspended to collect */
    assert_true(neighbours >= 3); /* turns in which other tasks ran */
    assert_true(stats_of(L).memory_peak < 18 * MB);
    orr_runtime_enter(rt);
    orr_task_unref(neighbour);
    orr_runtime_leave(rt);
    assert_int_equal(orr_lua_close(other), 0);
    finish(rt, L);
}

static void limit_is_an_error_after_whole_cycles_that_did_not_help(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ .memory_limit = 8 * MB });
    struct orr_task *task = start(L, "collectgarbage 'stop'\n"
                                     "local ok, e = pcall(function()\n"
                                     "  local keep = {} while true do keep[#keep + 1] = { #keep } end\n"
                                     "end)\n"
                                     "note(ok) note(e) collectgarbage() note(game.runtime.memory_used < 1e6)");
    unsigned paying = 0;
    while (!is_done(rt, task)) {
        assert_true(orr_runtime_turn(rt, MS) >= 0);
        paying += collector_owes(isolate_find(L));
    }
    assert_int_equal(error_of(rt, task), 0);
    expect_noted("false;not enough memory;true;");
    assert_true(paying >= 3);
    assert_true(collector_of(L)->cycles >= 2);
    assert_true(stats_of(L).memory_peak < 17 * MB);
    finish(rt, L);
}

static void finalizers_may_allocate_at_the_limit(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ .memory_limit = 4 * MB });
    run_well(rt, L,
             "ran, failed = 0, 0\n"
             "local function finalize()\n"
             "  ran = ran + 1\n"
             "  if not pcall(function() local t = {} for i = 1, 300 do t[i] = { i } end end) then\n"
             "    failed = failed + 1\n"
             "  end\n"
             "end\n"
             "collectgarbage 'stop'\n"
             "for i = 1, 60000 do\n"
             "  local t = i % 100 == 0 and setmetatable({}, { __gc = finalize }) or { i, {} }\n"
             "end\n"
             "collectgarbage() note(ran) note(failed)");
    expect_noted("600;0;");
    finish(rt, L);
}

/* --- Limits of one object --------------------------------------------------------------------- */

static void list_that_is_too_long_is_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_list = 4096 });
    run_well(rt, L,
             "local t = {} for i = 1, 4096 do t[i] = i end note(#t)\n"
             "note(select(2, pcall(function() local t = {} for i = 1, 1e6 do t[i] = i end end)))\n"
             "note 'on'");
    expect_noted("4096;script:2: table too large: a list grew beyond 4096 elements;on;");
    run_well(rt, L, "note 'later'");
    expect_noted("later;");
    finish(rt, L);
}

static void table_with_too_many_keys_is_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .most_keys = 4096 });
    run_well(rt, L,
             "local t = {} for i = 1, 4096 do t['k' .. i] = i end note(t.k4096)\n"
             "note(select(2, pcall(function() local t = {} for i = 1, 1e6 do t['k' .. i] = i end end)))\n"
             "note 'on'");
    expect_noted("4096;script:2: table too large: it has more than 4096 keys;on;");
    finish(rt, L);
}

static void too_many_short_strings_are_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .most_strings = 8192 });
    run_well(rt, L,
             "local n = 0 for i = 1, 1e5 do n = n + #('s' .. i) end note(n)\n"
             "note(select(2, pcall(function() local t = {} for i = 1, 1e5 do t[i] = 's' .. i end end)))\n"
             "note 'on'");
    expect_noted("588895;script:2: too many different short strings: more than 8192;on;");
    finish(rt, L);
}

static void string_that_is_too_long_is_an_error(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_string = 1000000 });
    run_well(rt, L,
             "local s = ('x'):rep(500000) note(#(s .. s))\n"
             "note(select(2, pcall(function() return #(s .. s .. 'more than that, and more than a header is,"
             " which is not counted to the byte') end)))\n"
             "note 'on'");
    assert_non_null(strstr(noted, "1000000;script:"));
    assert_non_null(strstr(noted, "string too long: 10000"));
    assert_non_null(strstr(noted, "and may have 1000000;on;"));
    finish(rt, L);
}

/*
 * Lua doubles stacks, gives them what a call needs, and shrinks them to twice what is in use.  So
 * the sizes are irregular after the first error.
 */
static void stack_that_is_too_deep_is_an_error_each_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .deepest_stack = 8192, .longest_list = 65536 });
    run_well(
        rt, L,
        "local function deep() return 1 + deep() end\n"
        "local function wide(n) local a, b, c, d, e, f, g = 1, 2, 3, 4, 5, 6, 7 return 1 + wide(n + 1) + a + g end\n"
        "local count, list = 0, {}\n"
        "for i = 1, 30 do\n"
        "  local run = i % 3 == 0 and wide or deep\n"
        "  local ok, err\n"
        "  if i % 2 == 0 then ok, err = pcall(run, 1) else ok, err = coroutine.resume(coroutine.create(run), 1) end\n"
        "  if err:find 'more than 8192 values on one stack' then count = count + 1 else note(err) end\n"
        "end\n"
        "for i = 1, 20000 do list[i] = i end\n"
        "note(count) note(#{ 0, table.unpack(list, 1, 7000) })\n" /* a list is no stack */
        "local s = {} for i = 1, 300 do s[i] = ('x'):rep(1000) end note(#table.concat(s))");
    expect_noted("30;7001;300000;");
    assert_int_equal(notices[ORR_LUA_ENDED], 0);
    finish(rt, L);
}

static const char large_things[] = "local t = {} for i = 1, 300000 do t[i] = i end\n"
                                   "local k = {} for i = 1, 70000 do k['key' .. i] = i end\n"
                                   "local s = ('x'):rep(5000000) s = s .. s\n"
                                   "note(#t) note(k.key70000) note(#s)";

static void trusted_state_has_none_of_these_limits(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, large_things);
    expect_noted("300000;70000;10000000;");
    finish(rt, L);
}

static void host_can_lift_each_limit(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_list = UINT_MAX,
                                                                   .most_keys = UINT_MAX,
                                                                   .most_strings = UINT_MAX,
                                                                   .longest_string = SIZE_MAX,
                                                                   .longest_step_ns = ORR_NEVER });
    run_well(rt, L, large_things);
    expect_noted("300000;70000;10000000;");
    assert_int_equal(notices[ORR_LUA_ENDED], 0);
    finish(rt, L);
}

static void untrusted_state_has_limits_by_default(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L,
             "local function try(f) note(select(2, pcall(f)):match ': (.*)') end\n"
             "try(function() local t = {} for i = 1, 1e6 do t[i] = i end end)\n"
             "try(function() local t = {} for i = 1, 1e6 do t[i + 0.5] = i end end)\n"
             "try(function() local s = ('x'):rep(5000000) s = s .. s end)\n"
             "try(function()\n"
             "  local t = {} for i = 1, 100 do t[i] = {} for j = 1, 1000 do t[i][j] = i .. ' ' .. j end end\n"
             "end)");
    expect_noted("table too large: a list grew beyond 262144 elements;"
                 "table too large: it has more than 32768 keys;"
                 "string too long: 10000000 bytes, and may have 8388608;"
                 "too many different short strings: more than 65536;");
    finish(rt, L);
}

static void longest_step_is_limited_by_default_only_where_nobody_is_trusted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L;
    assert_int_equal(__real_orr_lua_new(rt, NULL, &L), 0);
    assert_int_equal(isolate_find(L)->limits.longest_step_ns, 8 * MS);
    assert_int_equal(orr_lua_close(L), 0);
    L = open_isolate(rt, (struct orr_lua_options){ .longest_step_ns = ORR_NEVER });
    assert_int_equal(isolate_find(L)->limits.longest_step_ns, 0);
    assert_int_equal(orr_lua_close(L), 0);
    L = open_trusted(rt, (struct orr_lua_options){ 0 });
    assert_int_equal(isolate_find(L)->limits.longest_step_ns, 0);
    finish(rt, L);
}

/* The string's buffers have the sizes of a large table, and bytes that look like tags of values. */
static void buffer_of_a_string_is_not_taken_for_a_table(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_string = 32 * MB });
    run_well(rt, L,
             "for _, size in ipairs { 24 * 65536, 16 * 524288 } do\n"
             "  for _, byte in ipairs { '\\0', '\\3', 'x' } do\n"
             "    local s = byte:rep(size) assert(#s == size)\n"
             "    s = nil\n"
             "    local t, part = {}, byte:rep(size / 64) for i = 1, 64 do t[i] = part end\n"
             "    s = table.concat(t) assert(#s == size)\n"
             "    s = s:gsub('y', 'z') assert(#s == size)\n"
             "    s = s:upper() assert(#s == size)\n"
             "    note 'ok'\n"
             "  end\n"
             "end");
    expect_noted("ok;ok;ok;ok;ok;ok;");
    finish(rt, L);
}

/* --- Objects with finalizers ------------------------------------------------------------------ */

static const char makes_objects[] =
    "local async, makers = game.async, {}\n"
    "for _, name in ipairs { 'event', 'mutex', 'condition', 'future', 'queue' } do makers[name] = async[name] end\n"
    "makers.semaphore = function() return async.semaphore(1) end\n"
    "makers.channel, makers.timer = game.worker.channel, game.loop.new_timer\n"
    "local kinds = {} for name in pairs(makers) do kinds[#kinds + 1] = name end table.sort(kinds)\n"
    "for _, name in ipairs(kinds) do\n"
    "  local keep, ok, e = {}, true\n"
    "  while ok and #keep < 5000 do ok, e = pcall(function() keep[#keep + 1] = makers[name]() end) end\n"
    "  note(name .. ' ' .. #keep)\n"
    "  if e then note(e:match '[^:]*$') end\n"
    "  for i = 1, #keep do keep[i] = nil end keep = nil\n"
    "  repeat until collectgarbage 'step' repeat until collectgarbage 'step'\n"
    "end";

static void too_many_objects_are_an_error_until_some_are_garbage(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .max_objects = 1000 });
    run_well(rt, L, makes_objects);
    static const char *const kinds[] = { "channel", "condition", "event",     "future",
                                         "mutex",   "queue",     "semaphore", "timer" };
    char *at = noted;
    for (size_t i = 0; i < LENGTH(kinds); i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "%s 1000; the limit is 1000; close or drop those that are not needed;",
                 kinds[i]);
        if (strncmp(at, expected, strlen(expected)) != 0)
            fail_msg("expected %s, got %s", expected, at);
        at += strlen(expected);
    }
    finish(rt, L);
}

static void objects_that_are_garbage_do_not_count(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .max_objects = 10000 });
    run_well(rt, L, "for i = 1, 100000 do game.async.future():complete(nil, i) end note 'made'");
    expect_noted("made;");
    assert_true(collector_of(L)->cycles >= 10);
    finish(rt, L);
}

/*
 * Otherwise all objects would become garbage at once, and the collector would finalize them in one
 * step.
 */
static void cycle_is_forced_after_some_thousand_objects(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, "heap = {} for i = 1, 200000 do heap[i] = { i } end repeat until collectgarbage 'step'");
    uint64_t before = collector_of(L)->cycles;
    run_well(rt, L, "for i = 1, 40000 do game.async.mutex() end");
    assert_true(collector_of(L)->cycles >= before + 4);
    finish(rt, L);
}

static void trusted_state_has_no_limit_of_objects(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, "local keep = {} for i = 1, 60000 do keep[i] = game.async.event() end note(#keep)");
    expect_noted("60000;");
    assert_int_equal(orr_lua_close(L), 0);
    L = patient_untrusted(rt, (struct orr_lua_options){ .max_objects = UINT_MAX });
    run_well(rt, L, "local keep = {} for i = 1, 60000 do keep[i] = game.async.event() end note(#keep)");
    expect_noted("60000;");
    finish(rt, L);
}

/* --- Ended scripts ---------------------------------------------------------------------------- */

static const char insists[] = "game.events:on('e', function() note 'handled' end)\n"
                              "game.loop.set_interval(1, function() note 'timer' end)\n"
                              "game.async.run({ detached = true }, function() game.async.sleep(1) note 'task' end)\n"
                              "t = {} while true do pcall(function() while true do t[#t + 1] = 1 end end) end";

static void script_that_hits_a_limit_again_and_again_is_ended(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_list = 4096 });
    assert_int_not_equal(run(rt, L, insists), 0);
    assert_int_equal(notices[ORR_LUA_ENDED], 1);
    assert_non_null(strstr(notice_text, "a list grew beyond 4096 elements"));
    finish(rt, L);
}

/* A list of a million slots is nearly as long as the longest stack. */
static void list_is_not_taken_for_a_stack(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ 0 });
    assert_int_not_equal(run(rt, L, insists), 0);
    assert_non_null(strstr(notice_text, "a list grew beyond 262144 elements"));
    finish(rt, L);
}

static void job_that_is_ended_tells_its_caller_why(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_list = 4096 });
    run_well(rt, L,
             "local job = game.worker.new [[\n"
             "  local t = {} while true do pcall(function() for i = #t + 1, 1e7 do t[i] = i end end) end\n"
             "]]\n"
             "local ok, e = pcall(job.call, job) note(e:match '[^\\n]*')");
    expect_noted("Script ended: table too large: a list grew beyond 4096 elements;");
    finish(rt, L);
}

static void no_lua_of_an_ended_script_runs(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_list = 4096 });
    assert_int_not_equal(run(rt, L, insists), 0);
    lua_pushnil(L);
    orr_events_emit(L, "e");
    lua_settop(L, 0);
    for (int i = 0; i < 20; i++)
        assert_true(orr_runtime_turn(rt, 2 * MS) >= 0);
    load(L, "note 'called' for i = 1, 1e9 do end note 'through'");
    assert_int_not_equal(orr_lua_call(L, 0, 0, ORR_NEVER), 0);
    lua_settop(L, 0);
    struct orr_task *task;
    load(L, "note 'started'");
    assert_int_not_equal(orr_lua_start(L, 0, "script", &task), 0);
    lua_settop(L, 0);
    load(L, "return pcall(game.async.run, function() note 'run' end)");
    orr_lua_call(L, 0, 2, ORR_NEVER);
    assert_null(strstr(noted, "started"));
    assert_null(strstr(noted, "run"));
    assert_null(strstr(noted, "through"));
    assert_null(strstr(noted, "handled"));
    assert_null(strstr(noted, "timer"));
    assert_null(strstr(noted, "task"));
    assert_int_equal(notices[ORR_LUA_ENDED], 1);
    finish(rt, L);
}

static void script_whose_garbage_takes_too_long_in_one_piece_is_ended(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ .longest_step_ns = MS });
    uint64_t before = collector_of(L)->cycles;
    assert_int_not_equal(
        run(rt, L,
            "collectgarbage 'stop'\n"
            "local keys, order = {}, {} for i = 1, 4000 do keys[i], order[i] = {}, i end\n"
            "for i = 4000, 2, -1 do local j = math.random(i) order[i], order[j] = order[j], order[i] end\n"
            "local weak = {} first = keys[1]\n"
            "for _, i in ipairs(order) do weak[keys[i]] = keys[i + 1] or 1 end keys = nil\n"
            "setmetatable(weak, { __mode = 'k' }) collectgarbage()"),
        0);
    assert_int_equal(notices[ORR_LUA_ENDED], 1);
    assert_non_null(strstr(notice_text, "in one piece"));
    /* At once, not after a growth from cycle to cycle. */
    assert_true(collector_of(L)->cycles < before + 3);
    if (!strstr(message, "Script ended: its garbage took"))
        fail_msg("%s", message);
    finish(rt, L);
}

static void neighbour_of_an_ended_script_goes_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .longest_step_ns = 1000 });
    lua_State *other = patient_untrusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(other, "for i = 1, 3 do game.async.sleep(1) note(i) end");
    assert_int_not_equal(run(rt, L, "while true do local t = {} end"), 0);
    turn_until_done(rt, task, MS);
    assert_int_equal(error_of(rt, task), 0);
    expect_noted("1;2;3;");
    assert_int_equal(orr_lua_close(other), 0);
    finish(rt, L);
}

/* --- collectgarbage --------------------------------------------------------------------------- */

static void collecting_suspends_the_script(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, "heap = {} for i = 1, 1000000 do heap[i] = { i } end");
    *noted = '\0';
    int preemptions = runtime_stat(L, "preemptions");
    struct orr_task *task = start(L, "local weak = setmetatable({ {} }, { __mode = 'v' })\n"
                                     "note(collectgarbage()) note(weak[1])");
    assert_true(turn_until_done(rt, task, MS / 2) >= 4);
    assert_int_equal(error_of(rt, task), 0);
    assert_true(runtime_stat(L, "preemptions") > preemptions);
    expect_noted("0;nil;");
    finish(rt, L);
}

static void script_that_cannot_be_suspended_collects_at_once(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, makes_a_heap);
    *noted = '\0';
    run_well(rt, L,
             "local function try(name)\n"
             "  local weak = setmetatable({ {} }, { __mode = 'v' })\n"
             "  collectgarbage() note(name .. ' ' .. tostring(weak[1]))\n"
             "end\n"
             "local once = true\n"
             "table.sort({ 2, 1 }, function(a, b) if once then once = false try 'sort' end return a < b end)\n"
             "tostring(setmetatable({}, { __tostring = function() try 'tostring' return '' end }))\n"
             "once = true\n"
             "debug.sethook(function() if once then once = false try 'hook' end end, '', 1)\n"
             "local n = 0 for i = 1, 10 do n = n + i end debug.sethook()\n"
             "do local c <close> = setmetatable({}, { __close = function() try 'close' end }) end\n"
             "coroutine.wrap(function() try 'coroutine' end)()\n"
             "call_back(function() try 'host' end)");
    expect_noted("sort nil;tostring nil;hook nil;close nil;coroutine nil;host nil;");
    finish(rt, L);
}

static void finalizer_cannot_collect_and_is_told_so(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L,
             "setmetatable({}, { __gc = function() note(collectgarbage()) note(collectgarbage 'step') end })\n"
             "collectgarbage() note 'on'");
    expect_noted("nil;nil;on;");
    finish(rt, L);
}

static void step_is_true_at_the_end_of_a_cycle(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, makes_a_heap);
    *noted = '\0';
    uint64_t cycles = collector_of(L)->cycles;
    run_well(rt, L,
             "collectgarbage 'stop'\n"
             "repeat until collectgarbage 'step' note(collectgarbage('step', 1 << 20))");
    expect_noted("true;");
    assert_int_equal(collector_of(L)->cycles, cycles + 2);
    finish(rt, L);
}

static void stopped_collector_stands_still_until_it_is_restarted(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L, "note(collectgarbage 'isrunning') note(collectgarbage 'stop') note(collectgarbage 'isrunning')");
    expect_noted("true;0;false;");
    uint64_t cycles = collector_of(L)->cycles;
    run_well(rt, L, "for i = 1, 1e5 do local t = { i, {} } end");
    assert_int_equal(collector_of(L)->cycles, cycles);
    assert_true(stats_of(L).memory_used > 10 * MB);
    run_well(rt, L,
             "note(collectgarbage 'restart') note(collectgarbage 'isrunning')\n"
             "for i = 1, 3e5 do local t = { i, {} } end");
    expect_noted("0;true;");
    assert_true(collector_of(L)->cycles > cycles);
    finish(rt, L);
}

static void collectgarbage_remembers_what_a_script_sets(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L,
             "note(collectgarbage 'generational') note(collectgarbage 'generational')\n"
             "note(collectgarbage 'incremental') note(collectgarbage 'incremental')\n"
             "note(collectgarbage('setpause', 300)) note(collectgarbage('setpause', 200))\n"
             "note(collectgarbage('setstepmul', 150)) note(collectgarbage('setstepmul', 100))\n"
             "note(select('#', pcall(collectgarbage, 'nonsense')))");
    expect_noted("incremental;generational;generational;incremental;200;300;100;150;2;");
    finish(rt, L);
}

static void untrusted_script_can_only_count_and_step(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L,
             "note(collectgarbage 'count' > 1) note(type(collectgarbage 'step'))\n"
             "local refused = 0\n"
             "for _, name in ipairs { 'collect', 'stop', 'restart', 'setpause', 'setstepmul', 'isrunning',\n"
             "    'generational', 'incremental' } do\n"
             "  local ok, e = pcall(collectgarbage, name)\n"
             "  if not ok and e:find(\"'\" .. name .. \"' is refused\", 1, true) then refused = refused + 1 end\n"
             "end\n"
             "note(refused)");
    expect_noted("true;boolean;8;");
    finish(rt, L);
}

/* --- What a script does not notice ------------------------------------------------------------ */

static const char counts_events[] =
    "local pressure = ...\n"
    "local counts = { call = 0, ['return'] = 0, line = 0, ['tail call'] = 0, count = 0 }\n"
    "local hold\n"
    "local function leaf(x)\n"
    "  return x + 1\n"
    "end\n"
    "local function tail(x) return leaf(x) end\n"
    "local function work()\n"
    "  local n = 0\n"
    "  for i = 1, 3000 do\n"
    "    n = tail(n)\n"
    "    n = leaf(n)\n"
    "    hold = garbage(i)\n"
    "  end\n"
    "  return n\n"
    "end\n"
    "debug.sethook(function(event) counts[event] = counts[event] + 1 end, 'crl')\n"
    "work()\n"
    "debug.sethook()\n"
    "note(counts.call) note(counts['return']) note(counts.line) note(counts['tail call'])";

static bool makes_garbage;

/* Written in C, so that hooks of the script see the same events with and without garbage. */
static int host_garbage(lua_State *L)
{
    for (int i = 0; makes_garbage && i < 20; i++) {
        lua_createtable(L, 20, 0);
        lua_pop(L, 1);
    }
    return 0;
}

static void hooks_of_a_script_see_the_same_events_while_garbage_is_collected(void **state)
{
    (void)state;
    char quiet[sizeof noted];
    for (int round = 0; round < 2; round++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = patient_trusted(rt, (struct orr_lua_options){ 0 });
        lua_register(L, "garbage", host_garbage);
        makes_garbage = round;
        if (!round)
            run_well(rt, L, "collectgarbage 'stop'");
        run_well(rt, L, counts_events);
        if (!round)
            snprintf(quiet, sizeof quiet, "%s", noted);
        else
            assert_true(collector_of(L)->cycles >= 3);
        assert_string_equal(noted, quiet);
        finish(rt, L);
    }
}

static void weak_tables_keep_metatables_that_they_are_given_meanwhile(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ 0 });
    run_well(rt, L,
             "local all = {}\n"
             "for i = 1, 300 do all[i] = setmetatable({}, { __mode = 'kv' }) end\n"
             "for round = 1, 300 do\n"
             "  for i = round % 7 + 1, 300, 7 do\n"
             "    setmetatable(all[i], { __mode = 'kv', tag = 'tag' .. i, __index = { i } })\n"
             "  end\n"
             "  for _ = 1, round % 4 do collectgarbage 'step' end\n"
             "  for i = 1, 300 do\n"
             "    local mt = getmetatable(all[i])\n"
             "    assert(mt.__mode == 'kv' and (not mt.tag or mt.tag == 'tag' .. i and all[i][1] == i))\n"
             "  end\n"
             "end note 'same'");
    expect_noted("same;");
    assert_true(collector_of(L)->cycles > 5);
    finish(rt, L);
}

/*
 * Setting a hook visits all frames of a coroutine.  Each slice does it; garbage must add little to
 * that.
 */
static void deep_recursion_that_allocates_spends_little_time_on_hooks(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = patient_untrusted(rt, (struct orr_lua_options){ .deepest_stack = UINT_MAX });
    run_well(rt, L,
             "local function burn()\n"
             "  local began, hooks_began = cpu()\n"
             "  for i = 1, 500000 do local t = { i } end\n"
             "  local ended, hooks_ended = cpu()\n"
             "  note((hooks_ended - hooks_began) / (ended - began))\n"
             "end\n"
             "local function deep(n) if n == 0 then return burn() end local r = deep(n - 1) return r end\n"
             "deep(180000)");
    print_message("setting hooks took %s of the time\n", noted);
    assert_true(strtod(noted, NULL) < 0.8);
    finish(rt, L);
}

static const struct CMUnitTest collector_tests[] = {
    cmocka_unit_test(memory_stays_bounded_while_a_script_makes_garbage),
    cmocka_unit_test(memory_stays_bounded_in_a_trusted_state),
    cmocka_unit_test(memory_stays_bounded_where_instructions_are_counted),
    cmocka_unit_test(state_without_limits_on_time_keeps_luas_own_collector),
    cmocka_unit_test(garbage_is_collected_while_the_host_runs_lua_outside_of_tasks),
    cmocka_unit_test(owed_collector_work_is_done_before_any_lua_of_the_isolate_goes_on),
    cmocka_unit_test(collector_work_counts_against_the_deadline_of_the_script),
    cmocka_unit_test(script_that_only_collects_meets_its_deadline),
    cmocka_unit_test(limit_is_no_error_when_collecting_helps),
    cmocka_unit_test(limit_is_an_error_after_whole_cycles_that_did_not_help),
    cmocka_unit_test(finalizers_may_allocate_at_the_limit),
    cmocka_unit_test(list_that_is_too_long_is_an_error),
    cmocka_unit_test(table_with_too_many_keys_is_an_error),
    cmocka_unit_test(too_many_short_strings_are_an_error),
    cmocka_unit_test(string_that_is_too_long_is_an_error),
    cmocka_unit_test(stack_that_is_too_deep_is_an_error_each_time),
    cmocka_unit_test(trusted_state_has_none_of_these_limits),
    cmocka_unit_test(host_can_lift_each_limit),
    cmocka_unit_test(untrusted_state_has_limits_by_default),
    cmocka_unit_test(longest_step_is_limited_by_default_only_where_nobody_is_trusted),
    cmocka_unit_test(buffer_of_a_string_is_not_taken_for_a_table),
    cmocka_unit_test(too_many_objects_are_an_error_until_some_are_garbage),
    cmocka_unit_test(objects_that_are_garbage_do_not_count),
    cmocka_unit_test(cycle_is_forced_after_some_thousand_objects),
    cmocka_unit_test(trusted_state_has_no_limit_of_objects),
    cmocka_unit_test(script_that_hits_a_limit_again_and_again_is_ended),
    cmocka_unit_test(list_is_not_taken_for_a_stack),
    cmocka_unit_test(job_that_is_ended_tells_its_caller_why),
    cmocka_unit_test(no_lua_of_an_ended_script_runs),
    cmocka_unit_test(script_whose_garbage_takes_too_long_in_one_piece_is_ended),
    cmocka_unit_test(neighbour_of_an_ended_script_goes_on),
    cmocka_unit_test(collecting_suspends_the_script),
    cmocka_unit_test(script_that_cannot_be_suspended_collects_at_once),
    cmocka_unit_test(finalizer_cannot_collect_and_is_told_so),
    cmocka_unit_test(step_is_true_at_the_end_of_a_cycle),
    cmocka_unit_test(stopped_collector_stands_still_until_it_is_restarted),
    cmocka_unit_test(collectgarbage_remembers_what_a_script_sets),
    cmocka_unit_test(untrusted_script_can_only_count_and_step),
    cmocka_unit_test(hooks_of_a_script_see_the_same_events_while_garbage_is_collected),
    cmocka_unit_test(weak_tables_keep_metatables_that_they_are_given_meanwhile),
    cmocka_unit_test(deep_recursion_that_allocates_spends_little_time_on_hooks),
};

HARNESS_MAIN(collector_tests)
