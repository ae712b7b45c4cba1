/*
 * The longest turn of 4 ms where Lua cannot be interrupted: steps of the collector, a whole
 * collection, the compiler.  An isolate with many sleeping tasks, or with many megabytes of live
 * tables and strings in one list, makes garbage for three cycles of the collector or for three
 * seconds, but for one cycle at least; then it collects everything at once.  Milliseconds of the
 * thread's CPU time.
 *
 * Beside the tasks: the longest step of the collector in a plain state with as many suspended
 * coroutines.  Lua visits every coroutine once more when marking ends, in one piece.
 *
 * bench_worst [NAME]   the rows whose names contain NAME, as in `1000000_tasks`
 */
#include "isolate.h"

#include <lauxlib.h>
#include <lualib.h>

#include <stdio.h>
#include <string.h>

#define BUDGET (4 * BENCH_MS)

/* --- Turns ------------------------------------------------------------------------------------ */

static const char *wanted = "";
static bool over;

/* Whether the rows of an amount are wanted. */
static bool is_wanted(unsigned amount, const char *of)
{
    char name[64];
    snprintf(name, sizeof name, "%u_%s", amount, of);
    return strstr(name, wanted);
}

static int say_over(lua_State *L)
{
    (void)L;
    over = true;
    return 0;
}

/*
 * Runs a script with `amount` until it says that it is over; returns the milliseconds of the
 * longest turn.
 */
static double longest_turn(struct orr_runtime *rt, lua_State *L, const char *code, unsigned amount)
{
    uint64_t longest = 0;
    isolate_load(L, code);
    lua_pushinteger(L, amount);
    bench_must(orr_lua_start(L, 1, "script", NULL), "orr_lua_start");
    for (over = false; !over;) {
        uint64_t start = bench_cpu_now();
        bench_must(orr_runtime_turn(rt, BUDGET), "orr_runtime_turn");
        uint64_t taken = bench_cpu_now() - start;
        longest = taken > longest ? taken : longest;
    }
    return (double)longest / (double)BENCH_MS;
}

/* `plain` is what a plain state took for as much, or 0. */
static void print(const char *what, unsigned amount, const char *of, double ms, double plain)
{
    char name[64];
    snprintf(name, sizeof name, "worst_turn_%s_%u_%s", what, amount, of);
    bench_line(name, ms, "ms", plain > 0 ? ms / plain : 0, plain > 0 ? "plain_step" : NULL);
}

/* --- What keeps the collector busy ------------------------------------------------------------ */

static const char sleepers[] = "for i = 1, ... do orrery.async.run(orrery.async.sleep, 1e12) end\n"
                               "over()";

/* A record, its string and its slot in the list take about 150 bytes. */
static const char records[] = "live = {}\n"
                              "for i = 1, ... * 2^20 // 150 do live[i] = { i, 'string ' .. i } end\n"
                              "over()";

static const char garbage[] = "local cycles, hrtime = 0, orrery.loop.hrtime\n"
                              "local function count_cycles()\n"
                              "  setmetatable({}, { __gc = function() cycles = cycles + 1 count_cycles() end })\n"
                              "end\n"
                              "count_cycles()\n"
                              "local till, last = hrtime() + 3e9, hrtime() + 30e9\n"
                              "while cycles < 4 and (hrtime() < till or cycles < 2 and hrtime() < last) do\n"
                              "  for i = 1, 100 do local _ = { i, 'garbage ' .. i } end\n"
                              "end\n"
                              "over()";

static const char collection[] = "collectgarbage() over()";

/* In a plain state, one table holds all coroutines, as a script without a scheduler would do it. */
static double longest_plain_step(unsigned coroutines)
{
    static const char code[] =
        "local all, create, resume, yield = {}, coroutine.create, coroutine.resume, coroutine.yield\n"
        "for i = 1, ... do all[i] = create(yield) resume(all[i]) end\n"
        "kept = all";
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_gc(L, LUA_GCINC, 200, 16, 10); /* steps as short as those of an isolate */
    isolate_load(L, code);
    lua_pushinteger(L, coroutines);
    bench_must(-lua_pcall(L, 1, 0, 0), "lua_pcall");
    uint64_t longest = 0;
    for (int cycles = 0; cycles < 3;) {
        uint64_t start = bench_cpu_now();
        cycles += lua_gc(L, LUA_GCSTEP, 0);
        uint64_t taken = bench_cpu_now() - start;
        longest = taken > longest ? taken : longest;
    }
    lua_close(L);
    return (double)longest / (double)BENCH_MS;
}

static double megabytes_free(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    double kilobytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes / 1024;
}

static void collect(const char *setup, unsigned amount, const char *of, double megabytes_needed)
{
    if (!is_wanted(amount, of))
        return;
    if (megabytes_free() < megabytes_needed) {
        printf("worst_turn_%u_%s: not enough memory\n", amount, of);
        return;
    }
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *L = isolate_open(rt, 2 * BENCH_MS, ORR_NEVER);
    lua_register(L, "over", say_over);
    longest_turn(rt, L, setup, amount);
    double with_garbage = longest_turn(rt, L, garbage, amount);
    double in_collection = longest_turn(rt, L, collection, amount);
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
    double plain = setup == sleepers ? longest_plain_step(amount) : 0;
    print("garbage", amount, of, with_garbage, plain);
    print("collection", amount, of, in_collection, plain);
    if (setup == sleepers)
        print("plain_step", amount, "coroutines", plain, 0);
}

/* --- The compiler ----------------------------------------------------------------------------- */

static const char make_source[] = "source = ('x = f(x, \"y\") + 1\\n'):rep(... * 2^20 // 18)\n"
                                  "over()";

static const char compile[] = "assert(load(source)) over()";

static void load_source(unsigned megabytes)
{
    if (!is_wanted(megabytes, "mb_source"))
        return;
    struct orr_runtime *rt = isolate_runtime(ORR_REACTOR_AUTO);
    lua_State *L = isolate_open(rt, 2 * BENCH_MS, ORR_NEVER);
    lua_register(L, "over", say_over);
    longest_turn(rt, L, make_source, megabytes);
    print("load", megabytes, "mb", longest_turn(rt, L, compile, megabytes), 0);
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
}

int main(int argc, char **argv)
{
    wanted = argc > 1 ? argv[1] : "";
    for (unsigned tasks = 1000; tasks <= 1000000; tasks *= 10)
        collect(sleepers, tasks, "tasks", 6e-3 * tasks);
    for (unsigned megabytes = 16; megabytes <= 256; megabytes *= 4)
        collect(records, megabytes, "mb", 4 * megabytes);
    load_source(1);
    load_source(16);
    return 0;
}
