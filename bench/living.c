/*
 * What Lua in the loop of a host costs: events to 1, 10 and 1,000 handlers, from Lua and from the
 * host; schedules; timers; a turn with nothing to do; and a call of a function, beside a bare
 * lua_pcall() of the same function in the same state.
 *
 * Handlers, callbacks and the called function do nothing, so the overhead is measured.  Whatever
 * takes longer than a time slice of the kernel is measured in CPU time of the thread; nothing here
 * waits.
 */
#include "isolate.h"

#include <lauxlib.h>

#include <stdio.h>
#include <time.h>

enum { CALLS = 1000, BATCHES = 101, HANDLED = 50000, SCHEDULED = 20000, TIMERS = 20000, IDLE = 200000 };

static struct orr_runtime *rt;
static lua_State *L;

static void turn(void)
{
    while (orr_runtime_turn(rt, ORR_NEVER) > 0)
        continue;
}

/* Runs a chunk as a task until nothing is left to do; returns nanoseconds for one of `count`. */
static double run_chunk(const char *code, double count)
{
    isolate_load(L, code);
    lua_gc(L, LUA_GCCOLLECT);
    uint64_t start = bench_cpu_now();
    isolate_start_function(L);
    bench_must(orr_runtime_run(rt), "orr_runtime_run");
    return (double)(bench_cpu_now() - start) / count;
}

static void do_chunk(const char *code)
{
    isolate_load(L, code);
    bench_must(orr_lua_call(L, 0, 0, ORR_NEVER), "orr_lua_call");
}

/* --- Calls ------------------------------------------------------------------------------------ */

/* The median of batches that are shorter than a time slice of the kernel. */
static double median_batch(double (*batch)(void))
{
    double values[BATCHES];
    for (int i = 0; i < BATCHES; i++)
        values[i] = batch();
    return percentile(values, BATCHES, 0.5);
}

/* The function is at index 1. */
static double batch_ours(void)
{
    uint64_t start = bench_now();
    for (int i = 0; i < CALLS; i++) {
        lua_pushvalue(L, 1);
        lua_pushinteger(L, i);
        bench_must(orr_lua_call(L, 1, 1, 0), "orr_lua_call");
        lua_pop(L, 1);
    }
    return (double)(bench_now() - start) / CALLS;
}

static double batch_bare(void)
{
    uint64_t start = bench_now();
    for (int i = 0; i < CALLS; i++) {
        lua_pushvalue(L, 1);
        lua_pushinteger(L, i);
        bench_must(-lua_pcall(L, 1, 1, 0), "lua_pcall");
        lua_pop(L, 1);
    }
    return (double)(bench_now() - start) / CALLS;
}

/* A call that can be ended from outside needs a coroutine: the least that any solution must do. */
static double batch_resumed(void)
{
    lua_State *co = lua_newthread(L);
    uint64_t start = bench_now();
    for (int i = 0; i < CALLS; i++) {
        int results;
        lua_pushvalue(L, 1);
        lua_pushinteger(L, i);
        lua_xmove(L, co, 2);
        bench_must(-lua_resume(co, L, 1, &results), "lua_resume");
        lua_xmove(co, L, 1);
        lua_pop(L, 1);
    }
    double ns = (double)(bench_now() - start) / CALLS;
    lua_pop(L, 1);
    return ns;
}

static double call_ours(void)
{
    return median_batch(batch_ours);
}

static double call_bare(void)
{
    return median_batch(batch_bare);
}

static double call_resumed(void)
{
    return median_batch(batch_resumed);
}

/* Called by a host that has entered the runtime, or inside a task. */
static double call_inside(void)
{
    bench_must(orr_runtime_enter(rt), "orr_runtime_enter");
    double ns = call_ours();
    bench_must(orr_runtime_leave(rt), "orr_runtime_leave");
    return ns;
}

static void measure_calls(const char *what, const char *code)
{
    char ours[64], inside[64], bare[64], resumed[64];
    snprintf(ours, sizeof ours, "lua_call_%s", what);
    snprintf(inside, sizeof inside, "lua_call_entered_%s", what);
    snprintf(bare, sizeof bare, "bare_lua_pcall_%s", what);
    snprintf(resumed, sizeof resumed, "bare_lua_resume_%s", what);
    isolate_load(L, code);
    bench_must(-lua_pcall(L, 0, 1, 0), "lua_pcall");
    bench_compare(ours, "ns", call_ours, bare, call_bare);
    bench_compare(inside, "ns", call_inside, bare, call_bare);
    bench_compare(inside, "ns", call_inside, resumed, call_resumed);
    lua_settop(L, 0);
}

/* --- Events ----------------------------------------------------------------------------------- */

static int handlers;

static void register_handlers(int count)
{
    handlers = count;
    lua_pushinteger(L, count);
    lua_setglobal(L, "handlers");
    lua_pushinteger(L, HANDLED / count);
    lua_setglobal(L, "rounds");
    do_chunk("handled = 0 orrery.events:clear()\n"
             "for i = 1, handlers do orrery.events:on('e', function() handled = handled + 1 end) end");
}

