/*
 * Reports to hosts and people: each once, in the order of what they report, in words that people
 * use.
 */
#include "base/text.h"
#include "lua_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FOR_LONG "for i = 1, 3e8 do end "

static char told[65536]; /* every line that was logged */

static void keep_line(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    size_t length = strlen(told);
    snprintf(told + length, sizeof told - length, "%s\n", message);
}

static unsigned count(const char *text, const char *part)
{
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

/* A host without a notice and, unless it is given, without a sink: everything goes to the log. */
static struct orr_runtime *open_plain(orr_sink_fn *sink, struct orr_lua_options options, lua_State **L)
{
    told[0] = noted[0] = '\0';
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .log = keep_line, .sink = sink });
    options.mount = "game";
    options.profile = ORR_LUA_TRUSTED;
    assert_int_equal(orr_lua_new(rt, &options, L), 0);
    lua_register(*L, "note", host_note);
    lua_register(*L, "call_back", host_call_back);
    return rt;
}

/* --- Calls from the host that time out -------------------------------------------------------- */

static const struct orr_lua_options timed = {
    .deadline_ns = { [ORR_LUA_CALL] = 5 * MS, [ORR_LUA_SCRIPT] = 5 * MS, [ORR_LUA_HANDLER] = 5 * MS }
};
static const struct orr_lua_options counting = { .mode = ORR_LUA_COUNT, .max_instructions = 10000 };

static void call_that_times_out_is_logged_with_its_report(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        lua_State *L;
        struct orr_runtime *rt = open_plain(NULL, i ? counting : timed, &L);
        load(L, "local function busy() " FOR_LONG "end busy()");
        assert_int_equal(orr_lua_call(L, 0, 0, 0), -ETIME);
        assert_int_equal(count(told, "Script execution timeout: the call from the host has run "), 1);
        assert_int_equal(count(told, i ? "the limit is 10000\n" : "the limit is 5 ms\n"), 1);
        assert_int_equal(count(told, "stack traceback:\n"), 1);
        assert_int_equal(count(told, "script:1: in local 'busy'\n"), 1);
        finish(rt, L);
        assert_int_equal(count(told, "Script execution timeout"), 1);
    }
}

static void call_that_times_out_is_reported_to_the_notice_only(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, timed);
    load(L, FOR_LONG);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -ETIME);
    assert_int_equal(notices[ORR_LUA_TIMED_OUT], 1);
    assert_int_equal(harness_log_lines(), 0);
    finish(rt, L);
}

static unsigned failures;

static void count_failure(void *data, struct orr_task *task)
{
    (void)data;
    assert_int_equal(orr_task_result(task)->error, -ETIME);
    failures++;
}

/*
 * The sink or the awaiting task is told of a task's timeout.  A call that ends because the task
 * around it timed out adds nothing.
 */
static void timeout_that_is_reported_elsewhere_is_not_logged(void **state)
{
    (void)state;
    static const char *const scripts[] = { FOR_LONG, "call_back(function() " FOR_LONG " end)" };
    for (size_t i = 0; i < LENGTH(scripts); i++) {
        lua_State *L;
        struct orr_runtime *rt = open_plain(count_failure, timed, &L);
        failures = 0;
        load(L, scripts[i]);
        assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_int_equal(failures, 1);
        assert_string_equal(told, "");
        finish(rt, L);
    }
    lua_State *L;
    struct orr_runtime *rt = open_plain(count_failure, counting, &L);
    failures = 0;
    load(L, "local task = game.async.run(function() game.async.sleep(0) " FOR_LONG "end)\n"
            "note(select(2, task:pwait()))");
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(failures, 0);
    assert_string_equal(noted, "Script execution timeout;");
    assert_string_equal(told, "");
    finish(rt, L);
}

/* --- Order ------------------------------------------------------------------------------------ */

/* The log has these words in this order. */
static void assert_in_order(const char *const *words, size_t length)
{
    const char *at = told;
    for (size_t i = 0; i < length; i++) {
        const char *next = strstr(at, words[i]);
        if (!next)
            fail_msg("'%s' should come next, in: %s\nof: %s", words[i], at, told);
        at = next + strlen(words[i]);
    }
}

