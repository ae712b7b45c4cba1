/*
 * What limits cost Lua code that keeps them.  Six ordinary programs run in an isolate, interrupted
 * every two milliseconds and with a deadline.  The peers are a plain state, a plain state whose
 * heap is as large as an isolate's, and plain states with a count hook that does nothing.  Each
 * program runs in a coroutine.  Time is CPU time of the thread, so that other processes do not
 * count.  A ratio is the median of the ratios of pairs that ran one after the other.
 *
 * The heap of `tables` grows all the time, and a cycle of the collector begins whenever it has
 * doubled.  So the size at which the program ends decides whether the last cycle, which costs as
 * much as all before it, has just begun or just ended.  From pair to pair the size goes through one
 * doubling, so that the ratio is not that of one such accident.
 *
 * bench_limits                                    everything
 * bench_limits PROGRAM plain|isolate TIMES [MS]   one program TIMES times, in slices of MS
 *                                                 milliseconds: to count instructions
 */
#include "isolate.h"

#include <lauxlib.h>
#include <lualib.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 30 };

#define SLICE (2 * BENCH_MS)
#define DEADLINE (60000 * BENCH_MS)

static const struct program {
    const char *name, *code;
} programs[] = {
    { "arithmetic", "local a, x = 0, 0.5\n"
                    "for i = 1, 1000000 do\n"
                    "  a = (a * 31 + i) % 1000003\n"
                    "  x = x * 0.999 + (i & 255) / 256\n"
                    "end\n"
                    "return a + x" },
    { "calls", "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
               "return fib(25)" },
    { "strings", "local parts = {}\n"
                 "for i = 1, 30000 do\n"
                 "  parts[#parts + 1] = 'item ' .. i .. ': ' .. string.rep('x', i % 17)\n"
                 "  if #parts == 100 then parts = { (table.concat(parts, ','):sub(1, 200):upper()) } end\n"
                 "end\n"
                 "return #parts" },
    { "tables", "local list, index = {}, {}\n"
                "for i = 1, size or 30000 do\n"
                "  local item = { id = i, name = i % 100, next = list[i - 1] }\n"
                "  list[i] = item\n"
                "  index[i * 7 % 30011] = item\n"
                "end\n"
                "local sum = 0\n"
                "for _, item in pairs(index) do sum = sum + item.id end\n"
                "for i = #list, 1, -1 do sum = sum - list[i].name end\n"
                "return sum" },
    { "closures", "local function adder(n) local total = n return function(x) total = total + x return total end end\n"
                  "local sum = 0\n"
                  "for i = 1, 60000 do\n"
                  "  local add = adder(i)\n"
                  "  add(1) add(2)\n"
                  "  sum = sum + add(3)\n"
                  "end\n"
                  "return sum" },
    { "patterns",
      "local text = string.rep('key=value; other = 12345; [section] name: \"quoted\"\\n', 20)\n"
      "local found = 0\n"
      "for i = 1, 25 do\n"
      "  for key, value in text:gmatch('(%w+)%s*=%s*(%w+)') do found = found + #key + #value end\n"
      "  found = found + select(2, text:gsub('\"[^\"]*\"', string.upper))\n"
      "  for line in text:gmatch('[^\\n]+') do if line:find('^key.-%[%a+%]') then found = found + 1 end end\n"
      "end\n"
      "return found" },
};

enum { PROGRAMS = sizeof programs / sizeof *programs };

/* --- Where a program runs --------------------------------------------------------------------- */

/* A state with a program on its stack. */
struct ground {
    struct orr_runtime *rt; /* NULL for a plain state */
    lua_State *L;
    int hook; /* instructions between calls of a hook; 0 for none */
};

static lua_State *plain_open(void)
{
    lua_State *L = luaL_newstate();
    if (!L)
        abort();
    luaL_openlibs(L);
    return L;
}

/*
 * The size of the live heap decides how much garbage the collector lets gather, and so how well the
 * caches work.
 */
