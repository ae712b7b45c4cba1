/*
 * Memory that C holds for a script is charged to the script while C holds it.  Names and texts are
 * cut to a length.  Failures that nobody observed are reported a few at a time, in order.
 */
#include "lua_host.h"

#include "base/text.h"
#include "lua/isolate.h"
#include "lua/isolate/charge.h"
#include "lua/isolate/quota.h"
#include "lua/isolate/settings.h"
#include "lua/limits/stack_trace.h"
#include "lua/task/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- Texts ------------------------------------------------------------------------------------ */

static void names_are_cut_between_characters(void **state)
{
    (void)state;
    char name[300], shown[TEXT_NAME_ROOM];
    text_name(shown, "short");
    assert_string_equal(shown, "short");
    memset(name, 'x', sizeof name);
    name[TEXT_NAME] = '\0';
    text_name(shown, name);
    assert_string_equal(shown, name);
    name[TEXT_NAME] = 'x';
    name[sizeof name - 1] = '\0';
    text_name(shown, name);
    assert_int_equal(strlen(shown), TEXT_NAME);
    assert_string_equal(shown + TEXT_NAME - 4, "x...");
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa9", 2);
    name[sizeof name - 2] = '\0';
    text_name(shown, name);
    assert_int_equal(strlen(shown), 124 + 3);
    assert_string_equal(shown + 122, "\xc3\xa9...");
}

/* --- Reports ---------------------------------------------------------------------------------- */

static unsigned told, longest, in_order, marked;

static void take_report(void *data, struct orr_task *task)
{
    (void)data;
    const struct orr_result *result = orr_task_result(task);
    char name[32];
    snprintf(name, sizeof name, "task %u", told + 1);
    in_order += !strcmp(orr_task_name(task), name);
    marked += strstr(result->message, "... (7340032 bytes)") != NULL;
    unsigned length = (unsigned)strlen(result->message);
    longest = length > longest ? length : longest;
    told++;
}

static void failures_are_reported_in_order_a_few_in_each_turn_and_cut_to_length(void **state)
{
    (void)state;
    told = longest = in_order = marked = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .sink = take_report });
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(
        L, "local big = string.rep('x', 7 << 20)\n"
           "for i = 1, 120 do\n"
           "  game.async.run({ name = 'task ' .. i, detached = true }, function() error(big, 0) end)\n"
           "end");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    unsigned turns = 0;
    for (unsigned before = told; told < 120; before = told, turns++) {
        assert_true(turns < 1000);
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_true(told - before <= 8);
    }
    assert_true(turns >= 15);
    assert_int_equal(in_order, 120);
    assert_int_equal(marked, 120);
    assert_true(longest <= REPORT_TEXT + STACK_TRACE_MAX + 128);
    finish(rt, L);
}

static void error_value_is_not_cut(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "local async = game.async\n"
                                     "local big = string.rep('x', 1 << 20)\n"
                                     "local failed = async.run({ detached = true }, function() error(big, 0) end)\n"
                                     "local ok, err = async.pawait(failed)\n"
                                     "note(ok) note(err == big) note(#failed:errors()[1])\n"
                                     "note(#async.run(('n'):rep(1000), function() end).name)\n");
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "false;true;1048576;128;");
    finish(rt, L);
}

/* --- Charges ---------------------------------------------------------------------------------- */

/*
 * A script makes 100 things with `make` and keeps them.  Each must be charged with at least `least`
 * bytes, and closing the isolate must return the whole charge.
 */