static void log_reports_a_disabled_handler_after_its_timeouts(void **state)
{
    (void)state;
    static const char *const words[] = { "task x failed: Script execution timeout",
                                         "task x failed: Script execution timeout",
                                         "task x failed: Script execution timeout",
                                         "handler 1 of the event 'x' has timed out 3 times in a row" };
    for (int i = 0; i < 2; i++) {
        lua_State *L;
        struct orr_runtime *rt = open_plain(NULL, i ? counting : timed, &L);
        load(L, "game.events:on('x', function() " FOR_LONG " end)");
        assert_int_equal(orr_lua_call(L, 0, 0, ORR_NEVER), 0);
        for (int emits = 0; emits < 5; emits++) {
            lua_pushnil(L);
            assert_int_equal(orr_events_emit(L, "x"), 0);
        }
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_in_order(words, LENGTH(words));
        assert_int_equal(count(told, "failed"), 3);
        assert_int_equal(count(told, "in a row"), 1);
        finish(rt, L);
    }
}

static void note_failure(void *data, struct orr_task *task)
{
    (void)task;
    keep_line(data, ORR_LOG_ERROR, "failed");
}

static void note_notice(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)L;
    (void)text;
    if (notice == ORR_LUA_TIMED_OUT)
        keep_line(data, ORR_LOG_WARNING, "timed out");
    if (notice == ORR_LUA_DISABLED)
        keep_line(data, ORR_LOG_WARNING, orr_events_disabled(L) == 1 ? "disabled" : "which?");
}

static void host_is_told_of_a_disabled_handler_after_its_timeouts(void **state)
{
    (void)state;
    for (int as_failures = 0; as_failures < 2; as_failures++) {
        lua_State *L;
        struct orr_lua_options options = counting;
        options.notice = note_notice;
        options.timeouts_as_failures = as_failures;
        struct orr_runtime *rt = open_plain(note_failure, options, &L);
        load(L, "game.events:on('x', function() " FOR_LONG " end)");
        assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
        for (int emits = 0; emits < 5; emits++) {
            lua_pushnil(L);
            assert_int_equal(orr_events_emit(L, "x"), 0);
        }
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_string_equal(told, as_failures ? "failed\nfailed\nfailed\ndisabled\n"
                                              : "timed out\ntimed out\ntimed out\ndisabled\n");
        finish(rt, L);
    }
}

/* --- Each time-out once ----------------------------------------------------------------------- */

static const struct orr_lua_options roomy = { .mode = ORR_LUA_COUNT, .max_instructions = 100000 };

/* Runs a script with a notice, a sink and a log that all write to `told`. */
static void run_with_all(const char *code, struct orr_lua_options options)
{
    lua_State *L;
    options.notice = note_notice;
    struct orr_runtime *rt = open_plain(note_failure, options, &L);
    load(L, code);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    finish(rt, L);
}

static void timeout_reaches_the_notice_and_nothing_else(void **state)
{
    (void)state;
    run_with_all(FOR_LONG, roomy);
    assert_string_equal(told, "timed out\n");
}

static void timeout_as_a_failure_reaches_the_sink_and_nothing_else(void **state)
{
    (void)state;
    struct orr_lua_options options = roomy;
    options.timeouts_as_failures = true;
    run_with_all(FOR_LONG, options);
    assert_string_equal(told, "failed\n");
}

static void timeout_of_a_child_that_ends_its_parent_is_told_once(void **state)
{
    (void)state;
    run_with_all("game.async.run('child', function() game.async.sleep(1) " FOR_LONG " end) game.async.sleep(1000)",
                 roomy);
    assert_string_equal(told, "timed out\n");
}

static void call_inside_a_task_that_times_out_is_not_told_apart(void **state)
{
    (void)state;
    run_with_all("call_back(function() " FOR_LONG " end)", timed);
    assert_string_equal(told, "timed out\n");
}

