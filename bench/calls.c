/*
 * The longest turn of 4 ms while an untrusted script is inside one call of a C function whose time
 * grows with its input.  The collector is stopped meanwhile, so that only the call is measured.
 * Milliseconds of the thread's CPU time; there is no peer.
 */
#include "isolate.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET (4 * BENCH_MS)

/* The longest list of an untrusted script by default: struct orr_lua_options.longest_list. */
#define LONGEST_LIST "262144"

/* A list of that length, of empty tables. */
#define TABLES "{} for i = 1, " LONGEST_LIST " do t[i] = {} end "

struct row {
    const char *name;
    const char *setup; /* prepares the globals that the call needs */
    const char *call;  /* the call that is measured */
};

static const struct row rows[] = {
    { "json_encode_floats", /* the same 1,000 floats, 400 times */
      "row = {} for i = 1, 1000 do row[i] = i / 7 end list = {} for i = 1, 400 do list[i] = row end",
      "pcall(orrery.json.encode, list)" },
    { "json_encode_doubling", /* 2^60 elements, until the longest string is reached */
      "t = { 1 } for _ = 1, 60 do t = { t, t } end", "pcall(orrery.json.encode, t)" },
    { "json_decode_digits", "text = ('7'):rep(7 * 2^20)", "pcall(orrery.json.decode, text)" },
    { "values_encode_tables", "t = " TABLES, "pcall(orrery.values.encode, t)" },
    { "channel_send_tables", "t = " TABLES "c = orrery.worker.channel(1)", "pcall(c.send, c, t)" },
    { "channel_receive_tables", "t = " TABLES "c = orrery.worker.channel(1) c:send(t) t = nil", "pcall(c.receive, c)" },
    { "worker_arguments", "t = " TABLES "w = orrery.worker.new('return 1')", "pcall(w.call, w, t)" },
    { "worker_results", "w = orrery.worker.new('local t = " TABLES "return t')", "pcall(w.call, w)" },
    { "values_decode_tables", "local t = " TABLES "text = orrery.values.encode(t)",
      "pcall(orrery.values.decode, text)" },
    { "values_encode_string", "t = { ('x'):rep(8000000) }", "pcall(orrery.values.encode, t)" },
    { "json_encode_string", "t = { ('\\1'):rep(1300000) }", "pcall(orrery.json.encode, t)" },
    { "json_encode_sparse", /* the same list of holes, 1,000 times */
      "local s = {} for i = 1, " LONGEST_LIST " do s[i] = 1 end for i = 2, " LONGEST_LIST " do s[i] = nil end\n"
      "s = { s } t = {} for i = 1, 1000 do t[i] = s end",
      "pcall(orrery.json.encode, t)" },
    { "json_decode_tables", "text = '[' .. ('[],'):rep(" LONGEST_LIST " - 1) .. '1]'",
      "pcall(orrery.json.decode, text)" },
    { "json_decode_string", "text = '\"' .. ('\\\\n'):rep(4000000) .. '\"'", "pcall(orrery.json.decode, text)" },
    { "json_decode_spaces", "text = (' '):rep(8000000) .. '1'", "pcall(orrery.json.decode, text)" },
    { "json_decode_error", "text = ('\\n'):rep(7000000) .. '?'", "pcall(orrery.json.decode, text)" },
    { "format_q", "s = ('x'):rep(8000000)", "pcall(string.format, '%q', s)" },
    { "format_q_control", "s = ('\\1'):rep(2000000)", "pcall(string.format, '%q', s)" },
    { "string_upper", "s = ('x'):rep(8000000)", "pcall(string.upper, s)" },
    { "table_concat", "t = {} for i = 1, " LONGEST_LIST " do t[i] = ('x'):rep(24) end", "pcall(table.concat, t)" },
    { "gsub", "s = ('x'):rep(4000000)", "pcall(string.gsub, s, 'x', 'yy')" },
    { "rep", "", "local _ = ('x'):rep(8000000)" },
    { "concatenation", "s = ('x'):rep(4000000)", "local _ = s .. s" },
    { "utf8_offset", "s = ('x'):rep(8000000)", "pcall(utf8.offset, s, 8000000)" },
    { "tonumber", "s = ('7'):rep(8000000)", "pcall(tonumber, s)" },
    { "tonumber_hex", "s = '0x' .. ('7'):rep(7999990) .. 'p1'", "pcall(tonumber, s)" },
    { "compare_zeros", "a = ('\\0'):rep(8000000) .. 'a' b = ('\\0'):rep(8000000) .. 'b'", "local _ = a < b" },
    { "load_or_chain", "s = 'return ' .. ('a or '):rep(12000) .. 'a'", "pcall(load, s)" },
    { "load_gotos", "s = ('goto x '):rep(9000) .. '::x::'", "pcall(load, s)" },
    { "stack_overflow", "function f() return 1 + f() end", "pcall(f)" },
    { "deep_error", "function f(n) if n == 0 then error('x') end return (f(n - 1)) end",
      "pcall(orrery.async.await, orrery.async.run({ detached = true }, f, 150000))" },
    { "many_arguments", "t = {} for i = 1, 60000 do t[i] = i end",
      "pcall(function() return orrery.async.await(orrery.async.run(function(...) return ... end, table.unpack(t))) "
      "end)" },
    { "close_children",
      "task = orrery.async.run({ detached = true }, function()\n"
      "  for i = 1, 9000 do orrery.async.run(orrery.async.sleep, 1e9) end\n"
      "end)",
      "task:close()" },
    { "emit_handlers", "e = orrery.events n = 0 for i = 1, 20000 do e:on('x', function() n = n + 1 end) end",
      "e:emit('x')" },
    { "set_event",
      "ev = orrery.async.event()\n"
      "for i = 1, 9000 do orrery.async.run({ detached = true }, function() ev:wait() end) end",
      "ev:set()" },
    { "inspect_tree",
      "orrery.async.run({ detached = true }, function()\n"
      "  for i = 1, 9000 do orrery.async.run(orrery.async.sleep, 1e9) end\n"
      "end)",
      "orrery.async.inspect_tree()" },
    { "free_channel", "c = orrery.worker.channel(10000) for i = 1, 10000 do c:send(i) end",
      "c = nil collect() orrery.async.sleep(1)" },
};

