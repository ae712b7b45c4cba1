/*
 * How much longer a host's turn of 4 ms takes while untrusted scripts, with their default limits,
 * burden their garbage collector as much as they can: p99.9 and the worst, in CPU time of the
 * thread. A script that has ended, or was ended, is started again in a new state, between two
 * turns.  Making and closing the state is not part of a turn.
 *
 * bench_pauses [TURNS [NAME]]   TURNS of each script; 1000
 */
#include "isolate.h"

#include <lauxlib.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET (4 * BENCH_MS)

enum { TURNS_MAX = 100000 };

static const struct {
    const char *name, *code;
} scripts[] = {
    { "beside_300k_tables", "local keep = {} for i = 1, 3e5 do keep[i % 2e5] = {i} end\n"
                            "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "beside_300_lists",
      "local keep = {} for i = 1, 300 do local t = {} for j = 1, 1000 do t[j] = {j} end keep[i] = t end\n"
      "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "beside_many_keys", "local keep = {} for i = 1, 3e5 do keep['k' .. i] = i end\n"
                          "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "beside_30k_keys", "local keep = {} for i = 1, 3e4 do keep['k' .. i] = i end\n"
                         "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "list_of_200k_again", "while true do local t = {} for i = 1, 2e5 do t[i] = {i} end end" },
    { "ephemeron_chain", "local weak, last = setmetatable({}, { __mode = 'k' }), {} first = last\n"
                         "for i = 1, 20000 do local next = {} weak[last] = next last = next end\n"
                         "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "ephemeron_shuffled",
      "local keys = {} for i = 1, 5000 do keys[i] = {} end first = keys[1]\n"
      "local order = {} for i = 1, 5000 do order[i] = i end\n"
      "for i = 5000, 2, -1 do local j = math.random(i) order[i], order[j] = order[j], order[i] end\n"
      "local weak = setmetatable({}, { __mode = 'k' })\n"
      "for _, i in ipairs(order) do weak[keys[i]] = keys[i + 1] or 1 end keys = nil\n"
      "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "mutexes_at_the_limit",
      "while true do local keep = {}\n"
      "  pcall(function() while true do keep[#keep % 2e5 + 1] = { orrery.async.mutex(), keep[1] } end end) end" },
    { "channels_at_the_limit",
      "while true do local last\n"
      "  pcall(function() while true do last = { orrery.worker.channel(), last } end end) end" },
    { "futures_dead_at_once", "while true do for i = 1, 1e5 do orrery.async.future():complete(nil, i) end end" },
    { "futures_at_the_limit", "while true do local last\n"
                              "  pcall(function() while true do last = { orrery.async.future(), last } end end) end" },
    { "tables_at_the_limit", "while true do local last pcall(function() while true do last = { last } end end) end" },
    { "strings_at_the_limit",
      "while true do local last, n = nil, 0\n"
      "  pcall(function() while true do n = n + 1 last = { last, ('x'):rep(1000) .. n } end end) end" },
    { "short_strings", "while true do pcall(function() local t = {}\n"
                       "  for i = 1, 1e6 do t[i % 1000 + 1] = { t[i % 1000 + 1], 's' .. i } end end) end" },
    { "touching_large_tables",
      "local all = {} for i = 1, 40 do local t = {} for j = 1, 16000 do t['k' .. j] = j end all[i] = t end\n"
      "local n = 0 while true do n = n + 1 local t = all[n % 40 + 1] t['k' .. n % 16000 + 1] = { n } end" },
    { "20k_coroutines",
      "local keep = {} for i = 1, 20000 do keep[i] = coroutine.wrap(function() coroutine.yield() end) keep[i]() end\n"
      "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "deep_recursion", "local function deep(n) if n > 0 then local r = deep(n - 1) return r end\n"
                        "  while true do local t = {} for i = 1, 100 do t[i] = {i} end end end deep(150000)" },
    { "long_strings", "local s = ('x'):rep(4e6) local n = 0 while true do n = n + 1 local t = s .. n end" },
    { "too_long_strings",
      "local keep = {} for i = 1, 2e5 do keep[i] = {i} end local s = ('x'):rep(8e6)\n"
      "while true do pcall(function() return s .. s .. s .. s .. s .. s .. s .. s .. s .. s end) end" },
    { "closures", "local keep = {} for i = 1, 1e5 do local u = {} keep[i] = function() return u end end\n"
                  "while true do local f for i = 1, 100 do local u = i f = function() u = u + 1 return f end end end" },
    { "weak_values", "local weak = setmetatable({}, { __mode = 'v' })\n"
                     "while true do for i = 1, 30000 do weak['k' .. i] = { i } end end" },
    { "rehash_30k_keys", "while true do local t = {} for i = 1, 30000 do t['k' .. i] = i end end" },
    { "lists_beyond_the_limit", "while true do pcall(function() local t = {} for i = 1, 1e7 do t[i] = i end end) end" },
    { "insists_on_a_long_list",
      "local t = {} while true do pcall(function() for i = #t + 1, 1e7 do t[i] = i end end) end" },
    { "9k_sleeping_tasks", "for i = 1, 9000 do orrery.async.run(function() orrery.async.sleep(1e9) end) end\n"
                           "while true do local t = {} for i = 1, 100 do t[i] = {i} end end" },
    { "timers_and_handlers", "while true do pcall(function() for i = 1, 1e5 do orrery.loop.new_timer() end end) end" },
};

static void ignore_failure(void *data, struct orr_task *task)
{
    (void)data;
    const char *message = orr_task_result(task)->message;
    if (getenv("SHOW") && message)
        fprintf(stderr, "  %.200s\n", message);
}

static void ignore_line(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    if (getenv("SHOW"))
        fprintf(stderr, "  log: %.200s\n", message);
}

static lua_State *begin(struct orr_runtime *rt, const char *code, struct orr_task **task)
{
    lua_State *L;
    bench_must(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "orrery" }, &L), "orr_lua_new");
    struct orr_lua_source source = { .name = "script", .text = code };
    int error = orr_lua_load(L, &source);
    if (error) {
        fprintf(stderr, "%s\n", error == -71 ? lua_tostring(L, -1) : "cannot load");
        exit(1);
    }
    bench_must(orr_lua_start(L, 0, "script", task), "orr_lua_start");
    return L;
}