static void failure_besides_a_timeout_reaches_the_sink(void **state)
{
    (void)state;
    run_with_all("game.async.run('child', function() game.async.sleep(1) " FOR_LONG " end)\n"
                 "game.async.run('sibling', function() local ok = pcall(game.async.sleep, 1000) error('mine') end)\n"
                 "game.async.sleep(1000)",
                 roomy);
    assert_string_equal(told, "timed out\nfailed\n");
}

static void timeout_that_a_script_handles_is_told_once(void **state)
{
    (void)state;
    run_with_all("pcall(game.async.await, game.async.run('child', function() game.async.sleep(1) " FOR_LONG " end))",
                 roomy);
    assert_string_equal(told, "timed out\n");
}

/* --- Names ------------------------------------------------------------------------------------ */

static char first_line[512]; /* of the last notice */

static void keep_first_line(void *data, lua_State *L, enum orr_lua_notice notice, const char *text)
{
    (void)data;
    (void)L;
    if (notice == ORR_LUA_TIMED_OUT)
        snprintf(first_line, sizeof first_line, "%.*s", (int)strcspn(text, "\n"), text);
}

static void assert_begins(const char *text, const char *words)
{
    if (strncmp(text, words, strlen(words)) != 0)
        fail_msg("expected \"%s\" at the beginning of: %s", words, text);
}

#define RUNS "async.run('busy', function() async.sleep(1) " FOR_LONG " end)"

static void timeout_names_the_script(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct orr_script *script;
    struct orr_script_options options = {
        .source = { .name = "clock.lua", .text = "local async = require('orrery').async " RUNS },
        .lua = { .mode = ORR_LUA_COUNT, .max_instructions = 100000, .notice = keep_first_line },
    };
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_begins(first_line, "Script execution timeout: the task 'busy' of 'clock.lua' has run 1");
    assert_int_equal(orr_script_unload(script), 0);

    options.source.text = FOR_LONG;
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_begins(first_line, "Script execution timeout: the script 'clock.lua' has run 1");
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void timeout_in_a_shared_isolate_names_the_script(void **state)
{
    (void)state;
    static const char *const names[] = { "one.lua", "two.lua" };
    struct orr_runtime *rt = harness_runtime(1);
    struct orr_lua_options lua = {
        .name = "panel", .mode = ORR_LUA_COUNT, .max_instructions = 100000, .notice = keep_first_line
    };
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &lua, &L), 0);
    struct orr_script *scripts[2];
    for (int i = 0; i < 2; i++) {
        struct orr_script_options options = {
            .shared = L,
            .source = { .name = names[i], .text = "local async = require('orrery').async " RUNS },
        };
        assert_int_equal(orr_script_load(rt, &options, &scripts[i]), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        char words[100];
        snprintf(words, sizeof words, "Script execution timeout: the task 'busy' of '%s' has run 1", names[i]);
        assert_begins(first_line, words);
    }
    assert_int_equal(orr_script_unload(scripts[0]), 0);
    load(L, FOR_LONG);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -ETIME);
    assert_begins(first_line, "Script execution timeout: the call from the host of 'panel' has run 1");
    assert_int_equal(orr_script_unload(scripts[1]), 0);
    finish(rt, L);
}

static void each_line_of_the_log_begins_with_the_name_of_the_isolate(void **state)
{
    (void)state;
    static const struct {
        const char *name, *begins;
    } cases[] = { { NULL, "isolate 1: task script failed: script:1: oops\n" },
                  { "panel", "panel: task script failed: script:1: oops\n" } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        lua_State *L;
        struct orr_runtime *rt = open_plain(NULL, (struct orr_lua_options){ .name = cases[i].name }, &L);
        load(L, "error('oops')");
        assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
        assert_int_equal(orr_runtime_run(rt), 0);
        assert_begins(told, cases[i].begins);
        char each[32];
        snprintf(each, sizeof each, "%.*s", (int)strcspn(cases[i].begins, ":"), cases[i].begins);
        unsigned lines = 0;
        for (const char *line = told; *line; line += strcspn(line, "\n") + 1, lines++)
            assert_begins(line, each);
        assert_true(lines >= 3); /* the error, and its stack */
        finish(rt, L);
    }
}