static bool begun, over;
static lua_State *state;

static int say_begun(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT);
    lua_gc(L, LUA_GCSTOP);
    begun = true;
    return 0;
}

static int say_over(lua_State *L)
{
    lua_gc(L, LUA_GCRESTART);
    over = true;
    return 0;
}

static int collect(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT);
    return 0;
}

/* Milliseconds of the longest turn between begin() and over(). */
static double longest_turn(struct orr_runtime *rt)
{
    uint64_t longest = 0;
    begun = over = false;
    while (!over) {
        bool counts = begun;
        uint64_t start = bench_cpu_now();
        bench_must(orr_runtime_turn(rt, BUDGET), "orr_runtime_turn");
        uint64_t taken = bench_cpu_now() - start;
        if (counts && taken > longest)
            longest = taken;
    }
    return (double)longest / (double)BENCH_MS;
}

static double measure(const struct row *row)
{
    char code[2048];
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    struct orr_lua_options options = { .mount = "orrery", .profile = ORR_LUA_UNTRUSTED, .slice_ns = 2 * BENCH_MS };
    options.longest_step_ns = ORR_NEVER; /* a call that takes long is measured, not ended */
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    bench_must(orr_lua_new(rt, &options, &state), "orr_lua_new");
    lua_register(state, "begin", say_begun);
    lua_register(state, "over", say_over);
    lua_register(state, "collect", collect);
    /* The waits end a turn before the call and after it. */
    snprintf(code, sizeof code, "%s begin() orrery.async.sleep(1) %s orrery.async.sleep(1) over()", row->setup,
             row->call);
    if (luaL_loadstring(state, code) != LUA_OK) {
        fprintf(stderr, "%s: %s\n", row->name, lua_tostring(state, -1));
        exit(EXIT_FAILURE);
    }
    bench_must(orr_lua_start(state, 0, "script", NULL), "orr_lua_start");
    double longest = longest_turn(rt);
    isolate_close(state);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
    return longest;
}

/* Prints the smallest of a few: other work on the machine only makes a turn longer. */
static void print(const struct row *row)
{
    enum { TIMES = 5 };
    char name[64];
    double smallest = measure(row);
    for (int i = 1; i < TIMES; i++) {
        double again = measure(row);
        smallest = again < smallest ? again : smallest;
    }
    snprintf(name, sizeof name, "call_%s", row->name);
    bench_line(name, smallest, "ms", 0, NULL);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (argc < 2 || strstr(rows[i].name, argv[1]))
            print(&rows[i]);
    return EXIT_SUCCESS;
}
