/*
 * Hooks of scripts, and coroutines that fail, under slices.  Each script must see exactly what it
 * sees where nothing interrupts it.
 */
#include "lua_host.h"

#include <errno.h>
#include <string.h>

#define CLOSES "local x <close> = setmetatable({}, { __close = function(_, e) note('closed', e) end })\n"

/* Notes everything that a function returns. */
#define NOTE_ALL \
    "local one = note " \
    "local function note(...) for i = 1, select('#', ...) do one((select(i, ...))) end end "

/* Runs a script to its end in a state of its own. */
static void run(struct orr_lua_options options, const char *script)
{
    char code[4096];
    snprintf(code, sizeof code, NOTE_ALL "%s", script);
    options.deadline_ns[ORR_LUA_SCRIPT] = ORR_NEVER;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, options);
    struct orr_task *task = start(L, code);
    turn_until_done(rt, task, ORR_NEVER);
    assert_int_equal(error_of(rt, task), 0);
    finish(rt, L);
}

static const struct orr_lua_options ways[] = {
    { .mode = ORR_LUA_OFF },
    { .mode = ORR_LUA_SIGNAL },
    { .mode = ORR_LUA_SIGNAL, .slice_ns = MS / 10 },
};

/* The first way is Lua without slices; the others must give the same notes. */
static void is_the_same_in_all_ways(const char *code)
{
    char expected[sizeof noted] = "";
    for (size_t i = 0; i < LENGTH(ways); i++) {
        run(ways[i], code);
        if (i)
            assert_string_equal(noted, expected);
        snprintf(expected, sizeof expected, "%s", noted);
    }
}

/* --- Coroutines that fail --------------------------------------------------------------------- */

#define FAILS \
    "local co = coroutine.create(function() " CLOSES "error('boom', 0) end)\n" \
    "note(coroutine.resume(co)) note(coroutine.status(co)) note(coroutine.close(co)) note(coroutine.status(co))\n" \
    "co = coroutine.create(function() end)\n" \
    "note(coroutine.resume(co)) note(coroutine.resume(co)) note(coroutine.status(co)) note(coroutine.close(co))\n" \
    "note(pcall(coroutine.wrap(function() " CLOSES "error('bang', 0) end)))\n"

static void coroutine_that_fails_is_closed_also_where_hooks_have_been_used(void **state)
{
    (void)state;
    is_the_same_in_all_ways("debug.gethook() " FAILS "debug.sethook(function() end, 'crl', 7) " FAILS
                            "debug.sethook() " FAILS);
    assert_non_null(strstr(noted, "closed;boom;"));
}

static void coroutine_that_fails_where_instructions_are_counted_is_closed(void **state)
{
    (void)state;
    run((struct orr_lua_options){ .mode = ORR_LUA_OFF }, FAILS);
    char expected[sizeof noted];
    snprintf(expected, sizeof expected, "%s", noted);
    run((struct orr_lua_options){ .mode = ORR_LUA_COUNT, .check_interval = 10 }, FAILS);
    assert_string_equal(noted, expected);
}

/* The error is Lua's own text, also while the end of a slice is pending. */
static void coroutine_that_resumes_itself_gets_a_text(void **state)
{
    (void)state;
    static const struct orr_lua_options all[] = {
        { .slice_ns = MS / 10 },
        { .mode = ORR_LUA_COUNT, .check_interval = 10, .max_instructions = ORR_NEVER },
    };
    for (size_t i = 0; i < LENGTH(all); i++) {
        run(all[i], "local co, texts = nil, {}\n"
                    "for i = 1, 1e5 do\n"
                    "  co = coroutine.wrap(function() local _, e = pcall(co) texts[e] = true end)\n"
                    "  co()\n"
                    "end\n"
                    "for text in pairs(texts) do note(tostring(text)) end");
        assert_string_equal(noted, "cannot resume non-suspended coroutine;");
    }
}

