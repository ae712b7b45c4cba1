/*
 * Values and JSON within the limits of an isolate.  Results belong to the script and are charged to
 * it.  Temporary buffers are bounded, and always freed.
 */
#include "lua_host.h"

#include <stdlib.h>
#include <string.h>

static _Atomic long long peak_bytes;

static void *peak_alloc(void *data, void *block, size_t old_size, size_t size)
{
    void *result = counting_alloc(data, block, old_size, size);
    if (allocated_bytes > peak_bytes)
        peak_bytes = allocated_bytes;
    return result;
}

static struct orr_runtime *rt;

static lua_State *open_limited(size_t memory, size_t longest_string)
{
    allocated_bytes = peak_bytes = 0;
    rt = host_runtime_with((struct orr_options){ .alloc = peak_alloc });
    assert_non_null(rt);
    return open_isolate(rt, (struct orr_lua_options){ .profile = ORR_LUA_UNTRUSTED,
                                                      .memory_limit = memory,
                                                      .longest_string = longest_string });
}

/* Runs a script that notes something, then closes everything: all memory must be free again. */
static void is_noted(lua_State *L, const char *code, const char *expected)
{
    start(L, code);
    harness_settle(rt);
    assert_string_equal(sink_text, "");
    assert_string_equal(noted, expected);
    finish_counting(rt, L);
}

static void untrusted_scripts_have_values_and_json(void **state)
{
    (void)state;
    is_noted(open_limited(0, 0),
             "local v, j = game.values, game.json\n"
             "note(v.decode(v.encode({ 'x' }))[1]) note(j.encode(j.decode('[[],{}]')))\n"
             "note(getmetatable(j.array())) note(pcall(setmetatable, j.array(), {}))\n"
             "note(pcall(v.encode, { game.async.event() }))\n",
             "x;[[],{}];false;false;false;");
}

/* 100,000 empty arrays take about 7 MB. */
static void memory_of_read_json_is_charged_to_the_script(void **state)
{
    (void)state;
    is_noted(open_limited(2 << 20, 0),
             "local text = '[' .. ('[],'):rep(100000) .. '1]'\n"
             "local ok, err = pcall(game.json.decode, text)\n"
             "note(ok) note(err)\n"
             "note(#game.json.decode('[' .. ('[],'):rep(1000) .. '1]'))\n",
             "false;not enough memory;1001;");
    assert_true(peak_bytes < 8 << 20);
    is_noted(open_limited(16 << 20, 0), "note(#game.json.decode('[' .. ('[],'):rep(100000) .. '1]'))\n", "100001;");
}

/* The text would have 2^100 elements. */
static void a_text_is_never_longer_than_a_string_may_be(void **state)
{
    (void)state;
    is_noted(open_limited(0, 100000),
             "local t = { 1 } for _ = 1, 100 do t = { t, t } end\n"
             "local ok, err = pcall(game.json.encode, t)\n"
             "note(ok) note(err:match('the text is longer than strings may be'))\n",
             "false;the text is longer than strings may be;");
    assert_true(peak_bytes < 8 << 20);
}

static void buffer_of_a_refused_string_is_freed(void **state)
{
    (void)state;
    is_noted(open_limited(0, 100000),
             "local t = {} for i = 1, 30000 do t[i] = i * 1000 end\n"
             "note(pcall(game.values.encode, t))\n"
             "local text = game.values.encode({ ('x'):rep(50000) })\n"
             "note(#game.values.decode(text)[1])\n",
             "false;50000;");
}

static void a_host_may_withhold_values(void **state)
{
    (void)state;
    allocated_bytes = peak_bytes = 0;
    rt = host_runtime_with((struct orr_options){ .alloc = peak_alloc });
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .modules = (const char *const[]){ "json", NULL } });
    is_noted(L, "note(game.values) note(type(game.json.encode))", "nil;function;");
}

static const struct CMUnitTest json_tests[] = {
    cmocka_unit_test(untrusted_scripts_have_values_and_json),
    cmocka_unit_test(memory_of_read_json_is_charged_to_the_script),
    cmocka_unit_test(a_text_is_never_longer_than_a_string_may_be),
    cmocka_unit_test(buffer_of_a_refused_string_is_freed),
    cmocka_unit_test(a_host_may_withhold_values),
};

HARNESS_MAIN(json_tests)
