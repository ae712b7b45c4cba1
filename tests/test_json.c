/*
 * Values and JSON within the limits of an isolate.  Results belong to the script and are charged to
 * it.  Temporary buffers are bounded, and always freed.
 */
#include "lua/json/read.h"
#include "lua/json/write.h"
#include "lua/values/mark.h"

#include "lua_host.h"

#include <errno.h>

#include <limits.h>
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

/* --- Memory that runs out at every point ------------------------------------------------------ */

static long allowed; /* allocations until all fail */
static long blocks;  /* in use */

static void *meagre(void *data, void *block, size_t old_size, size_t size)
{
    (void)data;
    bool grows = size && (!block || size > old_size);
    if (grows && allowed-- <= 0) {
        allowed = 0;
        return NULL;
    }
    blocks += (size && !block) - (!size && block);
    if (size)
        return realloc(block, size);
    free(block);
    return NULL;
}

static const volatile bool never = false;

/* A string with escapes that outgrows the first buffer, names that come again, a long array. */
static const char record[] = "{\"name\":\"word\",\"list\":[1,2.5,-3e-7,null,true,[],{}],\"of more than 15 bytes\":\"";

static int read_and_write(lua_State *L)
{
    struct json_reader *reader = lua_touserdata(L, 1);
    struct json_writer *writer = lua_touserdata(L, 2);
    struct message *text = lua_touserdata(L, 3);
    size_t size;
    const char *bytes = lua_tolstring(L, 4, &size);
    json_reader_begin(reader, bytes, size, false);
    while (json_reader_step(reader, L, 50, &never) == -EAGAIN)
        ;
    luaL_checkstack(L, VALUES_ERROR_SLOTS, NULL);
    json_writer_begin(writer, text, L, lua_gettop(L), 0, 0);
    int error;
    while ((error = json_writer_step(writer, L, 50, &never)) == -EAGAIN)
        ;
    if (error)
        return luaL_error(L, "%d", error);
    return 0;
}

static int make_text(lua_State *L)
{
    luaL_Buffer b;
    marks_make(L);
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '[');
    for (int i = 0; i < 40; i++) {
        luaL_addstring(&b, record);
        for (int k = 0; k < 20 * i; k++)
            luaL_addstring(&b, "\\u00e9\\n");
        luaL_addstring(&b, "\"},");
    }
    luaL_addstring(&b, "0]");
    luaL_pushresult(&b);
    return 1;
}

/* Answers whether all of it was done. */
static bool read_and_write_with(long allocations)
{
    static const struct alloc alloc = { .fn = meagre };
    static struct json_reader reader;
    static struct json_writer writer;
    struct message text;
    allowed = LONG_MAX;
    message_init(&text, &alloc);
    text.flat = true;
    lua_State *L = lua_newstate(meagre, NULL);
    lua_pushcfunction(L, make_text);
    lua_call(L, 0, 1);
    lua_pushcfunction(L, read_and_write);
    lua_pushlightuserdata(L, &reader);
    lua_pushlightuserdata(L, &writer);
    lua_pushlightuserdata(L, &text);
    lua_pushvalue(L, 1);
    allowed = allocations;
    int status = lua_pcall(L, 4, 0, 0);
    allowed = LONG_MAX;
    if (status == LUA_OK)
        assert_memory_equal(text.bytes, "[{\"", 3);
    else
        assert_true(text.bytes == NULL); /* the writer has freed it, or it was not begun */
    message_free(&text);
    lua_close(L);
    assert_int_equal(blocks, 0);
    return status == LUA_OK;
}

static void reading_and_writing_survive_a_lack_of_memory_at_every_point(void **state)
{
    (void)state;
    long allocations = 0;
    while (!read_and_write_with(allocations))
        allocations++;
    assert_true(allocations > 100); /* tables, strings, the buffer of escapes, the text */
}

static const struct CMUnitTest json_tests[] = {
    cmocka_unit_test(untrusted_scripts_have_values_and_json),
    cmocka_unit_test(memory_of_read_json_is_charged_to_the_script),
    cmocka_unit_test(a_text_is_never_longer_than_a_string_may_be),
    cmocka_unit_test(buffer_of_a_refused_string_is_freed),
    cmocka_unit_test(a_host_may_withhold_values),
    cmocka_unit_test(reading_and_writing_survive_a_lack_of_memory_at_every_point),
};

HARNESS_MAIN(json_tests)