/* As in Lua: the hook kills its own coroutine, not the one beside it. */
static void coroutine_that_its_own_hook_has_killed_is_closed(void **state)
{
    (void)state;
    is_the_same_in_all_ways("local function killed()\n"
                            "  return coroutine.create(function() " CLOSES "\n"
                            "    debug.sethook(function() error('hooked', 0) end, '', 100)\n"
                            "    while true do end\n"
                            "  end)\n"
                            "end\n"
                            "local co = killed()\n"
                            "note(coroutine.resume(co)) note(coroutine.status(co)) note(coroutine.close(co))\n"
                            "note(pcall(coroutine.wrap(function() return coroutine.resume(killed()) end)))\n"
                            "note(debug.gethook())\n" FAILS);
    assert_non_null(strstr(noted, "false;hooked;dead;closed;hooked;false;hooked;"));
}

/*
 * A coroutine that our hook has killed has its hooks off, so nothing could interrupt its closing.
 */
static void coroutine_that_runs_out_of_its_memory_is_not_closed(void **state)
{
    (void)state;
    static const char grow[] = "local function grow() local t = {} while true do t[#t + 1] = {} end end\n"
                               "local co = coroutine.create(function() " CLOSES "grow() end)\n"
                               "note(coroutine.resume(co)) note(coroutine.status(co)) note(coroutine.close(co))\n"
                               /* A coroutine that catches the same error fails like any other. */
                               "co = coroutine.create(function() " CLOSES "pcall(grow) error('boom', 0) end)\n"
                               "note(coroutine.resume(co)) note(coroutine.close(co))";
    for (int i = 0; i < 2; i++) {
        run((struct orr_lua_options){ .mode = i ? ORR_LUA_COUNT : ORR_LUA_SIGNAL,
                                      .max_instructions = ORR_NEVER,
                                      .memory_limit = 4 << 20 },
            grow);
        assert_string_equal(noted, "false;not enough memory;dead;false;this coroutine was ended from outside;"
                                   "false;boom;closed;boom;false;boom;");
    }
}

/* --- What a hook sees ------------------------------------------------------------------------- */

static void line_hook_is_called_for_the_first_line_after_it_is_set(void **state)
{
    (void)state;
    run((struct orr_lua_options){ .slice_ns = MS / 10 }, "local stats = game.runtime.stats\n"
                                                         "local missed, rounds = 0, 0\n"
                                                         "repeat\n"
                                                         "  local first\n"
                                                         "  for i = 1, 300 do end\n"
                                                         "  debug.sethook(function(_, l) first = first or l end, 'l')\n"
                                                         "  local x = 1\n"
                                                         "  debug.sethook()\n"
                                                         "  missed = missed + (first == 7 and 0 or 1)\n"
                                                         "  rounds = rounds + 1\n"
                                                         "until rounds >= 10000 and stats().preemptions >= 100\n"
                                                         "note(missed)");
    assert_string_equal(noted, "0;");
}

static void setting_a_hook_is_one_call(void **state)
{
    (void)state;
    is_the_same_in_all_ways("local seen = {}\n"
                            "local function hook(event)\n"
                            "  local info = debug.getinfo(2, 'nSl')\n"
                            "  seen[#seen + 1] = event .. ' ' .. info.what .. ' ' .. tostring(info.name)\n"
                            "end\n"
                            "debug.sethook(hook, 'crl')\n"
                            "local a, b, c = debug.gethook()\n"
                            "debug.sethook()\n"
                            "note(table.concat(seen, ',')) note(a == hook) note(b) note(c)\n"
                            "note(select('#', debug.gethook()))\n"
                            "note(pcall(debug.sethook, 1, 'l')) note(pcall(debug.sethook, print))");
    assert_memory_equal(noted,
                        "return C sethook,line main nil,call C gethook,return C gethook,line main nil,call C sethook;"
                        "true;crl;0;1;",
                        105);
}

