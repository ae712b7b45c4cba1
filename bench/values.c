/*
 * Tables of about a megabyte, encoded and decoded: as a message between isolates, as a string of
 * values.encode(), and as JSON of lua-cjson, all in the same state.  json.c measures our own JSON.
 * The last shape is small, as the arguments of a worker are.  The collector runs as in any program,
 * and its work is part of all figures.  One pass may or may not contain a collection, so there are
 * several.
 */
#include "isolate.h"
#include "lua/values/decode.h"
#include "lua/values/encode.h"

#include <lauxlib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prepare[] =
    "local function list(count, make) local t = {} for i = 1, count do t[i] = make(i) end return t end\n"
    "local function nested(depth)\n"
    "  if depth == 0 then return { left = 1, right = 'leaf' } end\n"
    "  return { left = nested(depth - 1), right = nested(depth - 1), name = 'node' .. depth }\n"
    "end\n"
    "local states = { 'open', 'closed', 'waiting', 'failed' }\n"
    "shapes = {\n"
    "  { 'integers', 6, function() return list(150000, function(i) return i * 7919 % 1000003 end) end },\n"
    "  { 'floats', 6, function() return list(60000, function(i) return i / 7 end) end },\n"
    "  { 'short_strings', 6, function() return list(80000, function(i) return 'item ' .. i end) end },\n"
    "  { 'few_strings', 6, function() return list(100000, function(i) return states[i % 4 + 1] end) end },\n"
    "  { 'sentences', 6, function() return list(10000, function(i)\n"
    "      return i .. ' times the quick brown fox jumps over the lazy dog, and then it sleeps until the evening "
    "comes' end) end },\n"
    "  { 'records', 6, function() return list(16000, function(i)\n"
    "      return { id = i, name = 'user ' .. i, score = i / 4, active = i % 2 == 0 } end) end },\n"
    "  { 'nested_maps', 6, function() return nested(14) end },\n"
    "  { 'large_strings', 6, function() return list(4, function(i) return string.char(96 + i):rep(256 * 1024) end) end "
    "},\n"
    "  { 'one_record', 20000, function() return { id = 1, name = 'user', score = 0.5, active = true } end },\n"
    "}\n"
    "local values = orrery.values\n"
    "function as_string(value) return values.decode(values.encode(value)) end\n"
    "local found, cjson = pcall(require, 'cjson')\n"
    "if found then function as_cjson(value) return cjson.decode(cjson.encode(value)) end end\n";

static lua_State *L; /* the shape is at the top of its stack */
static int passes;

static void copy_by_message(void)
{
    static const struct alloc alloc = { .fn = alloc_libc };
    struct message m;
    message_init(&m, &alloc);
    bench_must(values_encode(&m, L, -1, 1, "value"), "values_encode");
    values_decode(&m, L);
    message_free(&m);
    lua_pop(L, 1);
}

static double by_message(void)
{
    lua_gc(L, LUA_GCCOLLECT);
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < passes; i++)
        copy_by_message();
    return (double)(bench_cpu_now() - start) / passes / 1000;
}

/* Runs the global function of this name. */
static double by_call(const char *name)
{
    lua_gc(L, LUA_GCCOLLECT);
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < passes; i++) {
        lua_getglobal(L, name);
        lua_pushvalue(L, -2);
        lua_call(L, 1, 0);
    }
    return (double)(bench_cpu_now() - start) / passes / 1000;
}

static double by_string(void)
{
    return by_call("as_string");
}

static double by_cjson(void)
{
    return by_call("as_cjson");
}

static void compare(const char *way, const char *shape, double (*measure)(void), bool peer)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", way, shape);
    measure();
    struct bench_result result = bench_alternate(measure, peer ? by_cjson : NULL);
    bench_line(name, result.value, "us", peer ? result.value / result.peer : 0, peer ? "cjson" : NULL);
}

int main(void)
{
    bench_pin(0);
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    L = isolate_open(rt, UINT64_MAX, UINT64_MAX);
    if (luaL_dostring(L, prepare) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return EXIT_FAILURE;
    }
    bool peer = lua_getglobal(L, "as_cjson") == LUA_TFUNCTION;
    if (!peer)
        puts("values: lua-cjson is not installed");
    lua_getglobal(L, "shapes");
    int shapes = lua_gettop(L);
    for (lua_Integer i = 1; i <= luaL_len(L, shapes); i++) {
        lua_geti(L, shapes, i);
        lua_geti(L, -1, 1);
        lua_geti(L, -2, 2);
        lua_geti(L, -3, 3);
        const char *shape = lua_tostring(L, -3);
        passes = (int)lua_tointeger(L, -2);
        lua_call(L, 0, 1);
        compare("message", shape, by_message, peer);
        compare("values", shape, by_string, peer);
        lua_settop(L, shapes);
    }
    isolate_close(L);
    return orr_runtime_free(rt) ? EXIT_FAILURE : EXIT_SUCCESS;
}
