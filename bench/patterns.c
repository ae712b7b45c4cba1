/*
 * string.find and the other functions of patterns beside Lua's own, on typical uses.  Figures are
 * for one call, or for one pass over the subject.  The last line is the geometric mean of the
 * ratios.
 */
#include "bench.h"
#include "lua/pattern/pattern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char prepare[] =
    "local words = ('the quick brown fox jumps over the lazy dog '):rep(20)\n"
    "local long = ('lorem ipsum dolor sit amet, '):rep(4000) .. 'needle=42'\n"
    "local line = '2026-11-16 02:48:07 [worker-3] INFO: request GET /index.html took 12.5 ms'\n"
    "local names = { fox = 'cat', dog = 'wolf', quick = 'slow' }\n"
    "local code = 'f(a, g(b, (c)), h()) + k(' .. ('x(y)'):rep(20) .. ')'\n"
    "local settings = ('width = 640\\nheight=480\\n  title  =  main window\\n'):rep(10)\n"
    "return {\n"
    "  { 'find_plain', 2000, function(s, n) local f = s.find for _ = 1, n do f(line, 'request', 1, true) end end },\n"
    "  { 'find_class', 2000, function(s, n) local f = s.find for _ = 1, n do f(line, '%a+') end end },\n"
    "  { 'match_captures', 1000, function(s, n) local f = s.match\n"
    "      for _ = 1, n do f(line, '(%d+)-(%d+)-(%d+) (%d+):(%d+)') end end },\n"
    "  { 'match_anchored', 2000, function(s, n) local f = s.match for _ = 1, n do f('  trim me  ', '^%s*(.-)%s*$') end "
    "end },\n"
    "  { 'match_short', 5000, function(s, n) local f = s.match for _ = 1, n do f('abc', '^%a') end end },\n"
    "  { 'gmatch_words', 20, function(s, n) for _ = 1, n do for _ in s.gmatch(words, '%a+') do end end end },\n"
    "  { 'gsub_string', 20, function(s, n) local f = s.gsub for _ = 1, n do f(words, 'o', '<%0>') end end },\n"
    "  { 'gsub_short', 2000, function(s, n) local f = s.gsub for _ = 1, n do f('a b c', ' ', '_') end end },\n"
    "  { 'gsub_table', 20, function(s, n) local f = s.gsub for _ = 1, n do f(words, '%a+', names) end end },\n"
    "  { 'gsub_function', 20, function(s, n) local f, g = s.gsub, function(w) return names[w] end\n"
    "      for _ = 1, n do f(words, '%a+', g) end end },\n"
    "  { 'gsub_function_short', 1000, function(s, n) local f, g = s.gsub, function(w) return names[w] end\n"
    "      for _ = 1, n do f('the dog', '%a+', g) end end },\n"
    "  { 'balance', 500, function(s, n) local f = s.match for _ = 1, n do f(code, 'k(%b())') end end },\n"
    "  { 'frontier', 50, function(s, n) local f = s.gsub for _ = 1, n do f(words, '%f[%a]%a', '%0') end end },\n"
    "  { 'set', 50, function(s, n) for _ = 1, n do for _ in s.gmatch(words, '[%w_]+') do end end end },\n"
    "  { 'long_scan', 2, function(s, n) local f = s.match for _ = 1, n do f(long, '(%a+)=(%d+)') end end },\n"
    "  { 'long_scan_literal', 10, function(s, n) local f = s.find for _ = 1, n do f(long, 'd%a+=') end end },\n"
    "  { 'key_value', 20, function(s, n) local t = {} for _ = 1, n do\n"
    "      for k, v in s.gmatch(settings, '%s*([%w_]+)%s*=%s*([^\\n]*)') do t[k] = v end end end },\n"
    "}\n";

static lua_State *L;
static struct orr_isolate isolate;
static int passes;

/*
 * Calls the case at the top of the stack with the functions of a global; returns nanoseconds for
 * one pass.
 */
static double measure(const char *functions)
{
    lua_pushvalue(L, -1);
    lua_getglobal(L, functions);
    lua_pushinteger(L, passes);
    uint64_t start = bench_cpu_now();
    lua_call(L, 2, 0);
    double ns = (double)(bench_cpu_now() - start) / passes;
    lua_gc(L, LUA_GCCOLLECT);
    return ns;
}

static double ours(void)
{
    return measure("ours");
}

static double stock(void)
{
    return measure("string");
}

int main(void)
{
    bench_pin(0);
    L = luaL_newstate();
    luaL_openlibs(L);
    lua_newtable(L);
    pattern_open(&isolate, L);
    lua_setglobal(L, "ours");
    if (luaL_dostring(L, prepare) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return EXIT_FAILURE;
    }
    double logarithms = 0;
    lua_Integer count = luaL_len(L, -1);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_geti(L, 1, i);
        lua_geti(L, -1, 1);
        lua_geti(L, -2, 2);
        passes = 10 * (int)lua_tointeger(L, -1);
        lua_geti(L, -3, 3);
        char name[64];
        snprintf(name, sizeof name, "pattern_%s", lua_tostring(L, -3));
        ours();
        struct bench_result result = bench_alternate(ours, stock);
        bench_line(name, result.value, "ns", result.value / result.peer, "lua");
        logarithms += log(result.value / result.peer);
        lua_settop(L, 1);
    }
    bench_line("pattern_mean", 0, "-", exp(logarithms / (double)count), "lua");
    lua_close(L);
    return EXIT_SUCCESS;
}