static void hook_is_called_once_for_each_event(void **state)
{
    (void)state;
    static const char *const masks[] = { "'l'", "'c'", "'r'", "'crl'", "'', 1", "'l', 1" };
    for (size_t i = 0; i < LENGTH(masks); i++) {
        char code[2048];
        snprintf(code, sizeof code,
                 "local seen = {}\n"
                 "local function hook(event) seen[event] = (seen[event] or 0) + 1 end\n"
                 "local function inner(n)\n"
                 "  local t = {}\n"
                 "  for i = 1, n do\n"
                 "    t[i] = setmetatable({}, { __index = t })\n"
                 "  end\n"
                 "  return #t\n"
                 "end\n"
                 "local function outer(n) return inner(n) end\n"
                 "local co = coroutine.wrap(function()\n"
                 "  debug.sethook(hook, %s)\n"
                 "  for i = 1, 4000 do\n"
                 "    if outer(i %% 7) == 3 then coroutine.yield(i) end\n"
                 "    math.abs(-1)\n"
                 "  end\n"
                 "  debug.sethook()\n"
                 "end)\n"
                 "while co() do end\n"
                 "for _, event in ipairs { 'call', 'tail call', 'return', 'line', 'count' } do note(seen[event]) end",
                 masks[i]);
        is_the_same_in_all_ways(code);
    }
}

static void count_of_a_hook_goes_on_from_slice_to_slice(void **state)
{
    (void)state;
    is_the_same_in_all_ways("local counts = 0\n"
                            "debug.sethook(function() counts = counts + 1 end, '', 1000000)\n"
                            "for i = 1, 2e7 do end\n"
                            "debug.sethook()\n"
                            "note(counts)");
    assert_string_equal(noted, "20;");
}

/* A hook belongs to one coroutine. */
static void hook_is_not_inherited(void **state)
{
    (void)state;
    is_the_same_in_all_ways("local seen = 0\n"
                            "debug.sethook(function() seen = seen + 1 end, 'l')\n"
                            "local co = coroutine.wrap(function()\n"
                            "  for i = 1, 1e5 do\n"
                            "    local x = i\n"
                            "  end\n"
                            "end)\n"
                            "co()\n"
                            "debug.sethook()\n"
                            "note(seen)");
}

static void script_with_a_hook_is_suspended_and_ended(void **state)
{
    (void)state;
    static const char *const masks[] = { "'l'", "'c'", "'r'", "'', 1000000" };
    for (size_t i = 0; i < LENGTH(masks); i++) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .slice_ns = MS / 10, .deadline_ns = { [ORR_LUA_SCRIPT] = 20 * MS } });
        char code[256];
        snprintf(code, sizeof code,
                 "debug.sethook(function() end, %s)\n"
                 "table.sort({ 1, 2, 3 }, function() while true do pcall(math.abs, 1) end end)",
                 masks[i]);
        struct orr_task *task = start(L, code);
        turn_until_done(rt, task, MS);
        assert_int_equal(error_of(rt, task), -ETIME);
        snprintf(code, sizeof code, "debug.sethook(function() end, %s) while true do math.abs(1) end", masks[i]);
        task = start(L, code);
        turn_until_done(rt, task, MS);
        assert_int_equal(error_of(rt, task), -ETIME);
        finish(rt, L);
        snprintf(code, sizeof code,
                 "local stats = game.runtime.stats\n"
                 "debug.sethook(function() end, %s)\n"
                 "repeat for i = 1, 1000 do math.abs(1) end until stats().preemptions > 3",
                 masks[i]);
        run((struct orr_lua_options){ .slice_ns = MS / 10 }, code);
    }
}

/* --- Full stacks ------------------------------------------------------------------------------ */