static void isolates_without_a_name_are_numbered(void **state)
{
    (void)state;
    lua_State *first, *second;
    struct orr_runtime *rt = open_plain(NULL, (struct orr_lua_options){ 0 }, &first);
    assert_int_equal(orr_lua_new(rt, NULL, &second), 0);
    load(second, "error('oops')");
    assert_int_equal(orr_lua_start(second, 0, "script", NULL), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_begins(told, "isolate 2: task script failed: ");
    assert_int_equal(orr_lua_close(second), 0);
    finish(rt, first);
}

/* --- Lines of the log ------------------------------------------------------------------------- */

static unsigned calls, newlines;
static size_t longest;

static void measure(void *data, enum orr_log level, const char *message)
{
    keep_line(data, level, message);
    calls++;
    newlines += strchr(message, '\n') != NULL;
    longest = strlen(message) > longest ? strlen(message) : longest;
}

static void log_failure_of(const char *code)
{
    told[0] = '\0';
    calls = newlines = 0;
    longest = 0;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .log = measure });
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .name = "x", .profile = ORR_LUA_TRUSTED }, &L), 0);
    load(L, code);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    finish(rt, L);
}

static void log_function_receives_one_line_in_each_call(void **state)
{
    (void)state;
    log_failure_of("error('one\\ntwo\\n\\nfour', 0)");
    assert_begins(told, "x: task script failed: one\nx: two\nx: \nx: four\nx: stack traceback:\n");
    assert_true(calls >= 5);
    assert_int_equal(newlines, 0);
}

static void long_line_says_how_much_is_left_out(void **state)
{
    (void)state;
    log_failure_of("error(('a'):rep(1500), 0)");
    const char *end = strstr(told, "aaa... (");
    assert_non_null(end);
    size_t shown = (size_t)(end + 3 - told) - strlen("x: task script failed: ");
    char words[64];
    snprintf(words, sizeof words, "... (%zu bytes more)\n", 1500 - shown);
    assert_begins(end + 3, words);
    assert_true(longest <= 1000);
}

static void message_of_many_lines_says_how_many_are_left_out(void **state)
{
    (void)state;
    log_failure_of("error(('a\\n'):rep(300), 0)");
    assert_int_equal(calls, 101);
    assert_non_null(strstr(told, "lines more)\n"));
}

/* Schedules callbacks that fail, turns until all have, and then a call of the host times out. */
static void fail_and_time_out(struct orr_runtime *rt, lua_State *L, unsigned wanted)
{
    char code[100];
    snprintf(code, sizeof code, "for i = 1, %u do game.schedule(error, tostring(i), 0) end", wanted);
    load(L, code);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
    struct orr_lua_stats stats;
    do {
        assert_true(orr_runtime_turn(rt, 1) >= 0);
        assert_int_equal(orr_lua_stats(L, &stats), 0);
    } while (stats.schedule_errors < wanted);
    load(L, FOR_LONG);
    assert_int_equal(orr_lua_call(L, 0, 0, 0), -ETIME);
}

/*
 * A turn sends only some of the reports of tasks, so that a task that was started can still be
 * awaited.  Reports of later failures come after them.
 */
static void reports_come_in_the_order_of_what_they_report(void **state)
{
    (void)state;
    static const char *const words[] = { "failed: 1", "failed: 2", "failed: 3",          "failed: 4",
                                         "failed: 5", "failed: 6", "call from the host", "failed: 7" };
    lua_State *L;
    struct orr_runtime *rt = open_plain(NULL, counting, &L);
    fail_and_time_out(rt, L, 6);
    load(L, "game.schedule(error, '7', 0)");
    assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_in_order(words, LENGTH(words));
    finish(rt, L);
}

