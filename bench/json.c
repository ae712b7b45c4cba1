/*
 * JSON against lua-cjson, in the same state: text made of a value, a value made of the text, and
 * both in a row.  Both libraries read the same text.  Most values have about a megabyte of text;
 * `small` ones are as a request or its answer.  The collector runs as in any program, and its work
 * is part of all figures.  One pass may or may not contain a collection, so there are several.
 *
 * bench_json [SHAPE]          times of all shapes, or of those whose names contain SHAPE
 * bench_json --once [SHAPE]   one pass of each for bench/json-instructions: values of an eighth of
 *                             the size, and no collector
 */
#include "isolate.h"

#include <lauxlib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prepare[] =
    "local function list(count, make) local t = {} for i = 1, count do t[i] = make(i) end return t end\n"
    "local function many(count, make) return list(count // shorter, make) end\n"
    "local function nested(depth)\n"
    "  if depth == 0 then return { left = 1, right = 'leaf' } end\n"
    "  return { left = nested(depth - 1), right = nested(depth - 1), name = 'node' .. depth }\n"
    "end\n"
    "local function deep(depth, i) if depth == 0 then return i end return { deep(depth - 1, i) } end\n"
    "local states = { 'open', 'closed', 'waiting', 'failed' }\n"
    "local seed = 42\n"
    "local function random() seed = (seed * 25214903917 + 11) & 0xffffffffffff return (seed >> 16) / 2^32 end\n"
    "local function bits() return (random() * 2^53 // 1 + random()) / 2^53 end\n"
    "local function user(i) return { id = i, login = 'user' .. i % 500, type = 'User', site_admin = false,\n"
    "  url = 'https://api.example.com/users/user' .. i % 500 } end\n"
    "local function issue(i) return {\n"
    "  id = 1000000 + i, number = i, title = 'Reading stops after the ' .. i .. 'th line of a file', user = user(i),\n"
    "  state = states[i % 4 + 1], locked = false, comments = i * 7 % 23, score = i * 37 % 1000 / 100,\n"
    "  labels = list(i % 4, function(k) return { name = 'label-' .. k, color = 'd73a4a', default = k == 1 } end),\n"
    "  assignee = i % 3 == 0 and user(i + 1) or orrery.json.null, milestone = orrery.json.null,\n"
    "  created_at = '2024-03-' .. 10 + i % 20 .. 'T12:34:56Z', updated_at = '2024-04-' .. 10 + i % 20 .. "
    "'T01:02:03Z',\n"
    "  body = 'When I read a file with \"\\r\\n\" at its end, the last line is missing.\\n\\n```lua\\nfor line in "
    "lines() do\\n  print(line)\\nend\\n```\\nExpected: ' .. i .. ' lines — as in version 1.2.' } end\n"
    "shapes = {\n"
    "  { 'integers', 4, function() return many(150000, function(i) return i * 7919 % 1000003 end) end },\n"
    "  { 'floats', 4, function() return many(60000, function(i) return i / 7 end) end },\n"
    "  { 'prices', 4, function() return many(150000, function(i) return i * 37 % 100000 / 100 end) end },\n"
    "  { 'random_floats', 4, function() return many(50000, bits) end },\n"
    "  { 'short_strings', 4, function() return many(80000, function(i) return 'item ' .. i end) end },\n"
    "  { 'few_strings', 4, function() return many(100000, function(i) return states[i % 4 + 1] end) end },\n"
    "  { 'sentences', 4, function() return many(10000, function(i)\n"
    "      return i .. ' times the quick brown fox jumps over the lazy dog, and then it sleeps until the evening "
    "comes' end) end },\n"
    "  { 'unicode', 4, function() return many(12000, function(i)\n"
    "      return i .. ' mal sprang der flinke Fuchs über den trägen Hund — и уснул, 然后睡了 🦊' end) "
    "end "
    "},\n"
    "  { 'escapes', 4, function() return many(12000, function(i)\n"
    "      return '\"' .. i .. '\"\\tC:\\\\Users\\\\fox\\\\notes.txt\\n\"sleeps\"\\tuntil the \"evening\"\\r\\n' end) "
    "end },\n"
    "  { 'records', 4, function() return many(16000, function(i)\n"
    "      return { id = i, name = 'user ' .. i, score = i / 4, active = i % 2 == 0 } end) end },\n"
    "  { 'mixed_records', 4, function() return many(6000, function(i)\n"
    "      return { id = i, name = 'user ' .. i, tags = { 'a', states[i % 4 + 1] }, at = { x = i / 3, y = -i },\n"
    "        parent = i % 2 == 0 and i - 1 or orrery.json.null, active = true, note = 'says \"hello\"\\n' } end) end "
    "},\n"
    "  { 'nested_maps', 4, function() return nested(14 - (shorter > 1 and 3 or 0)) end },\n"
    "  { 'nested_arrays', 4, function() return many(2500, function(i) return deep(150, i) end) end },\n"
    "  { 'api_response', 4, function() return { total_count = 1600, incomplete_results = false, items = many(1600, "
    "issue) } "
    "end },\n"
    "  { 'large_strings', 4, function() return list(4, function(i) return string.char(96 + i):rep(256 * 1024) end) end "
    "},\n"
    "  { 'small_record', 20000, function() return { id = 1, name = 'user', score = 0.5, active = true } end },\n"
    "  { 'small_response', 2000, function() return { items = list(3, issue), next = 'page=2' } end },\n"
    "}\n"
    "function text_of(value) return orrery.json.encode(value) end\n"
    "ours, cjson = orrery.json, select(2, pcall(require, 'cjson'))\n";