static void check_handled(void)
{
    if ((int)isolate_number(L, "handled") < HANDLED / handlers * handlers)
        fprintf(stderr, "some handlers were not called\n");
    lua_pushinteger(L, 0);
    lua_setglobal(L, "handled");
}

static double emit_in_lua(void)
{
    double ns = run_chunk("local events = orrery.events for i = 1, rounds do events:emit('e', i) end",
                          HANDLED / handlers * handlers);
    check_handled();
    return ns;
}

/* Includes the turn in which the handlers run. */
static double emit_in_c(void)
{
    lua_gc(L, LUA_GCCOLLECT);
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < HANDLED / handlers; i++) {
        lua_pushinteger(L, i);
        bench_must(orr_events_emit(L, "e"), "orr_events_emit");
        turn();
    }
    double ns = (double)(bench_cpu_now() - start) / (HANDLED / handlers * handlers);
    check_handled();
    return ns;
}

static double emit_plain(void)
{
    double ns = run_chunk("local list = {} for i = 1, handlers do list[i] = function() handled = handled + 1 end end\n"
                          "for i = 1, rounds do for j = 1, #list do pcall(list[j], i) end end",
                          HANDLED / handlers * handlers);
    check_handled();
    return ns;
}

static void measure_events(int count)
{
    char name[64], plain[64];
    register_handlers(count);
    snprintf(plain, sizeof plain, "pcall_%d_functions", count);
    snprintf(name, sizeof name, "lua_emit_%d_handlers", count);
    bench_compare(name, "ns", emit_in_lua, plain, emit_plain);
    snprintf(name, sizeof name, "host_emit_%d_handlers", count);
    bench_compare(name, "ns", emit_in_c, NULL, NULL);
}

/* --- Schedules, timers, turns ----------------------------------------------------------------- */

static double schedule_one(void)
{
    return run_chunk("local schedule, left = orrery.schedule, 20000\n"
                     "local function again() left = left - 1 if left > 0 then schedule(again) end end\n"
                     "schedule(again)",
                     SCHEDULED);
}

static double schedule_many(void)
{
    return run_chunk("local schedule, checkpoint, done = orrery.schedule, orrery.async.checkpoint, 0\n"
                     "local function count() done = done + 1 end\n"
                     "for i = 1, 20 do\n"
                     "  for j = 1, 1000 do schedule(count) end\n"
                     "  while done < i * 1000 do checkpoint() end\n"
                     "end",
                     SCHEDULED);
}

static double timer_one(void)
{
    return run_chunk("local timer, left = orrery.loop.new_timer(), 20000\n"
                     "local function again()\n"
                     "  left = left - 1\n"
                     "  if left > 0 then timer:start(0, 0, again) else timer:close() end\n"
                     "end\n"
                     "timer:start(0, 0, again)",
                     TIMERS);
}

static double timer_many(void)
{
    return run_chunk("local new_timer = orrery.loop.new_timer\n"
                     "for i = 1, 20000 do\n"
                     "  local timer = new_timer()\n"
                     "  timer:start(0, 0, function() timer:close() end)\n"
                     "end",
                     TIMERS);
}

static double idle_turn(void)
{
    turn();
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < IDLE; i++)
        orr_runtime_turn(rt, ORR_NEVER);
    return (double)(bench_cpu_now() - start) / IDLE;
}

/* An idle turn of a host that watches the descriptor, which must be told of the deadline. */
static double idle_turn_watched(void)
{
    static bool watched;
    if (!watched)
        bench_must(orr_runtime_fd(rt), "orr_runtime_fd");
    watched = true;
    return idle_turn();
}

static double isolate_life(void)
{
    enum { LIVES = 100 };
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < LIVES; i++)
        isolate_close(isolate_open(rt, 0, ORR_NEVER));
    return (double)(bench_cpu_now() - start) / LIVES / 1000;
}

int main(void)
{
    rt = isolate_runtime(ORR_REACTOR_AUTO);
    L = isolate_open(rt, 0, ORR_NEVER);
    measure_calls("empty", "return function(n) return n end");
    measure_calls("100_steps", "return function(n) for i = 1, 100 do n = n + i end return n end");
    measure_events(1);
    measure_events(10);
    measure_events(1000);
    bench_compare("lua_schedule_one_by_one", "ns", schedule_one, NULL, NULL);
    bench_compare("lua_schedule_1000", "ns", schedule_many, NULL, NULL);
    bench_compare("lua_timer_one_by_one", "ns", timer_one, NULL, NULL);
    bench_compare("lua_timer_20000", "ns", timer_many, NULL, NULL);
    bench_compare("idle_turn", "ns", idle_turn, NULL, NULL);
    isolate_start(L, "orrery.loop.set_timeout(1e9, function() end)");
    bench_compare("idle_turn_far_timer", "ns", idle_turn, NULL, NULL);
    bench_compare("idle_turn_far_timer_watched", "ns", idle_turn_watched, NULL, NULL);
    bench_compare("isolate_open_and_close", "us", isolate_life, NULL, NULL);
    isolate_close(L);
    bench_must(orr_runtime_free(rt), "orr_runtime_free");
    return 0;
}