/* Pending reports are sent when the isolate closes, and nothing leaks. */
static void closing_an_isolate_sends_the_reports_that_are_left(void **state)
{
    (void)state;
    lua_State *L;
    struct orr_runtime *rt = open_plain(NULL, counting, &L);
    fail_and_time_out(rt, L, 8);
    finish(rt, L);
    assert_int_equal(count(told, "failed: "), 8);
    assert_int_equal(count(told, "call from the host"), 1);
    static const char *const words[] = { "failed: 8", "call from the host" };
    assert_in_order(words, LENGTH(words));
}

/* --- Words ------------------------------------------------------------------------------------ */

static void durations_are_written_in_the_largest_fitting_unit(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        { 0, "0 s" },
        { 1, "1 ns" },
        { 999, "999 ns" },
        { 1000, "1 us" },
        { 1234, "1.23 us" },
        { 850000, "850 us" },
        { 999499, "999 us" },
        { 999500, "1 ms" },
        { MS, "1 ms" },
        { 1500000, "1.5 ms" },
        { 1504999, "1.5 ms" },
        { 1505000, "1.51 ms" },
        { 9999999, "10 ms" },
        { 12345678, "12.3 ms" },
        { 99960000, "100 ms" },
        { 850 * MS, "850 ms" },
        { 999499999, "999 ms" },
        { 999500000, "1 s" },
        { 1000 * MS, "1 s" },
        { 1234 * MS, "1.23 s" },
        { 12340 * MS, "12.3 s" },
        { 60000 * MS, "60 s" },
        { 119499 * MS, "119 s" },
        { 119500 * MS, "2 min" },
        { 125000 * MS, "2 min 5 s" },
        { 5000000 * MS, "83 min 20 s" },
        { 7200000 * MS, "2 h" },
        { 12000000 * MS, "3 h 20 min" },
        { UINT64_MAX, "5124095 h 35 min" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char text[TEXT_DURATION_ROOM];
        text_duration(text, cases[i].ns);
        assert_string_equal(text, cases[i].text);
    }
}

/* --- Functions that block --------------------------------------------------------------------- */

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compute(lua_State *L)
{
    (void)L;
    for (uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + 60 * MS; now_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
        ;
    return 0;
}

static int block(lua_State *L)
{
    (void)L;
    for (uint64_t end = now_ns(CLOCK_MONOTONIC) + 60 * MS; now_ns(CLOCK_MONOTONIC) < end;)
        nanosleep(&(struct timespec){ .tv_nsec = 5 * (long)MS }, NULL);
    return 0;
}

static lua_State *open_blocking(struct orr_runtime *rt, struct orr_lua_options options)
{
    notices[ORR_LUA_BLOCKED] = 0;
    lua_State *L = open_trusted(rt, options);
    lua_register(L, "compute", compute);
    lua_register(L, "block", block);
    return L;
}

static void run_script(struct orr_runtime *rt, lua_State *L, const char *code)
{
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(error_of(rt, task), 0);
}

static const struct orr_lua_options watching = { .slow_call_ns = 10 * MS };

static void function_that_blocks_is_named_with_its_line_and_time(void **state)
{
    (void)state;
    static const char *const names[] = { "block", "compute" };
    for (size_t i = 0; i < LENGTH(names); i++) {
        lua_State *L;
        char code[64], words[64];
        struct orr_runtime *rt = open_plain(NULL, watching, &L);
        lua_register(L, "compute", compute);
        lua_register(L, "block", block);
        snprintf(code, sizeof code, "local x = 1\n%s()", names[i]);
        run_script(rt, L, code);
        snprintf(words, sizeof words, "script:2: '%s', a C function, has blocked the loop for ", names[i]);
        assert_int_equal(count(told, words), 1);
        assert_int_equal(count(told, " ms: no other task could run meanwhile"), 1);
        finish(rt, L);
    }
}

static void function_that_blocks_is_named_once_for_each_line(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_blocking(rt, watching);
    run_script(rt, L, "for i = 1, 5 do block() end\nfor i = 1, 5 do block() end");
    assert_int_equal(notices[ORR_LUA_BLOCKED], 2);
    run_script(rt, L, "\nblock()"); /* the second line again */
    assert_int_equal(notices[ORR_LUA_BLOCKED], 2);
    finish(rt, L);
}

/* Where Lua cannot be suspended, hooks run after the slice is over, and before the function. */
static void function_that_blocks_is_named_where_lua_cannot_be_suspended(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_blocking(rt, watching);
    run_script(rt, L,
               "table.sort({ 2, 1 }, function(a, b)\n"
               "  local stop = os.clock() + 0.02\n"
               "  while os.clock() < stop do end\n"
               "  for i = 1, 4 do block() end\n"
               "  return a < b\n"
               "end)");
    assert_int_equal(notices[ORR_LUA_BLOCKED], 1);
    finish(rt, L);
}

static void lua_that_computes_blocks_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_blocking(rt, watching);
    run_script(rt, L, "local stop = os.clock() + 0.05 while os.clock() < stop do for i = 1, 100 do end end");
    assert_int_equal(notices[ORR_LUA_BLOCKED], 0);
    finish(rt, L);
}

