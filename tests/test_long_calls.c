/*
 * C functions that take long.  They ask the budget after a number of values, can be suspended
 * there, and give the same results whatever happens in between.  The test answers these questions
 * where it says so; elsewhere the budget does.
 */
#include "lua_host.h"

#include "lua/limits/paced.h"
#include "lua/limits/preempt.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const char long_calls_lua[];
extern const size_t long_calls_lua_size;

/* --- A budget that the test controls ---------------------------------------------------------- */

/* One in this many questions, at random, is answered with yes; 0: ask the budget. */
static _Atomic uint32_t pause_one_in;
static _Atomic unsigned questions;
static void (*meddle)(lua_State *L); /* called at each question; may be NULL */

static uint64_t draw(void)
{
    static _Thread_local uint64_t random_state = 88172645463325252u;
    return random_bits(&random_state);
}

bool __real_preempt_hold_is_due(lua_State *L);
bool __wrap_preempt_hold_is_due(lua_State *L);
bool __wrap_preempt_hold_is_due(lua_State *L)
{
    questions++;
    if (meddle)
        meddle(L);
    bool wants = __real_preempt_hold_is_due(L); /* raises at the deadline */
    return pause_one_in ? can_suspend(L) && draw() % pause_one_in == 0 : wants;
}

/* set_pauses(one_in, steps): `steps` is the number of values between two questions. */
static int set_pauses(lua_State *L)
{
    pause_one_in = (uint32_t)luaL_checkinteger(L, 1);
    paced_steps = (int)luaL_optinteger(L, 2, PACED_STEPS);
    return 0;
}

static int restore(void **state)
{
    (void)state;
    pause_one_in = 0;
    paced_steps = PACED_STEPS;
    meddle = NULL;
    questions = 0;
    return 0;
}

/* --- Fixtures --------------------------------------------------------------------------------- */

static const struct orr_lua_options trusted = { .profile = ORR_LUA_TRUSTED };

/* Prints why the script has failed, if it has: most tests want it to succeed. */
static void show_failure(struct orr_runtime *rt, struct orr_task *task)
{
    assert_int_equal(orr_runtime_enter(rt), 0);
    const struct orr_result *result = orr_task_result(task);
    if (result->error)
        print_message("the script has failed: %s\n", result->message ? result->message : "");
    assert_int_equal(orr_runtime_leave(rt), 0);
}

/* Runs a script to its end and closes everything: no memory may be left. */
static void is_noted(struct orr_lua_options options, const char *code, const char *expected)
{
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L;
    options.mount = "game";
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    lua_register(L, "note", host_note);
    lua_register(L, "set_pauses", set_pauses);
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, 4 * MS);
    show_failure(rt, task);
    error_of(rt, task);
    assert_string_equal(sink_text, "");
    assert_string_equal(noted, expected);
    finish_counting(rt, L);
}

/* --- The tests -------------------------------------------------------------------------------- */

static void calls_suspended_at_random_give_the_same_results(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } });
    assert_int_equal(luaL_loadbuffer(L, long_calls_lua, long_calls_lua_size, "=long_calls.lua"), LUA_OK);
    lua_getglobal(L, "game");
    lua_pushcfunction(L, set_pauses);
    lua_pushinteger(L, (lua_Integer)harness_seed(20261117));
    struct orr_task *task;
    assert_int_equal(orr_lua_start(L, 3, "long_calls", &task), 0);
    turn_until_done(rt, task, 4 * MS);
    const struct orr_result *result = orr_task_result(task);
    assert_string_equal(result->error ? result->message : "", "");
    assert_int_equal(error_of(rt, task), 0);
    assert_true(questions > 10000);
    finish_counting(rt, L);
}

/* How often one call asks the budget. */
static unsigned questions_of(const char *setup, const char *call)
{
    char code[1024];
    snprintf(code, sizeof code, "%s set_pauses(0) note(pcall(%s) ~= nil)", setup, call);
    questions = 0;
    is_noted((struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED, .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } },
             code, "true;");
    return questions;
}

static void a_long_call_looks_at_the_budget_every_few_thousand_values(void **state)
{
    (void)state;
    static const char tables[] = "local t = {} for i = 1, 100000 do t[i] = {} end";
    assert_true(questions_of(tables, "game.values.encode, t") >= 100000 / PACED_STEPS);
    assert_true(questions_of(tables, "game.json.encode, t") >= 100000 / PACED_STEPS);
    assert_true(questions_of("local c = game.worker.channel(1) local t = {} for i = 1, 100000 do t[i] = {} end",
                             "c.send, c, t") >= 100000 / PACED_STEPS);
    assert_true(questions_of("local t = '[' .. ('1,'):rep(100000) .. '1]'", "game.json.decode, t") >=
                100000 / PACED_STEPS);
    assert_true(questions_of("local t = {} for i = 1, 100000 do t[i] = i end t = game.values.encode(t)",
                             "game.values.decode, t") >= 100000 / PACED_STEPS);
    assert_true(questions_of("local t = ('\\1'):rep(1000000)", "game.json.encode, t") >= 5);
    assert_true(questions_of("local t = '\"' .. ('\\\\n'):rep(500000) .. '\"'", "game.json.decode, t") >= 5);
    assert_true(questions_of("local t = (' '):rep(1000000)", "game.json.decode, t") >= 5);
    /* Only nested tables: no other values, and empty at the deepest level. */
    assert_true(questions_of("local t = {} for i = 1, 60 do t = { t, t } end", "game.json.encode, t") >= 100);
}