static void end(struct orr_runtime *rt, lua_State *L, struct orr_task *task)
{
    bench_must(orr_runtime_enter(rt), "orr_runtime_enter");
    orr_task_unref(task);
    bench_must(orr_runtime_leave(rt), "orr_runtime_leave");
    bench_must(orr_lua_close(L), "orr_lua_close");
}

static void measure(const char *name, const char *code, unsigned turns)
{
    static double overruns[TURNS_MAX];
    struct orr_runtime *rt = orr_runtime_new(
        &(struct orr_options){ .grace_ms = 1, .sink = ignore_failure, .log = ignore_line });
    struct orr_task *task;
    lua_State *L = begin(rt, code, &task);
    unsigned restarts = 0, longer = 0;
    for (unsigned i = 0; i < turns; i++) {
        uint64_t start = bench_cpu_now();
        bench_must(orr_runtime_turn(rt, BUDGET), "orr_runtime_turn");
        overruns[i] = ((double)(bench_cpu_now() - start) - (double)BUDGET) / 1000;
        longer += overruns[i] > 500;
        if (orr_task_done(task)) {
            end(rt, L, task);
            L = begin(rt, code, &task);
            restarts++;
        }
    }
    char line[80];
    snprintf(line, sizeof line, "pause_%s_p99.9", name);
    bench_line(line, percentile(overruns, turns, 0.999), "us", 0, NULL);
    snprintf(line, sizeof line, "pause_%s_worst", name);
    bench_line(line, percentile(overruns, turns, 1), "us", 0, NULL);
    if (getenv("SHOW")) {
        struct orr_lua_stats stats;
        orr_lua_stats(L, &stats);
        fprintf(stderr, "  %u restarts, %u turns longer than 4.5 ms, peak %zu KB\n", restarts, longer,
                stats.memory_peak >> 10);
    }
    end(rt, L, task);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 1000;
    turns = turns < 1 ? 1 : turns > TURNS_MAX ? TURNS_MAX : turns;
    for (unsigned i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (argc < 3 || strstr(scripts[i].name, argv[2]))
            measure(scripts[i].name, scripts[i].code, (unsigned)turns);
    return 0;
}