/* Runs `work` twice with a filled stack.  Lua's stack ends at a million values. */
#define FILLED \
    "local function filled(n, work)\n" \
    "  return coroutine.wrap(pcall)(function(...)\n" \
    "    local function inner(...) return work() end\n" \
    "    return (inner(...))\n" \
    "  end, table.unpack({}, 1, n))\n" \
    "end\n"

/*
 * A signal that arrives between the growth of a stack and its use finds room that is about to be
 * used.  AddressSanitizer makes that moment long.
 */
static void full_stack_overflows_at_the_same_depth_with_slices(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    is_the_same_in_all_ways(FILLED "local function work() local x = 0 for i = 1, 2e5 do x = x + i % 7 end end\n"
                                   "for n = 499976, 500004, 4 do note((filled(n, work))) end");
    assert_non_null(strstr(noted, "true;"));
    assert_non_null(strstr(noted, "false;"));
}

static void nearly_full_stack_is_suspended(void **state)
{
    (void)state;
    run((struct orr_lua_options){ .slice_ns = MS / 10 },
        FILLED "local stats = game.runtime.stats\n"
               "note(filled(499000, function()\n"
               "  local before = stats().preemptions\n"
               "  repeat for i = 1, 1000 do end until stats().preemptions > before + 10\n"
               "end))");
    assert_string_equal(noted, "true;nil;");
}

static void script_is_ended_where_its_stack_is_full(void **state)
{
    (void)state;
    for (int n = 499000; n < 499990; n += 10) {
        struct orr_runtime *rt = host_runtime();
        lua_State *L = open_trusted(
            rt, (struct orr_lua_options){ .slice_ns = MS / 10, .deadline_ns = { [ORR_LUA_SCRIPT] = 10 * MS } });
        char code[512];
        snprintf(code, sizeof code, FILLED "while true do filled(%d, function() while true do end end) end", n);
        struct orr_task *task = start(L, code);
        turn_until_done(rt, task, MS);
        assert_int_equal(error_of(rt, task), -ETIME);
        finish(rt, L);
        n += n == 499100 ? 800 : 0;
    }
}

/* The frame must not grow by a slot with each suspension. */
static void suspended_coroutine_takes_no_more_stack(void **state)
{
    (void)state;
    run((struct orr_lua_options){ .slice_ns = MS / 10 },
        "local stats = game.runtime.stats\n"
        "local function within(n, ...)\n"
        "  local before = stats().preemptions\n"
        "  repeat for i = 1, 1000 do end until stats().preemptions > before + 100\n"
        "  return select('#', ...)\n"
        "end\n"
        "note(coroutine.wrap(function() return within(1, table.unpack({}, 1, 499960)) end)())");
    assert_string_equal(noted, "499960;");
}

static const struct CMUnitTest hooks[] = {
    cmocka_unit_test(coroutine_that_fails_is_closed_also_where_hooks_have_been_used),
    cmocka_unit_test(coroutine_that_fails_where_instructions_are_counted_is_closed),
    cmocka_unit_test(coroutine_that_resumes_itself_gets_a_text),
    cmocka_unit_test(coroutine_that_its_own_hook_has_killed_is_closed),
    cmocka_unit_test(coroutine_that_runs_out_of_its_memory_is_not_closed),
    cmocka_unit_test(line_hook_is_called_for_the_first_line_after_it_is_set),
    cmocka_unit_test(setting_a_hook_is_one_call),
    cmocka_unit_test(hook_is_called_once_for_each_event),
    cmocka_unit_test(count_of_a_hook_goes_on_from_slice_to_slice),
    cmocka_unit_test(hook_is_not_inherited),
    cmocka_unit_test(script_with_a_hook_is_suspended_and_ended),
    cmocka_unit_test(full_stack_overflows_at_the_same_depth_with_slices),
    cmocka_unit_test(nearly_full_stack_is_suspended),
    cmocka_unit_test(script_is_ended_where_its_stack_is_full),
    cmocka_unit_test(suspended_coroutine_takes_no_more_stack),
};

HARNESS_MAIN(hooks)