/* Each call takes longer than a slice, and the host still gets its turns. */
static void a_long_call_is_suspended_at_the_end_of_its_slice(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "local t = {} for i = 1, 400000 do t[i] = { i } end begin() game.values.encode(t) over()",
        "local t = {} for i = 1, 400000 do t[i] = { i } end begin() game.json.encode(t) over()",
        "local t = '[' .. ('[1],'):rep(400000) .. '1]' begin() game.json.decode(t) over()",
        "local t = {} for i = 1, 400000 do t[i] = { i } end\n"
        "local c = game.worker.channel(1) begin() c:send(t) over() begin() c:receive() over()",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct orr_lua_options options = { .profile = ORR_LUA_TRUSTED, .slice_ns = MS / 2 };
        char code[1024];
        snprintf(code, sizeof code,
                 "local before\n"
                 "local function begin() before = game.runtime.stats().preemptions end\n"
                 "local function over() assert(game.runtime.stats().preemptions - before > 2) end\n"
                 "%s note 'done'",
                 scripts[i]);
        is_noted(options, code, "done;");
    }
}

/* Encodes a value whose text would have 2^100 elements: these limits must end the script. */
static void ends_an_endless_call(struct orr_lua_options options)
{
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, options);
    struct orr_task *task = start(L, "local t = { 1 } for _ = 1, 100 do t = { t, t } end\n"
                                     "pcall(game.json.encode, t) note 'never'");
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_string_equal(noted, "");
    finish_counting(rt, L);
}

static void a_call_that_would_never_end_is_ended_at_its_deadline(void **state)
{
    (void)state;
    ends_an_endless_call((struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 50 * MS } });
}

/* Where instructions are counted, work in C counts, too. */
static void a_call_uses_up_instructions(void **state)
{
    (void)state;
    ends_an_endless_call((struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = 100000 });
}

/* Another task may overtake a fair task between two instructions, but not inside such a call. */
static void no_task_of_the_isolate_overtakes_a_long_call(void **state)
{
    (void)state;
    is_noted(trusted,
             "local a, list, encoded = game.async, {}, nil\n"
             "for i = 1, 500 do list[i] = { i } end\n"
             "a.run({ fair = true }, function()\n"
             "  a.sleep(0) set_pauses(1, 5)\n"
             "  encoded = game.json.encode(list)\n"
             "  set_pauses(0)\n"
             "end)\n"
             "a.run(function() while not encoded do\n"
             "  for i = #list, 1, -1 do list[i] = nil end\n"
             "  for i = 1, 500 do list[i] = { i } end\n"
             "  a.sleep(0)\n"
             "end end)\n"
             "while not encoded do a.sleep(1) end\n"
             "local again = game.json.decode(encoded)\n"
             "note(#again) note(again[500][1])\n",
             "500;500;");
}

static void take_away(lua_State *L)
{
    if (questions != 3)
        return;
    lua_getglobal(L, "victim");
    for (int i = 1; i <= 100; i++) {
        lua_pushnil(L);
        lua_rawseti(L, -2, i);
    }
    lua_pop(L, 1);
}

/* A finalizer could do that. */
static void changing_a_table_during_a_long_call_is_an_error(void **state)
{
    (void)state;
    static const char *const calls[][2] = {
        { "pcall(game.json.encode, victim)", "the table was changed while it was being written" },
        { "pcall(game.values.encode, victim)", "the table was changed while it was being copied" },
        { "pcall(game.json.encode, { victim, 1 })", "the table was changed while it was being written" },
        { "pcall(game.values.encode, { victim, 1 })", "the table was changed while it was being copied" },
    };
    meddle = take_away;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char code[512];
        snprintf(code, sizeof code,
                 "victim = {} for i = 1, 100 do victim[i] = { i } end\n"
                 "set_pauses(1, 5) local ok, err = %s set_pauses(0)\n"
                 "note(ok) note(err:match ': (the .*)')",
                 calls[i][0]);
        questions = 0;
        char expected[128];
        snprintf(expected, sizeof expected, "false;%s;", calls[i][1]);
        is_noted(trusted, code, expected);
    }
}