static void assert_charged(const char *make, size_t least)
{
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .memory_limit = 64 << 20 });
    struct orr_isolate *iso = isolate_find(L);
    char code[1024];
    snprintf(code, sizeof code,
             "collectgarbage() collectgarbage()\n"
             "local before = game.runtime.memory_used\n"
             "kept = {} for i = 1, 100 do kept[i] = (function(i) %s end)(i) end\n"
             "collectgarbage() collectgarbage()\n"
             "note(game.runtime.memory_used - before >= %zu)\n",
             make, 100 * least);
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "true;");
    assert_true(iso->charge.drawn >= iso->account.used);
    struct quota *quota = quota_ref(iso->settings->quota);
    assert_true(quota->used >= iso->account.used);
    finish(rt, L);
    assert_int_equal(quota->used, 0);
    assert_int_equal(quota->overdrawn, 0);
    assert_int_equal(quota->spare, 0);
    quota_unref(quota);
}

static void memory_that_c_holds_for_a_script_is_charged_until_it_is_freed(void **state)
{
    (void)state;
    assert_charged("return game.async.mutex()", 144);
    assert_charged("return game.loop.new_timer()", 88 + 100);
    assert_charged("return game.worker.channel(1)", 150);
    assert_charged("local q = game.async.queue() q:put_nowait(1) return q", 512 + 100);
    assert_charged("local t = game.async.run({ detached = true }, function() error(('x'):rep(4000) .. i, 0) end) "
                   "game.async.pawait(t) return t",
                   4000 + 200 + CHARGE_TASK);
    assert_charged("return game.async.run({ name = ('n'):rep(100), detached = true }, game.async.sleep, 1)",
                   200 + 100 + CHARGE_TASK);
}

static void quota_is_shared_and_keeps_a_part_for_the_script(void **state)
{
    (void)state;
    struct alloc alloc = alloc_from(NULL, NULL);
    struct quota *quota = quota_new(&alloc, 800);
    assert_non_null(quota);
    assert_true(quota_take(quota, 700));
    assert_false(quota_take(quota, 1));
    assert_true(quota_take_own(quota, 100));
    assert_false(quota_take_own(quota, 1));
    assert_false(quota_take_own(quota, SIZE_MAX));
    assert_true(quota_overdraw(quota, 800, false));
    assert_false(quota_overdraw(quota, 1, false));
    assert_true(quota_overdraw(quota, 1, true));
    quota_repay(quota, 801);
    quota_give(quota, 800);
    assert_true(quota_take_spare(quota, 100));
    assert_false(quota_take_spare(quota, 1));
    quota_give_spare(quota, 100);
    assert_int_equal(quota->used + quota->overdrawn + quota->spare, 0);
    quota_unref(quota);
    assert_true(quota_take(NULL, SIZE_MAX));
}

/* The caller of a job that ran out of memory finds that memory free again. */
static void memory_of_a_job_that_ran_out_of_it_is_free_for_the_next_job(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .pool_threads = 1 });
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .memory_limit = 16 << 20 });
    struct orr_task *task = start(L, "local worker = game.worker\n"
                                     "local hoarder = worker.new 'local t = {} for i = 1, 1e9 do t[i] = { i } end'\n"
                                     "local modest = worker.new 'return #string.rep(\"x\", 4 << 20)'\n"
                                     "for i = 1, 5 do\n"
                                     "  local ok, err = pcall(hoarder.call, hoarder)\n"
                                     "  assert(not ok and tostring(err):find 'not enough memory', err)\n"
                                     "  assert(modest:call() == 4 << 20)\n"
                                     "end\n"
                                     "note 'well'");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(error_of(rt, task), 0);
    assert_string_equal(noted, "well;");
    finish(rt, L);
}

static const struct CMUnitTest charge_tests[] = {
    cmocka_unit_test(names_are_cut_between_characters),
    cmocka_unit_test(failures_are_reported_in_order_a_few_in_each_turn_and_cut_to_length),
    cmocka_unit_test(error_value_is_not_cut),
    cmocka_unit_test(memory_that_c_holds_for_a_script_is_charged_until_it_is_freed),
    cmocka_unit_test(quota_is_shared_and_keeps_a_part_for_the_script),
    cmocka_unit_test(memory_of_a_job_that_ran_out_of_it_is_free_for_the_next_job),
};

HARNESS_MAIN(charge_tests)