static const char *const ways[] = { "encode", "decode", "both" };

static lua_State *L;
static int passes, way;

/* [value] [text]: makes text, a value, or both. */
static void pass(int library)
{
    int top = lua_gettop(L);
    if (way != 1) {
        lua_getfield(L, library, "encode");
        lua_pushvalue(L, top - 1);
        lua_call(L, 1, 1);
    } else {
        lua_pushvalue(L, top);
    }
    if (way != 0) {
        lua_getfield(L, library, "decode");
        lua_rotate(L, -2, 1);
        lua_call(L, 1, 1);
    }
    lua_settop(L, top);
}

/* What bench/json-instructions counts. */
__attribute__((noinline)) static void one_pass(int library)
{
    pass(library);
}

static double by(int library)
{
    lua_gc(L, LUA_GCCOLLECT);
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < passes; i++)
        pass(library);
    return (double)(bench_cpu_now() - start) / passes / 1000;
}

enum { OURS = 1, CJSON, SHAPES }; /* on the stack */

static double by_us(void)
{
    return by(OURS);
}

static double by_cjson(void)
{
    return by(CJSON);
}

static void compare(const char *shape, bool peer)
{
    for (way = 0; way < 3; way++) {
        char name[64];
        snprintf(name, sizeof name, "json_%s_%s", shape, ways[way]);
        by_us();
        struct bench_result result = bench_alternate(by_us, peer ? by_cjson : NULL);
        bench_line(name, result.value, "us", peer ? result.value / result.peer : 0, peer ? "cjson" : NULL);
    }
}

static void run_once(const char *shape, bool peer)
{
    lua_gc(L, LUA_GCSTOP);
    for (way = 0; way < 3; way++) {
        for (int library = OURS; library <= (peer ? CJSON : OURS); library++) {
            printf("json_%s_%s %s\n", shape, ways[way], library == OURS ? "orrery" : "cjson");
            pass(library); /* the linker's work is not counted */
            one_pass(library);
        }
    }
    lua_gc(L, LUA_GCRESTART);
    lua_gc(L, LUA_GCCOLLECT);
}

int main(int argc, char **argv)
{
    bool once = argc > 1 && strcmp(argv[1], "--once") == 0;
    const char *chosen = argc > 1 + once ? argv[1 + once] : "";
    bench_pin(0);
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    L = isolate_open(rt, UINT64_MAX, UINT64_MAX);
    lua_pushinteger(L, once ? 8 : 1);
    lua_setglobal(L, "shorter");
    if (luaL_dostring(L, prepare) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return EXIT_FAILURE;
    }
    lua_getglobal(L, "ours");
    bool peer = lua_getglobal(L, "cjson") == LUA_TTABLE;
    if (!peer)
        puts("json: lua-cjson is not installed");
    lua_getglobal(L, "shapes");
    for (lua_Integer i = 1; i <= luaL_len(L, SHAPES); i++) {
        lua_geti(L, SHAPES, i);
        lua_geti(L, -1, 1);
        lua_geti(L, -2, 2);
        const char *shape = lua_tostring(L, -2);
        passes = (int)lua_tointeger(L, -1);
        if (strstr(shape, chosen)) {
            lua_geti(L, -3, 3);
            lua_call(L, 0, 1);
            lua_getglobal(L, "text_of");
            lua_pushvalue(L, -2);
            lua_call(L, 1, 1); /* [value] [text] */
            (once ? run_once : compare)(shape, peer);
        }
        lua_settop(L, SHAPES);
    }
    isolate_close(L);
    return orr_runtime_free(rt) ? EXIT_FAILURE : EXIT_SUCCESS;
}
