/*
 * Memory runs out once, at every point in the life of a worker: when it is created, when a job is
 * sent, while its isolate is created on another thread, while the job runs, and on the way back.
 * The caller gets an error, the job has one outcome, the next job works, and nothing is lost.
 *
 * The scripts stop their collectors: Lua skips a finalizer when it has no memory to call it, and
 * what that finalizer would have freed is lost.
 */
#include "failing.h"
#include "harness.h"
#include "lua_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Each allocation on any thread decrements this; the one that finds 0 fails. */
static _Atomic int allowed = INT32_MAX;
static _Atomic bool ran_out;

static bool may_allocate(void)
{
    bool may = atomic_fetch_sub(&allowed, 1) != 0;
    if (!may)
        ran_out = true;
    return may;
}

static const char workload[] =
    "collectgarbage 'stop'\n"
    "local a, worker = game.async, game.worker\n"
    "local outcomes = 0\n"
    "local function life()\n"
    "  local w <close> = worker.new([[\n"
    "    collectgarbage 'stop'\n"
    "    local async = require('orrery').async\n"
    "    local values, channel = ...\n"
    "    channel:send(values.list[2])\n"
    "    local got = async.await(async.run(function() async.sleep(1) return m.twice(values.x) end))\n"
    "    return got, { values = values, text = ('x'):rep(70000) }\n"
    "  ]], { modules = { m = 'return { twice = function(x) return 2 * x end }' } })\n"
    "  local channel = worker.channel(1)\n"
    "  for i = 1, 2 do\n"
    "    local twice, rest = w:call({ x = 4, list = { 1, 'second', { 3 } } }, channel)\n"
    "    assert(twice == 8 and #rest.text == 70000 and rest.values.list[3][1] == 3)\n"
    "    assert(channel:receive() == 'second')\n"
    "  end\n"
    "  local done = a.event()\n"
    "  assert(w:run({ x = 4, list = { 1, 'second' } }, channel, function(value, err)\n"
    "    outcomes = outcomes + 1\n"
    "    done:set()\n"
    "  end))\n"
    "  done:wait()\n"
    "  w:run({ x = 4, list = {} }, channel, function() end)\n"
    "end\n"
    "local ok, err = pcall(a.with_timeout, 100000, life)\n"
    "note(ok and 'well' or tostring(err))\n";

static const char epilogue[] = "while game.worker.stats().running > 0 do game.async.sleep(1) end\n"
                               "note(game.worker.new('return ... + 1'):call(4))";

static void run_code(struct orr_runtime *rt, lua_State *L, const char *code, int point)
{
    /* The allocation that was refused last may be refused once more. */
    if (luaL_loadstring(L, code) != LUA_OK)
        load(L, code);
    allowed = point;
    struct orr_task *task;
    int error = orr_lua_start(L, 0, "workload", &task);
    if (error) {
        assert_int_equal(error, -ENOMEM);
        lua_settop(L, 0);
        return;
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    error_of(rt, task);
}

/* True if no allocation failed. */
static bool run_workload(int point)
{
    allowed = INT32_MAX;
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .clock = ORR_CLOCK_VIRTUAL, .alloc = failing_alloc, .pool_threads = 1 });
    assert_non_null(rt);
    struct orr_lua_options options = { .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } };
    lua_State *L = open_trusted(rt, options);
    ran_out = false;
    run_code(rt, L, workload, point);
    bool lacking = ran_out;
    allowed = INT32_MAX;
    if (!lacking)
        assert_string_equal(noted, "well;");
    noted[0] = '\0';
    run_code(rt, L, epilogue, INT32_MAX);
    assert_string_equal(noted, "5;");
    finish(rt, L);
    if (allocated_bytes)
        fail_msg("%lld bytes are left when allocation %d fails", (long long)allocated_bytes, point);
    return !lacking;
}

static void one_failed_allocation_in_the_life_of_a_worker_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    /* From now on the process has what it keeps for all runtimes. */
    assert_true(run_workload(INT32_MAX));
    int last = 0, step = WORK(100) == 100 ? 1 : 13;
    while (!run_workload(last))
        last += step;
    print_message("about %d points of failure\n", last);
    assert_true(last > 500);
}

static const struct CMUnitTest worker_faults[] = {
    cmocka_unit_test(one_failed_allocation_in_the_life_of_a_worker_is_an_error_and_loses_nothing),
};

HARNESS_MAIN(worker_faults)