static void nobody_is_told_of_blocking_functions_unless_the_host_asks(void **state)
{
    (void)state;
    struct orr_lua_options none[] = { { 0 }, { .slow_call_ns = ORR_NEVER } };
    for (size_t i = 0; i < LENGTH(none); i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_blocking(rt, none[i]);
        run_script(rt, L, "block()");
        assert_int_equal(notices[ORR_LUA_BLOCKED], 0);
        finish(rt, L);
    }
}

/* Another thread waits for a job, and that is what it is for. */
static void job_may_block(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_blocking(rt, watching);
    run_script(rt, L, "game.worker.new(\"os.execute 'sleep 0.05'\"):call()");
    assert_int_equal(notices[ORR_LUA_BLOCKED], 0);
    finish(rt, L);
}

static const struct CMUnitTest reports[] = {
    cmocka_unit_test(call_that_times_out_is_logged_with_its_report),
    cmocka_unit_test(call_that_times_out_is_reported_to_the_notice_only),
    cmocka_unit_test(timeout_that_is_reported_elsewhere_is_not_logged),
    cmocka_unit_test(log_reports_a_disabled_handler_after_its_timeouts),
    cmocka_unit_test(host_is_told_of_a_disabled_handler_after_its_timeouts),
    cmocka_unit_test(timeout_reaches_the_notice_and_nothing_else),
    cmocka_unit_test(timeout_as_a_failure_reaches_the_sink_and_nothing_else),
    cmocka_unit_test(timeout_of_a_child_that_ends_its_parent_is_told_once),
    cmocka_unit_test(call_inside_a_task_that_times_out_is_not_told_apart),
    cmocka_unit_test(failure_besides_a_timeout_reaches_the_sink),
    cmocka_unit_test(timeout_that_a_script_handles_is_told_once),
    cmocka_unit_test(timeout_names_the_script),
    cmocka_unit_test(timeout_in_a_shared_isolate_names_the_script),
    cmocka_unit_test(each_line_of_the_log_begins_with_the_name_of_the_isolate),
    cmocka_unit_test(isolates_without_a_name_are_numbered),
    cmocka_unit_test(log_function_receives_one_line_in_each_call),
    cmocka_unit_test(long_line_says_how_much_is_left_out),
    cmocka_unit_test(message_of_many_lines_says_how_many_are_left_out),
    cmocka_unit_test(reports_come_in_the_order_of_what_they_report),
    cmocka_unit_test(closing_an_isolate_sends_the_reports_that_are_left),
    cmocka_unit_test(durations_are_written_in_the_largest_fitting_unit),
    cmocka_unit_test(function_that_blocks_is_named_with_its_line_and_time),
    cmocka_unit_test(function_that_blocks_is_named_once_for_each_line),
    cmocka_unit_test(function_that_blocks_is_named_where_lua_cannot_be_suspended),
    cmocka_unit_test(lua_that_computes_blocks_nothing),
    cmocka_unit_test(nobody_is_told_of_blocking_functions_unless_the_host_asks),
    cmocka_unit_test(job_may_block),
};

HARNESS_MAIN(reports)
