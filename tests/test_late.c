/*
 * What is made late (src/lua/isolate/late.h): the API where only `require` finds it, and the files
 * of `eventloop` and `worker`.  Scripts must not see that, and must not change what is made.
 */
#include "failing.h"
#include "harness.h"
#include "lua_host.h"

#include "lua/isolate.h"

#include <errno.h>
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

/* A trusted isolate without a global for the API, so that `require` makes it. */
static lua_State *open_late(struct orr_runtime *rt, struct orr_lua_options options)
{
    lua_State *L;
    options.profile = ORR_LUA_TRUSTED;
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    lua_register(L, "note", host_note);
    return L;
}

static struct orr_runtime *virtual_runtime(void)
{
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = counting_alloc });
    assert_non_null(rt);
    return rt;
}

static void expect_notes(struct orr_runtime *rt, lua_State *L, const char *code, const char *expected)
{
    noted[0] = '\0';
    struct orr_task *task = start(L, code);
    assert_int_equal(orr_runtime_run(rt), 0);
    expect_success(rt, task);
    assert_string_equal(noted, expected);
}

static void run_late(const char *code, const char *expected)
{
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L = open_late(rt, (struct orr_lua_options){ 0 });
    expect_notes(rt, L, code, expected);
    finish_counting(rt, L);
}

/* The script gets the API as `game`. */
static void run_mounted(enum orr_lua_profile profile, const char *code, const char *expected)
{
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = profile });
    expect_notes(rt, L, code, expected);
    finish_counting(rt, L);
}

static void run_in_both_profiles(const char *code, const char *expected)
{
    run_mounted(ORR_LUA_TRUSTED, code, expected);
    run_mounted(ORR_LUA_UNTRUSTED, code, expected);
}

/* --- The late API ----------------------------------------------------------------------------- */

static void require_makes_the_api_once(void **state)
{
    (void)state;
    run_late(
        "note(package.loaded.orrery)\n"
        "local o = require 'orrery'\n"
        "note(o == require 'orrery' and o == package.loaded.orrery)\n"
        "note(package.preload.orrery() == o)\n"
        "local names = {}\n"
        "for name in next, o do names[#names + 1] = name end\n"
        "table.sort(names)\n"
        "note(table.concat(names, ' '))\n",
        "nil;true;true;async eventloop events fs grants json loop net runtime schedule schedule_wrap values version "
        "worker;");
}

static void an_isolate_is_smaller_until_the_api_is_required(void **state)
{
    (void)state;
    run_late("collectgarbage() local before = collectgarbage('count')\n"
             "require 'orrery' collectgarbage()\n"
             "note(collectgarbage('count') > before * 1.2)\n",
             "true;");
}

static void modules_that_the_host_withholds_are_not_in_a_late_api(void **state)
{
    (void)state;
    static const char *const some[] = { "async", "json", NULL };
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L;
    struct orr_lua_options options = { .profile = ORR_LUA_TRUSTED, .modules = some };
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    lua_register(L, "note", host_note);
    expect_notes(rt, L, "local o = require 'orrery' note(type(o.async)) note(o.worker) note(o.events)",
                 "table;nil;nil;");
    finish_counting(rt, L);
}

/* What a script has changed before is not used: the API's functions behave as ever. */
static const char tampering[] =
    "for _, library in next, { string, table, math } do\n"
    "  for name in next, library do library[name] = function() note('tampered') end end\n"
    "end\n"
    "for _, name in next, { 'error', 'getmetatable', 'ipairs', 'next', 'pairs', 'pcall', 'rawget', 'rawlen',\n"
    "                       'rawset', 'select', 'setmetatable', 'tostring', 'type' } do _G[name] = nil end\n";