static void fill_heap(lua_State *L, int kilobytes)
{
    lua_newtable(L);
    for (int i = 1; lua_gc(L, LUA_GCCOUNT) < kilobytes; i++) {
        lua_createtable(L, 0, 1);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "ballast");
}

static void hook(lua_State *L, lua_Debug *event)
{
    (void)L;
    (void)event;
}

static void run_plain(const struct ground *ground)
{
    lua_State *L = ground->L, *co = lua_newthread(L);
    int results;
    if (ground->hook)
        lua_sethook(co, hook, LUA_MASKCOUNT, ground->hook);
    lua_pushvalue(L, -2);
    lua_xmove(L, co, 1);
    if (lua_resume(co, L, 0, &results) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(co, -1));
        exit(1);
    }
    lua_pop(L, 1);
}

static void run_isolate(const struct ground *ground)
{
    lua_pushvalue(ground->L, -1);
    isolate_start_function(ground->L);
    bench_must(orr_runtime_run(ground->rt), "orr_runtime_run");
}

static void run(const struct ground *ground)
{
    if (ground->rt)
        run_isolate(ground);
    else
        run_plain(ground);
}

/* Times a run that starts without garbage. */
static double time_of(const struct ground *ground)
{
    lua_gc(ground->L, LUA_GCCOLLECT);
    double start = (double)bench_cpu_now();
    run(ground);
    return (double)bench_cpu_now() - start;
}

/* --- All of it -------------------------------------------------------------------------------- */

struct comparison {
    const char *subject_name, *peer_name;
    struct ground subject, peer;
    double logs; /* sum of the logarithms of the ratios */
};

static void print(const struct program *program, const char *subject, double ns, double ratio, const char *peer)
{
    char name[64];
    snprintf(name, sizeof name, "limits_%s_%s", program->name, subject);
    bench_line(name, ns / 1000, "us", ratio, peer);
}

/* What both programs of a pair find in the global `size`. */
static void set_size(const struct comparison *two, int pair)
{
    lua_State *states[] = { two->peer.L, two->subject.L };
    for (int i = 0; i < 2; i++) {
        lua_pushinteger(states[i], (lua_Integer)(30000 / exp2((double)pair / PAIRS)));
        lua_setglobal(states[i], "size");
    }
}

/* Alternates only these two, so that both find the caches alike. */
static void compare(const struct program *program, struct comparison *two)
{
    double times[PAIRS], ratios[PAIRS];
    isolate_load(two->peer.L, program->code);
    isolate_load(two->subject.L, program->code);
    time_of(&two->peer);
    time_of(&two->subject);
    for (int pair = 0; pair < PAIRS; pair++) {
        bool first = pair % 2;
        set_size(two, pair);
        double before = first ? time_of(&two->peer) : 0;
        times[pair] = time_of(&two->subject);
        ratios[pair] = times[pair] / (first ? before : time_of(&two->peer));
    }
    lua_pop(two->subject.L, 1);
    lua_pop(two->peer.L, 1);
    double ratio = percentile(ratios, PAIRS, 0.5);
    two->logs += log(ratio);
    print(program, two->subject_name, percentile(times, PAIRS, 0.5), ratio, two->peer_name);
}

static void print_mean(const struct comparison *two)
{
    char name[64];
    double mean = exp(two->logs / PROGRAMS);
    snprintf(name, sizeof name, "limits_mean_%s", two->subject_name);
    bench_line(name, (mean - 1) * 100, "percent", mean, two->peer_name);
}

/* --- Live memory at birth --------------------------------------------------------------------- */

static double live_kb(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT);
    return lua_gc(L, LUA_GCCOUNT) + lua_gc(L, LUA_GCCOUNTB) / 1024.0;
}

