/*
 * Calls of C functions that take long: they look at the budget every so many values, can be suspended there, and come to the same whatever
 * happens in between.  The questions are answered by the test where it says so; else by the budget.
 */
#include "lua_host.h"

#include "lua/limits/budget.h"
#include "lua/limits/paced.h"
#include "lua/task/suspend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const char paced_lua[];
extern const size_t paced_lua_size;

/* --- A budget that is used up as the test likes -------------------------------------------------------------------------- */

static _Atomic uint32_t pause_one_in; /* one in so many questions, by chance, is answered yes; 0: the budget decides */
static _Atomic unsigned questions;
static void (*meddle)(lua_State *L); /* what happens at a question */

static uint64_t draw(void)
{
    static _Thread_local uint64_t random_state = 88172645463325252u;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

bool __real_budget_wants_hold(lua_State *L);
bool __wrap_budget_wants_hold(lua_State *L);
bool __wrap_budget_wants_hold(lua_State *L)
{
    questions++;
    if (meddle)
        meddle(L);
    bool wants = __real_budget_wants_hold(L); /* which raises at the deadline */
    return pause_one_in ? can_suspend(L) && draw() % pause_one_in == 0 : wants;
}

/* set_pauses(one_in, steps) */
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

/* --- What is allocated ---------------------------------------------------------------------------------------------------- */

static const struct orr_lua_options trusted = { .profile = ORR_LUA_TRUSTED };

/* Runs a script to its end, and closes all: nothing of it is left. */
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
    error_of(rt, task);
    assert_string_equal(sink_text, "");
    assert_string_equal(noted, expected);
    finish_counting(rt, L);
}

/* --- The tests -------------------------------------------------------------------------------------------------------------- */

static void what_is_suspended_by_chance_comes_to_the_same(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } });
    assert_int_equal(luaL_loadbuffer(L, paced_lua, paced_lua_size, "=paced.lua"), LUA_OK);
    lua_getglobal(L, "game");
    lua_pushcfunction(L, set_pauses);
    const char *seed = getenv("ORR_TEST_SEED");
    lua_pushinteger(L, seed ? atoi(seed) : 20261117);
    struct orr_task *task;
    assert_int_equal(orr_lua_start(L, 3, "paced", &task), 0);
    turn_until_done(rt, task, 4 * MS);
    const struct orr_result *result = orr_task_result(task);
    assert_string_equal(result->error ? result->message : "", "");
    assert_int_equal(error_of(rt, task), 0);
    assert_true(questions > 10000);
    finish_counting(rt, L);
}

/* How often the budget is looked at in one call. */
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
    /* Without a value that is not a table, and without one that is not empty. */
    assert_true(questions_of("local t = {} for i = 1, 60 do t = { t, t } end", "game.json.encode, t") >= 100);
}

/* The host gets its turns back: all of these take longer than a slice. */
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

/* Two to the hundredth, and no limit but time. */
static void a_call_that_would_never_end_is_ended_at_its_deadline(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 50 * MS } });
    struct orr_task *task = start(L, "local t = { 1 } for _ = 1, 100 do t = { t, t } end\n"
                                     "pcall(game.json.encode, t) note 'never'");
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_string_equal(noted, "");
    finish_counting(rt, L);
}

/* Where instructions are counted, work in C counts, too. */
static void a_call_uses_up_instructions(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_COUNT, .max_instructions = 100000 });
    struct orr_task *task = start(L, "local t = { 1 } for _ = 1, 100 do t = { t, t } end\n"
                                     "pcall(game.json.encode, t) note 'never'");
    turn_until_done(rt, task, 4 * MS);
    assert_int_equal(error_of(rt, task), -ETIME);
    assert_string_equal(noted, "");
    finish_counting(rt, L);
}

/* A task that is fair is overtaken between two instructions, and not inside such a call. */
static void nobody_of_the_isolate_overtakes_a_call(void **state)
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
static void a_table_that_is_changed_meanwhile_is_an_error(void **state)
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

/* The isolate is closed while a call is suspended: nothing is sent, and nothing left. */
static void a_call_that_is_dropped_leaves_nothing_behind(void **state)
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

/* Whoever was given an item, and was ended before it had read all of it, gives it back. */
static void an_item_that_was_half_read_is_not_lost(void **state)
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

static void caps_are_named(void **state)
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

/* As long and as odd as it may be. */
static void a_long_string_is_quoted_as_luas_own_does_it(void **state)
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

static const struct CMUnitTest paced_tests[] = {
    cmocka_unit_test_setup(what_is_suspended_by_chance_comes_to_the_same, restore),
    cmocka_unit_test_setup(a_long_call_looks_at_the_budget_every_few_thousand_values, restore),
    cmocka_unit_test_setup(a_long_call_is_suspended_at_the_end_of_its_slice, restore),
    cmocka_unit_test_setup(a_call_that_would_never_end_is_ended_at_its_deadline, restore),
    cmocka_unit_test_setup(a_call_uses_up_instructions, restore),
    cmocka_unit_test_setup(nobody_of_the_isolate_overtakes_a_call, restore),
    cmocka_unit_test_setup(a_table_that_is_changed_meanwhile_is_an_error, restore),
    cmocka_unit_test_setup(a_call_that_is_dropped_leaves_nothing_behind, restore),
    cmocka_unit_test_setup(an_item_that_was_half_read_is_not_lost, restore),
    cmocka_unit_test_setup(caps_are_named, restore),
    cmocka_unit_test_setup(a_long_string_is_quoted_as_luas_own_does_it, restore),
};

HARNESS_MAIN(paced_tests)