static void a_script_cannot_change_what_require_makes(void **state)
{
    (void)state;
    char code[2048];
    snprintf(code, sizeof code,
             "local pcall = pcall\n"
             "%s"
             "local o = require 'orrery'\n"
             "local a = o.async\n"
             "note((a.await_any { a.run(a.sleep, 1) }))\n"
             "local ok, err = pcall(a.timeout, 'x') note(err)\n"
             "o.events:on('e', function(v) note(v) end) o.events:emit('e', 7)\n",
             tampering);
    run_late(code, "1;async.timeout: expected milliseconds, got string;7;");
}

static void a_misspelt_global_gets_its_hint_without_the_api(void **state)
{
    (void)state;
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L = open_late(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "sleep(1)");
    assert_int_equal(orr_runtime_run(rt), 0);
    error_of(rt, task);
    assert_non_null(strstr(sink_text, "did you mean async.sleep?"));
    finish_counting(rt, L);
}

static void an_event_of_the_host_makes_the_api(void **state)
{
    (void)state;
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L = open_late(rt, (struct orr_lua_options){ 0 });
    lua_pushinteger(L, 1);
    assert_int_equal(orr_events_emit(L, "early"), 0);
    expect_notes(rt, L, "require('orrery').events:on('now', function(v) note(v) end)", "");
    lua_pushinteger(L, 2);
    assert_int_equal(orr_events_emit(L, "now"), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "2;");
    finish_counting(rt, L);
}

static void modules_that_two_tasks_require_are_loaded_once(void **state)
{
    (void)state;
    run_late("local a = require 'orrery'.async\n"
             "package.preload.slow = function() note('loads') a.sleep(5) return { 1 } end\n"
             "local one = a.run(require, 'slow')\n"
             "local other = a.run(require, 'slow')\n"
             "note(a.await(one) == a.await(other))",
             "loads;true;");
}

static void a_finalizer_cannot_make_a_second_api(void **state)
{
    (void)state;
    run_late("local inner\n"
             "local function again() local ok, o = pcall(require, 'orrery') inner = ok and o end\n"
             "for i = 1, 100 do setmetatable({}, { __gc = again }) end\n"
             "local o = require 'orrery'\n"
             "collectgarbage()\n"
             "note(not inner or inner == o)\n"
             "note(o == require 'orrery')",
             "true;true;");
}

/* --- Late files ------------------------------------------------------------------------------- */

static void the_tables_of_late_modules_are_complete_from_the_start(void **state)
{
    (void)state;
    static const char code[] = "local function fields(t)\n"
                               "  local names = {}\n"
                               "  for name, value in pairs(t) do names[#names + 1] = name .. ' ' .. type(value) end\n"
                               "  table.sort(names)\n"
                               "  return table.concat(names, ', ')\n"
                               "end\n"
                               "note(fields(game.worker)) note(fields(game.eventloop))\n";
    run_in_both_profiles(code, "channel function, map function, new function, pool function, register function, "
                               "stats function;new function;");
}

static void functions_of_late_modules_stay_the_same(void **state)
{
    (void)state;
    run_in_both_profiles("local w, e = game.worker, game.eventloop\n"
                         "local new, make = w.new, e.new\n"
                         "w.new('return 1'):close() e():dispose()\n"
                         "note(new == w.new and make == e.new and w == game.worker and e == game.eventloop)",
                         "true;");
}

static void errors_of_late_functions_name_the_line_of_the_script(void **state)
{
    (void)state;
    run_in_both_profiles("local function raise(fn) note(select(2, pcall(fn))) end\n"
                         "raise(function() game.worker.new(1) end)\n"
                         "raise(function() game.worker.pool(1) end)\n"
                         "raise(function() game.eventloop.new(1) end)\n"
                         "raise(function() game.eventloop(1) end)\n",
                         "script:2: worker.new: expected a script (a string of Lua or a function), got number;"
                         "script:3: worker.pool: expected a table of options, got number;"
                         "script:4: eventloop.new: expected no arguments, got a number; a private loop has no options;"
                         "script:5: eventloop.new: expected no arguments, got a number; a private loop has no "
                         "options;");
}