static void measure_birth(const char *name, struct orr_lua_options options)
{
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *plain = plain_open(), *L;
    bench_must(orr_lua_new(rt, &options, &L), "orr_lua_new");
    double kb = live_kb(L);
    bench_line(name, kb, "KB", kb / live_kb(plain), "plain");
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
    lua_close(plain);
}

static void measure_births(void)
{
    measure_birth("live_trusted", (struct orr_lua_options){ .profile = ORR_LUA_TRUSTED });
    measure_birth("live_trusted_mounted", (struct orr_lua_options){ .profile = ORR_LUA_TRUSTED, .mount = "orrery" });
    measure_birth("live_untrusted_mounted", (struct orr_lua_options){ .mount = "orrery" });
}

static void compare_all(void)
{
    struct ground isolate = { .rt = isolate_runtime(ORR_REACTOR_AUTO) };
    struct ground plain = { .L = plain_open() }, filled = { .L = plain_open() }, hooked = { .L = plain_open() };
    isolate.L = isolate_open(isolate.rt, SLICE, DEADLINE);
    lua_gc(isolate.L, LUA_GCCOLLECT);
    fill_heap(filled.L, lua_gc(isolate.L, LUA_GCCOUNT));
    struct comparison comparisons[] = {
        { .subject_name = "isolate", .peer_name = "plain", .subject = isolate, .peer = plain },
        { .subject_name = "isolate_same_heap", .peer_name = "plain_filled", .subject = isolate, .peer = filled },
        { .subject_name = "hook_1000", .peer_name = "plain", .subject = { NULL, hooked.L, 1000 }, .peer = plain },
        { .subject_name = "hook_10000", .peer_name = "plain", .subject = { NULL, hooked.L, 10000 }, .peer = plain },
        { .subject_name = "hook_100000", .peer_name = "plain", .subject = { NULL, hooked.L, 100000 }, .peer = plain },
    };
    unsigned count = sizeof comparisons / sizeof *comparisons;
    for (int program = 0; program < PROGRAMS; program++)
        for (unsigned i = 0; i < count; i++)
            compare(&programs[program], &comparisons[i]);
    for (unsigned i = 0; i < count; i++)
        print_mean(&comparisons[i]);
    isolate_close(isolate.L);
    bench_must(orr_runtime_free(isolate.rt), "orr_runtime_free");
    lua_close(plain.L);
    lua_close(filled.L);
    lua_close(hooked.L);
}

/* --- One of it -------------------------------------------------------------------------------- */

static const struct program *find_program(const char *name)
{
    for (int i = 0; i < PROGRAMS; i++)
        if (!strcmp(programs[i].name, name))
            return &programs[i];
    return NULL;
}

/* On epoll, because callgrind does not know io_uring. */
static void repeat(const struct program *program, bool plain, int times, uint64_t slice_ns)
{
    struct ground ground = { .rt = plain ? NULL : isolate_runtime(ORR_REACTOR_EPOLL) };
    ground.L = plain ? plain_open() : isolate_open(ground.rt, slice_ns, 100 * DEADLINE);
    isolate_load(ground.L, program->code);
    double start = (double)bench_cpu_now();
    for (int i = 0; i < times; i++) {
        lua_gc(ground.L, LUA_GCCOLLECT);
        run(&ground);
    }
    printf("%.0f\n", ((double)bench_cpu_now() - start) / 1000);
    if (plain) {
        lua_close(ground.L);
    } else {
        isolate_close(ground.L);
        bench_must(orr_runtime_free(ground.rt), "orr_runtime_free");
    }
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        measure_births();
        compare_all();
        return 0;
    }
    const struct program *program = find_program(argv[1]);
    if (argc < 4 || !program) {
        for (int i = 0; i < PROGRAMS; i++)
            printf("%s\n", programs[i].name);
        return argc > 2;
    }
    repeat(program, !strcmp(argv[2], "plain"), atoi(argv[3]), argc > 4 ? (uint64_t)atoi(argv[4]) * BENCH_MS : SLICE);
    return 0;
}