/* The isolate is closed while a call is suspended: nothing is sent and nothing is left. */
static void a_dropped_call_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "game.values.encode(t)", "game.json.encode(t)",    "channel:send(t)",
        "channel:try_send(t)",   "game.json.decode(text)", "game.values.decode(bytes)",
        "full:receive()",        "full:try_receive()",     "echo:call(t)",
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct orr_runtime *rt = host_counting_runtime();
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
        lua_register(L, "set_pauses", set_pauses);
        char code[1024];
        snprintf(code, sizeof code,
                 "local t = {} for i = 1, 20000 do t[i] = { i, 'a string of more than forty bytes, which is long' .. i "
                 "} end\n"
                 "local text, bytes = game.json.encode(t), game.values.encode(t)\n"
                 "channel, full = game.worker.channel(1), game.worker.channel(1)\n"
                 "local echo = game.worker.new 'return ...'\n"
                 "full:send(t)\n"
                 "set_pauses(1, 3) note 'begun' %s note 'over'",
                 calls[i]);
        pause_one_in = 0;
        paced_steps = PACED_STEPS;
        struct orr_task *task = start(L, code);
        while (!strstr(noted, "begun"))
            assert_true(orr_runtime_turn(rt, 0) >= 0);
        for (int turn = 0; turn < 20; turn++)
            assert_true(orr_runtime_turn(rt, 0) >= 0);
        assert_string_equal(noted, "begun;");
        pause_one_in = 0;
        paced_steps = PACED_STEPS;
        orr_task_cancel(task, "enough");
        orr_task_unref(task);
        finish_counting(rt, L);
    }
}

/* A task that is ended before it has read all of an item gives the item back. */
static void an_item_whose_read_was_suspended_is_not_lost(void **state)
{
    (void)state;
    is_noted(trusted,
             "local a, channel, t = game.async, game.worker.channel(2), {}\n"
             "for i = 1, 20000 do t[i] = { i } end\n"
             "channel:send(t) channel:send('next')\n"
             "local reader = a.run({ deadline = 1, detached = true }, function()\n"
             "  set_pauses(1, 1) channel:receive() note 'read'\n"
             "end)\n"
             "note(a.pawait(reader))\n"
             "set_pauses(0) reader = nil\n"
             "collectgarbage() collectgarbage()\n"
             "note(#channel) note(#channel:receive()) note(channel:receive())\n",
             "false;2;20000;next;");
}

static void error_names_the_limit_that_was_reached(void **state)
{
    (void)state;
    is_noted((struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED, .longest_string = 100000 },
             "local t = { 1 } for _ = 1, 100 do t = { t, t } end\n"
             "local function why(...) return select(2, pcall(...)):match '[^:]*$' end\n"
             "note(why(game.json.encode, t))\n"
             "note(why(game.json.decode, ('1'):rep(70000)):match '.* bytes')\n"
             "note(why(game.worker.channel, 10001):match '%((.*)%)')\n",
             " the text is longer than strings may be (100000 bytes); a number of more than 65536 bytes;"
             "a capacity from 0 to 10000 expected, which is the most that an untrusted script may have;");
}

/* Strings that are as long and as unusual as possible. */
static void a_long_string_is_quoted_as_in_lua(void **state)
{
    (void)state;
    is_noted((struct orr_lua_options){ .longest_string = 250000, .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } },
             "for seed = 1, 20 do\n"
             "  math.randomseed(seed)\n"
             "  local parts, pieces = {}, {}\n"
             "  for i = 1, 3000 do parts[i] = string.char(math.random(0, 40), math.random(40, 60), math.random(0, "
             "255)) end\n"
             "  local text = table.concat(parts)\n"
             "  for i = 1, #text, 3 do pieces[#pieces + 1] = string.format('%q', text:sub(i, i + 2)):sub(2, -2) end\n"
             "  local whole = string.format('<%q %d %q>', text, 5, 'x')\n"
             "  assert(whole:sub(1, 2) == '<\"' and whole:sub(-8) == '\" 5 \"x\">')\n"
             "  assert(load('return ' .. string.format('%q', text))() == text)\n"
             "end\n"
             "note(#string.format('%q', ('\\1'):rep(100000)))\n"
             "note(pcall(string.format, '%q', ('\\1'):rep(200000)))\n",
             "200002;false;");
}

static const struct CMUnitTest long_calls[] = {
    cmocka_unit_test_setup(calls_suspended_at_random_give_the_same_results, restore),
    cmocka_unit_test_setup(a_long_call_looks_at_the_budget_every_few_thousand_values, restore),
    cmocka_unit_test_setup(a_long_call_is_suspended_at_the_end_of_its_slice, restore),
    cmocka_unit_test_setup(a_call_that_would_never_end_is_ended_at_its_deadline, restore),
    cmocka_unit_test_setup(a_call_uses_up_instructions, restore),
    cmocka_unit_test_setup(no_task_of_the_isolate_overtakes_a_long_call, restore),
    cmocka_unit_test_setup(changing_a_table_during_a_long_call_is_an_error, restore),
    cmocka_unit_test_setup(a_dropped_call_leaves_nothing_behind, restore),
    cmocka_unit_test_setup(an_item_whose_read_was_suspended_is_not_lost, restore),
    cmocka_unit_test_setup(error_names_the_limit_that_was_reached, restore),
    cmocka_unit_test_setup(a_long_string_is_quoted_as_in_lua, restore),
};

HARNESS_MAIN(long_calls)