static void a_script_cannot_change_what_a_late_file_uses(void **state)
{
    (void)state;
    char code[2048];
    snprintf(code, sizeof code,
             "local pcall, w, e = pcall, game.worker, game.eventloop\n"
             "for name in next, game.async do game.async[name] = function() note('tampered') end end\n"
             "game.loop.hrtime = nil\n"
             "%s"
             "local l = e() l:setTimeout(5, function() note('fired') end) l:runLoop()\n"
             "local one = w.new('return 20 + 1') note(one:call())\n"
             "local ok, err = pcall(w.new, 1) note(err)\n",
             tampering);
    run_in_both_profiles(code, "fired;21;worker.new: expected a script (a string of Lua or a function), got number;");
}

static void a_script_may_replace_a_late_function(void **state)
{
    (void)state;
    run_in_both_profiles("local new = game.worker.new\n"
                         "game.worker.new = function(...) note('mine') return new(...) end\n"
                         "game.worker.new('return 1'):close()\n"
                         "game.eventloop.new = nil\n"
                         "note(game.eventloop.new) game.eventloop():dispose()",
                         "mine;nil;");
}

static void scripts_of_their_own_globals_use_late_modules(void **state)
{
    (void)state;
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    for (int i = 0; i < 2; i++) {
        struct orr_lua_source source = { .text = "note(pcall(function() game.worker.new = 1 end))\n"
                                                 "local l = game.eventloop() l:setTimeout(1, function() note(1) end)\n"
                                                 "l:runLoop()",
                                         .name = "script",
                                         .own_globals = true };
        assert_int_equal(orr_lua_load(L, &source), 0);
        assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
    }
    assert_string_equal(noted, "false;1;false;1;");
    finish_counting(rt, L);
}

/* The file of a module may be run at the end of a slice, or when the script's time is up. */
static void late_files_run_within_limits(void **state)
{
    (void)state;
    for (uint64_t slice = 100000; slice <= 1600000; slice *= 2) {
        struct orr_runtime *rt = host_counting_runtime();
        struct orr_lua_options options = { .slice_ns = slice };
        lua_State *L = open_isolate(rt, options);
        expect_notes(rt, L, "local w, l = game.worker.new('return 1'), game.eventloop() note(w:call())", "1;");
        finish_counting(rt, L);
    }
}

/* --- Deadlines -------------------------------------------------------------------------------- */

/* The isolates in which things are made late. */
typedef lua_State *open_fn(struct orr_runtime *rt, struct orr_lua_options options);
static open_fn *const opens[] = { open_late, open_trusted, open_isolate };

static const char use_all[] = "local o = game or require 'orrery'\n"
                              "o.eventloop():dispose()\n"
                              "o.worker.new('return 1'):close()\n"
                              "if o.net then o.net.pair() end\n"
                              "if o.fs then o.fs.join('a', 'b') end\n"
                              "o.events:on('x', function(v) note(v) end)\n";

/* What a script finds of the API and its late modules: everything, or nothing. */
static const char count_all[] = "local o = game or require 'orrery'\n"
                                "local function count(t) local n = 0 for _ in next, t do n = n + 1 end return n end\n"
                                "local networked = (o.net and 1 or 0) + (o.fs and 1 or 0)\n"
                                "note(count(o) - networked) note(count(o.worker)) note(count(o.eventloop))\n"
                                "local w = o.worker.new('return 1') note(type(w.call)) w:close()\n"
                                "local l = o.eventloop() l:setTimeout(1, function() note('fired') end) l:runLoop()\n"
                                "if o.net then assert(count(o.net) == 8 and o.net.pair():lines()) end\n"
                                "if o.fs then assert(count(o.fs) == 23 and o.fs.basename 'a/b' == 'b') end\n"
                                "o.events:clear()\n";

/* True if the script came to its end with so many instructions. */
static bool use_until(uint64_t instructions, open_fn *open)
{
    struct orr_runtime *rt = virtual_runtime();
    lua_State *L = open(
        rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = instructions, .check_interval = 1 });
    struct orr_task *task = start(L, use_all);
    assert_int_equal(orr_runtime_run(rt), 0);
    int error = error_of(rt, task);
    assert_true(error == 0 || error == -ETIME);
    isolate_find(L)->limits.max_instructions = 0; /* no limit */
    expect_notes(rt, L, count_all, "12;6;1;function;fired;");
    expect_notes(rt, L, use_all, "");
    lua_pushinteger(L, 7);
    assert_int_equal(orr_events_emit(L, "x"), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "7;");
    finish_counting(rt, L);
    return !error;
}

/*
 * The deadline of the script comes some instructions later each time: before a late file runs,
 * inside it, between two of them, after them.  The three isolates try different instructions.
 */
static void a_deadline_that_ends_a_late_load_leaves_all_of_it_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(opens); i++) {
        uint64_t last = 1 + i;
        while (!use_until(last, opens[i]))
            last += SANITIZED ? 31 : LENGTH(opens);
        print_message("about %llu instructions\n", (unsigned long long)last);
        assert_true(last > 100);
    }
}

/* --- Failing memory --------------------------------------------------------------------------- */

/* True if no allocation failed.  What failed must work later, and nothing may be left. */
static bool use_without_memory(int point, open_fn *open)
{
    allowed = INT32_MAX;
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc });
    assert_non_null(rt);
    lua_State *L = open(rt, (struct orr_lua_options){ 0 });
    char code[1024];
    snprintf(code, sizeof code, "pcall(collectgarbage, 'stop') pcall(function() %s end)", use_all);
    struct orr_task *task = start(L, code);
    ran_out = false;
    allowed = point;
    int error = orr_runtime_run(rt);
    bool lacking = ran_out;
    allowed = INT32_MAX;
    assert_int_equal(error, 0);
    error_of(rt, task);
    expect_notes(rt, L, "local o = game or require 'orrery' o.events:clear()", "");
    expect_notes(rt, L, use_all, "");
    lua_pushinteger(L, point);
    assert_int_equal(orr_events_emit(L, "x"), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(atoi(noted), point);
    finish(rt, L);
    if (allocated_bytes)
        fail_msg("%lld bytes are left when allocation %d fails", (long long)allocated_bytes, point);
    return !lacking;
}

static void one_failed_allocation_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(opens); i++) {
        assert_true(use_without_memory(INT32_MAX, opens[i]));
        int last = 0, step = WORK(100) == 100 ? 1 : 13;
        while (!use_without_memory(last, opens[i]))
            last += step;
        print_message("about %d points of failure\n", last);
    }
}

static const struct CMUnitTest late[] = {
    cmocka_unit_test(require_makes_the_api_once),
    cmocka_unit_test(an_isolate_is_smaller_until_the_api_is_required),
    cmocka_unit_test(modules_that_the_host_withholds_are_not_in_a_late_api),
    cmocka_unit_test(a_script_cannot_change_what_require_makes),
    cmocka_unit_test(a_misspelt_global_gets_its_hint_without_the_api),
    cmocka_unit_test(an_event_of_the_host_makes_the_api),
    cmocka_unit_test(modules_that_two_tasks_require_are_loaded_once),
    cmocka_unit_test(a_finalizer_cannot_make_a_second_api),
    cmocka_unit_test(the_tables_of_late_modules_are_complete_from_the_start),
    cmocka_unit_test(functions_of_late_modules_stay_the_same),
    cmocka_unit_test(errors_of_late_functions_name_the_line_of_the_script),
    cmocka_unit_test(a_script_cannot_change_what_a_late_file_uses),
    cmocka_unit_test(a_script_may_replace_a_late_function),
    cmocka_unit_test(scripts_of_their_own_globals_use_late_modules),
    cmocka_unit_test(late_files_run_within_limits),
    cmocka_unit_test(a_deadline_that_ends_a_late_load_leaves_all_of_it_or_nothing),
    cmocka_unit_test(one_failed_allocation_is_an_error_and_loses_nothing),
};

HARNESS_MAIN(late)
