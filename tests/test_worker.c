/*
 * Workers from the host's side: jobs that are cancelled at any moment, runtimes and isolates that
 * end while jobs run, what the host grants and limits, and how many threads there are.  All memory
 * is counted, and must be free at the end.
 *
 * ThreadSanitizer delays signals, so nothing is interrupted there: endless loops are left out, and
 * the rest covers what threads share.  It also keeps a frame for each yield and becomes slower with
 * them, so the tests do less.
 */
#include "harness.h"
#include "lua_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define INTERRUPTS false
#define JOBS 60
#else
#define INTERRUPTS true
#define JOBS 1000
#endif

static struct orr_runtime *worker_runtime(struct orr_options options)
{
    allocated_bytes = 0;
    options.alloc = counting_alloc;
    struct orr_runtime *rt = host_runtime_with(options);
    assert_non_null(rt);
    return rt;
}

/* A trusted isolate without deadlines: a busy machine may take any time. */
static lua_State *open_without_deadlines(struct orr_runtime *rt, struct orr_lua_options options)
{
    for (int entry = 0; entry < ORR_LUA_ENTRIES; entry++)
        options.deadline_ns[entry] = ORR_NEVER;
    return open_trusted(rt, options);
}

/* Runs the code as a task, until nothing is left to do; it must not fail. */
static void run_script(struct orr_runtime *rt, lua_State *L, const char *code)
{
    struct orr_task *task = start(L, code);
    assert_int_equal(orr_runtime_run(rt), 0);
    if (error_of(rt, orr_task_ref(task))) {
        orr_lua_push_report(L, task);
        fail_msg("%s", lua_tostring(L, -1));
    }
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
}

static void set_integer(lua_State *L, const char *name, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setglobal(L, name);
}

/* --- Cancellation ----------------------------------------------------------------------------- */

/* Both the caller and the job spin for a while, so that they meet at any of their steps. */
static const char cancelled_anywhere[] =
    "local a, worker = game.async, game.worker\n"
    "local w = worker.new 'local n, bad = ... for i = 1, n do end if bad then error \"bad\" end return n'\n"
    "local seen, total = {}, 0\n"
    "for round = 1, ROUNDS do\n"
    "  local outcomes, length = 0, round * 37 % 9000\n"
    "  local task = w:run(length, round % 5 == 0, { cancelled = true, timeout = round % 7 == 0 and 0.05 or nil,\n"
    "    callback = function(value, err)\n"
    "      outcomes = outcomes + 1\n"
    "      local kind = value and 'done' or err:find 'bad' and 'bad' or err\n"
    "      seen[kind] = (seen[kind] or 0) + 1\n"
    "      assert(not value or value == length)\n"
    "    end })\n"
    "  for i = 1, round * 7919 % 20000 do end\n"
    "  if round % 3 == 0 then a.checkpoint() end\n"
    "  local before = w:pending()\n"
    "  local cancelled = w:cancel()\n"
    "  assert(cancelled <= before)\n"
    "  a.await(task)\n"
    "  assert(outcomes == 1, outcomes)\n"
    "  assert(w:pending() == 0)\n"
    "end\n"
    "for kind, count in pairs(seen) do\n"
    "  assert(kind == 'done' or kind == 'bad' or kind == 'cancelled' or kind == 'timeout', kind)\n"
    "  total = total + count\n"
    "end\n"
    "note(total)";

static void job_cancelled_at_any_moment_has_one_outcome(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ 0 });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    int rounds = WORK(5000);
    set_integer(L, "ROUNDS", rounds);
    run_script(rt, L, cancelled_anywhere);
    assert_int_equal(atoi(noted), rounds);
    finish_counting(rt, L);
}

/* Hundreds of callers, each closed at another step of its job. */
static void closing_the_caller_of_a_job_at_any_moment_loses_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 3 });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    set_integer(L, "ROUNDS", WORK(2000));
    run_script(rt, L,
               "local a, worker = game.async, game.worker\n"
               "local pool = worker.pool { size = 2, queue = 3 }\n"
               "local w = pool:new 'local n = ... for i = 1, n do end return n'\n"
               "for round = 1, ROUNDS do\n"
               "  local tasks = {}\n"
               "  for i = 1, 5 do\n"
               "    tasks[i] = a.run({ detached = true }, function() return w:call(i * round % 3000) end)\n"
               "  end\n"
               "  for i = 1, round * 31 % 3000 do end\n"
               "  for i = 1, 4 do tasks[i]:close() end\n"
               "  assert(a.await(tasks[5]) == 5 * round % 3000)\n"
               "end\n"
               "while pool:stats().running > 0 do a.sleep(1) end\n"
               "assert(pool:stats().waiting == 0 and w:pending() == 0)\n"
               "note 'well'");
    assert_string_equal(noted, "well;");
    finish_counting(rt, L);
}

/* The job's sleep, its timeout and a cancellation all come at the same time, in any order. */
static const char same_instant[] =
    "local a, worker, loop = game.async, game.worker, game.loop\n"
    "local w = worker.new 'require(\"orrery\").async.sleep(...) return \"done\"'\n"
    "for round = 1, ROUNDS do\n"
    "  local outcomes, what = 0, nil\n"
    "  local due = { 10 + round % 3 - 1, 10 + round // 3 % 3 - 1, 10 + round // 9 % 3 - 1 }\n"
    /* The time limit also holds for the time that the job computes, by the machine's clock. */
    "  if EXACT then for i = 1, 3 do due[i] = due[i] * 1000 end end\n"
    "  local function cancel_then() loop.set_timeout(due[3], function() w:cancel() end) end\n"
    "  if round % 2 == 0 then cancel_then() end\n"
    "  w:run(due[1], { timeout = due[2], cancelled = true, callback = function(value, err)\n"
    "    outcomes = outcomes + 1\n"
    "    what = value or err\n"
    "  end })\n"
    "  if round % 2 == 1 then cancel_then() end\n"
    "  a.sleep(EXACT and 20000 or 20)\n"
    /* On a busy machine all of these times come at once, and the callback after the sleep. */
    "  while not EXACT and outcomes == 0 do a.sleep(1) end\n"
    "  assert(outcomes == 1, outcomes)\n"
    "  assert(what == 'done' or what == 'timeout' or what == 'cancelled', what)\n"
    "  if EXACT then\n"
    "    local first = math.min(table.unpack(due))\n"
    "    local which = { done = 1, timeout = 2, cancelled = 3 }\n"
    "    assert(due[which[what]] == first, what .. ' came first of ' .. table.concat(due, ' '))\n"
    "  end\n"
    "end\n"
    "note 'well'";

static void job_that_ends_and_is_cancelled_at_once_has_one_outcome(void **state)
{
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        enum orr_clock clock = exact ? ORR_CLOCK_VIRTUAL : ORR_CLOCK_MONOTONIC;
        struct orr_runtime *rt = worker_runtime((struct orr_options){ .clock = clock });
        lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
        set_integer(L, "ROUNDS", exact ? WORK(3000) + 60 : 108);
        lua_pushboolean(L, exact);
        lua_setglobal(L, "EXACT");
        run_script(rt, L, same_instant);
        assert_string_equal(noted, "well;");
        finish_counting(rt, L);
    }
}

static void endless_loop_is_stopped_in_every_mode(void **state)
{
    (void)state;
    if (!INTERRUPTS)
        return;
    static const enum orr_lua_mode modes[] = { ORR_LUA_SIGNAL, ORR_LUA_COUNT, ORR_LUA_OFF };
    for (size_t i = 0; i < LENGTH(modes); i++) {
        struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 1 });
        lua_State *L = open_without_deadlines(
            rt, (struct orr_lua_options){ .mode = modes[i], .max_instructions = ORR_NEVER });
        run_script(rt, L,
                   "local a, worker = game.async, game.worker\n"
                   "for i = 1, 20 do\n"
                   "  local w = worker.new 'while true do pcall(function() while true do end end) end'\n"
                   "  w:run(function() note 'called' end)\n"
                   "  if i % 2 == 0 then a.sleep(1) end\n"
                   "  assert(w:cancel() == 1)\n"
                   "  assert(worker.new('return 5'):call() == 5)\n"
                   "end\n"
                   "note 'well'");
        assert_string_equal(noted, "well;");
        finish_counting(rt, L);
    }
}

/* --- The end ---------------------------------------------------------------------------------- */

static const char many_jobs[] =
    "local worker = game.worker\n"
    "local pool = worker.pool { size = 8, queue = 2000 }\n"
    "local waits = pool:new 'require(\"orrery\").async.sleep(1e12)'\n"
    "local loops = pool:new(LOOPS and 'while true do pcall(function() while true do end end) end'\n"
    "  or 'require(\"orrery\").async.sleep(1e12)')\n"
    "for i = 1, JOBS do\n"
    "  assert((i % 2 == 0 and loops or waits):run({ i }, function() note 'called' end))\n"
    "end\n"
    "game.async.run({ detached = true }, function() loops:call() end)\n"
    "note(pool:stats().waiting > JOBS - 20)\n";

static void runtime_ends_with_a_thousand_jobs(void **state)
{
    (void)state;
    for (int turns = 0; turns < 6; turns++) {
        struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 2 });
        lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
        lua_pushboolean(L, INTERRUPTS);
        lua_setglobal(L, "LOOPS");
        set_integer(L, "JOBS", JOBS);
        struct orr_task *task = start(L, many_jobs);
        turn_until_done(rt, task, ORR_NEVER);
        assert_int_equal(error_of(rt, task), 0);
        for (int i = 0; i < turns; i++) {
            orr_runtime_turn(rt, ORR_NEVER);
            usleep(1000);
        }
        if (turns % 2)
            orr_runtime_stop(rt);
        finish_counting(rt, L);
        assert_string_equal(noted, "true;");
    }
}

static void give_note(void *data, lua_State *L)
{
    (void)data;
    lua_register(L, "note", host_note);
}

/*
 * Also jobs that are awaited inside a shield, after the grace period, and jobs of workers that are
 * held elsewhere.
 */
static void jobs_end_with_their_script(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 2 });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    static const char text[] = "local w = game.worker.new 'require(\"orrery\").async.sleep(...) return \"done\"'\n"
                               "shared = shared or w\n"
                               "w:run(10, function(value) note(value) end)\n"
                               "game.async.run({ detached = true }, function()\n"
                               "  game.async.shield(function() shared:call(1e12) end)\n"
                               "  note 'never'\n"
                               "end)\n";
    for (int round = 0; round < 8; round++) {
        struct orr_script *script;
        struct orr_script_options options = { .source = { .name = "=script", .text = text },
                                              .shared = round % 2 ? L : NULL,
                                              .prepare = give_note,
                                              .lua = { .mount = "game", .profile = ORR_LUA_TRUSTED } };
        noted[0] = '\0';
        assert_int_equal(orr_script_load(rt, &options, &script), 0);
        for (int i = 0; i < round; i++)
            assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_script_unload(script), 0);
        assert_true(!strcmp(noted, "") || !strcmp(noted, "done;"));
    }
    run_script(rt, L,
               "while game.worker.stats().running > 0 do game.async.sleep(1) end\n"
               "assert(not shared or shared:pending() == 0)\n"
               "noted_last = game.worker.new('return 1'):call()");
    finish_counting(rt, L);
}

static void *stop_soon(void *data)
{
    usleep(2000);
    orr_runtime_stop(data);
    return NULL;
}

static void runtime_stopped_meanwhile_takes_no_more_jobs(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 2 });
        lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
        struct orr_task *task = start(L, "local w = game.worker.new 'return ...'\n"
                                         "for i = 1, math.huge do\n"
                                         "  assert(select(2, w:call(i, i)) == i)\n"
                                         "  w:run(function() end)\n"
                                         "end");
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, stop_soon, rt), 0);
        int error = orr_runtime_run(rt);
        /* 0: the script was told first, and failed because of it. */
        assert_true(error == -ECANCELED || error == 0);
        pthread_join(thread, NULL);
        assert_int_equal(orr_runtime_enter(rt), 0);
        orr_task_unref(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        finish_counting(rt, L);
    }
}

/* --- What the host grants and limits ---------------------------------------------------------- */

static _Atomic unsigned prepared;

static int host_double(lua_State *L)
{
    lua_pushinteger(L, 2 * luaL_checkinteger(L, 1));
    return 1;
}

static int answer_at_once(lua_State *L, struct orr_future *future, int first)
{
    (void)L;
    (void)first;
    return orr_future_complete(future, (struct orr_result){ .error = -EIO, .message = "the host is out" });
}

static void prepare_worker(void *data, lua_State *L)
{
    assert_string_equal(data, "the host's");
    prepared++;
    lua_register(L, "double", host_double);
    if (!orr_lua_push_async(L, answer_at_once, NULL))
        lua_setglobal(L, "ask");
}

static void host_grants_functions_to_workers(void **state)
{
    (void)state;
    prepared = 0;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 1 });
    lua_State *L = open_without_deadlines(
        rt, (struct orr_lua_options){ .worker_prepare = prepare_worker, .worker_data = "the host's" });
    run_script(rt, L,
               "assert(double == nil)\n"
               "local w = game.worker.new 'local d = double double = nil return d(...), select(2, pcall(ask))'\n"
               "for i = 1, 10 do\n"
               "  local twice, err = w:call(i)\n"
               "  assert(twice == 2 * i)\n"
               "  assert(err:find 'the host is out', err)\n"
               "end\n"
               "note 'well'");
    assert_string_equal(noted, "well;");
    assert_int_equal(prepared, 1); /* used again: its grants were restored */
    finish_counting(rt, L);
}

static void prepare_badly(void *data, lua_State *L)
{
    (void)data;
    luaL_error(L, "the host cannot prepare this");
}

static void host_that_cannot_prepare_a_worker_fails_the_job(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ 0 });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ .worker_prepare = prepare_badly });
    run_script(rt, L,
               "local w = game.worker.new 'return 1'\n"
               "for i = 1, 3 do note((select(2, pcall(w.call, w)))) end");
    assert_string_equal(noted,
                        "the host cannot prepare this;the host cannot prepare this;the host cannot prepare this;");
    finish_counting(rt, L);
}

static void host_chooses_the_modules_of_workers(void **state)
{
    (void)state;
    static const char *const granted[] = { "async", "events", "worker", NULL };
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 2 });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ .worker_modules = granted });
    run_script(rt, L,
               "local w = game.worker.new [[\n"
               "  local o = require 'orrery'\n"
               "  assert(o.loop == nil and o.schedule == nil)\n"
               "  local heard = 0\n"
               "  o.events:on('x', function() heard = heard + 1 end)\n"
               "  o.events:emit 'x'\n"
               "  o.worker.register('m', 'return 1')\n"
               "  local inner = o.worker.new 'return m, ...'\n"
               "  return heard, #o.events:list 'x', select(2, inner:call(7))\n"
               "]]\n"
               "for i = 1, 5 do\n"
               "  local heard, listed, inner = w:call()\n"
               "  assert(heard == 1 and listed == 1 and inner == 7, 'a handler was left')\n"
               "end\n"
               "note 'well'");
    assert_string_equal(noted, "well;");
    finish_counting(rt, L);
}

static const char hostile_jobs[] =
    "local a, worker = game.async, game.worker\n"
    "local function outcome(script, timeout)\n"
    "  local w = worker.new(script)\n"
    "  local ok, err = pcall(w.call, w, { timeout = timeout or 60000 })\n"
    "  assert(not ok)\n"
    "  return tostring(err)\n"
    "end\n"
    "local function expect(script, text, timeout)\n"
    "  local err = outcome(script, timeout)\n"
    "  assert(err:find(text, 1, true), err)\n"
    "  assert(worker.new('return 5'):call() == 5)\n"
    "end\n"
    "expect('local t for i = 1, 1e9 do t = { t } end', 'not enough memory')\n"
    "expect('local t = {} for i = 1, 1e9 do t[i] = { i } end', 'table too large')\n"
    "expect('local s = \"x\" while true do s = s .. s end', 'string too long')\n"
    "expect('local function deep() return 1 + deep() end deep()', '')\n"
    "expect('local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x', "
    "'overflow')\n"
    "if LOOPS then\n"
    "  expect('while true do end', 'timeout', 30)\n"
    "  expect('while true do pcall(function() while true do end end) end', 'timeout', 30)\n"
    "  expect('(\"a\"):rep(30):find((\"a?\"):rep(30) .. (\"a\"):rep(30) .. \"b\") while true do end', 'timeout', 30)\n"
    "  expect('local async = require(\"orrery\").async for i = 1, 1e9 do async.run(function() async.sleep(1e9) end) "
    "end', '', 60)\n"
    "end\n"
    "assert(worker.new([[return io == nil and os.execute == nil and os.exit == nil and debug.getinfo == nil and "
    "package == nil\n"
    "  and load ~= nil and loadfile == nil and dofile == nil]]):call())\n"
    "assert(worker.new('return pcall(setmetatable, {}, { __gc = print })'):call() == false)\n"
    "assert(worker.new('return pcall(string.dump, print)'):call() == false)\n"
    "local long = string.rep(' ', 200 << 10)\n"
    "local ok, err = pcall(worker.new, long)\n"
    "assert(not ok and err:find 'the script has 204800 bytes, expected at most 131072', err)\n"
    "local w = worker.new 'local was = leak leak = true string.leak = true return was or string.leak == nil'\n"
    "for i = 1, 5 do assert(not w:call()) end\n"
    "note 'well'";

static void limits_of_untrusted_jobs_end_only_the_job(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 1 });
    lua_State *L;
    assert_int_equal(orr_lua_new(rt,
                                 &(struct orr_lua_options){
                                     .mount = "game",
                                     /* A slow machine is not the script's fault. */
                                     .longest_step_ns = ORR_NEVER,
                                     .deadline_ns = { [ORR_LUA_TASK] = ORR_NEVER, [ORR_LUA_SCRIPT] = ORR_NEVER },
                                 },
                                 &L),
                     0);
    lua_register(L, "note", host_note);
    lua_pushboolean(L, INTERRUPTS);
    lua_setglobal(L, "LOOPS");
    run_script(rt, L, hostile_jobs);
    assert_string_equal(noted, "well;");
    finish_counting(rt, L);
}

/* Items that are neither in the sender nor in the receiver are charged, too. */
static const char hoarding[] =
    "local worker = game.worker\n"
    "local megabyte = string.rep('x', 1 << 20)\n"
    "local channel, sent, ok, err = worker.channel(1000), 0\n"
    "repeat\n"
    "  ok, err = pcall(channel.send, channel, megabyte)\n"
    "  sent = sent + (ok and 1 or 0)\n"
    "until not ok\n"
    "assert(sent >= 10 and sent < 16, sent)\n"
    "assert(err:find 'not enough memory: more is on its way than the memory limit allows', err)\n"
    "for i = 1, 8 do assert(#channel:receive() == #megabyte) end\n"
    "for i = 1, 8 do channel:send(megabyte) end\n"
    "while #channel > 0 do channel:receive() end\n"
    "local sleeper, jobs = worker.new 'require(\"orrery\").async.sleep(1e9)', 0\n"
    "repeat\n"
    "  ok, err = pcall(sleeper.run, sleeper, megabyte, print)\n"
    "  jobs = jobs + (ok and 1 or 0)\n"
    "until not ok\n"
    /* Running jobs were received, and their isolates share the limit. */
    "assert(jobs >= 6 and jobs <= 18, jobs)\n"
    "assert(err:find 'not enough memory', err)\n"
    "sleeper:close()\n"
    "ok, err = pcall(worker.pool, { size = 1000 })\n"
    "assert(not ok and err:find 'the pools of this script may be of size 8 together, and 0 is taken', err)\n"
    "local pools = {}\n"
    "repeat ok, pools[#pools + 1] = pcall(worker.pool, { size = 4 }) until not ok\n"
    "assert(#pools == 3, #pools)\n"
    "note 'well'";

static void untrusted_scripts_cannot_hoard_in_channels_and_queues(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 2 });
    lua_State *L;
    struct orr_lua_options options = {
        .mount = "game",
        .memory_limit = 16 << 20,
        .longest_step_ns = ORR_NEVER,
        .deadline_ns = { [ORR_LUA_TASK] = ORR_NEVER, [ORR_LUA_SCRIPT] = ORR_NEVER },
    };
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    lua_register(L, "note", host_note);
    run_script(rt, L, hoarding);
    assert_string_equal(noted, "well;");
    finish_counting(rt, L);
}

static void host_limits_how_long_jobs_compute(void **state)
{
    (void)state;
    if (!INTERRUPTS)
        skip();
    struct orr_runtime *rt = worker_runtime((struct orr_options){ 0 });
    lua_State *L = open_trusted(
        rt, (struct orr_lua_options){ .mount = "game", .deadline_ns = { [ORR_LUA_JOB] = 20 * UINT64_C(1000000) } });
    lua_register(L, "note", host_note);
    run_script(rt, L,
               "local w = game.worker.new 'while true do end'\n"
               "local ok, err = pcall(w.call, w, { timeout = 100000 })\n"
               "note(tostring(err):match '^timeout')");
    assert_string_equal(noted, "timeout;");
    finish_counting(rt, L);
}

/* --- Threads and runtimes --------------------------------------------------------------------- */

static void no_thread_is_made_for_a_run(void **state)
{
    (void)state;
    unsigned before = harness_threads();
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 3 });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    assert_int_equal(harness_threads(), before); /* there are none before the first job */
    run_script(rt, L, "note(game.worker.new('return 1'):call()) note(game.worker.stats().threads)");
    assert_string_equal(noted, "1;3;");
    assert_int_equal(harness_threads(), before + 3);
    set_integer(L, "ROUNDS", WORK(2000) + 20);
    run_script(rt, L,
               "local w = game.worker.new 'return 1'\n"
               "local pool = game.worker.pool { size = 20 }\n"
               "for i = 1, ROUNDS do\n"
               "  w:call()\n"
               "  if i % 10 == 0 then pool:map('return ...', { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, { concurrency = 9 }) end\n"
               "end");
    assert_int_equal(harness_threads(), before + 3);
    finish_counting(rt, L);
    assert_int_equal(harness_threads(), before);
}

static void number_of_threads_is_checked(void **state)
{
    (void)state;
    assert_null(harness_runtime_with((struct orr_options){ .pool_threads = ORR_WORKERS_MAX + 1 }));
    assert_int_equal(errno, EINVAL);
    assert_non_null(strstr(harness_log(), "option pool_threads is"));
    assert_non_null(strstr(harness_log(), "expected 1 to"));
}

struct lodger {
    lua_State *L;
    struct orr_task *task;
    struct orr_wait wait;
    unsigned step;
    _Atomic unsigned ended;
    int error;
};

static enum orr_poll lodger_poll(struct orr_task *task, void *data)
{
    struct lodger *self = data;
    if (self->step++ == 0) {
        self->L = NULL;
        struct orr_lua_options options = { .mount = "game", .profile = ORR_LUA_TRUSTED };
        assert_int_equal(orr_lua_new(orr_task_runtime(task), &options, &self->L), 0);
        self->task = start(self->L, "local w = game.worker.new 'return ... + 1'\n"
                                    "local x = 0\n"
                                    "for i = 1, 50 do x = w:call(x) end\n"
                                    "assert(x == 50)");
    }
    int error = orr_task_await(task, &self->wait, self->task);
    if (error == -EAGAIN)
        return ORR_PENDING;
    self->error = error;
    orr_task_unref(self->task);
    assert_int_equal(orr_lua_close(self->L), -EINPROGRESS);
    self->ended++;
    return ORR_DONE;
}

static void isolates_of_several_workers_share_the_pool_threads(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .workers = 3, .pool_threads = 2 });
    struct lodger lodgers[6] = { 0 };
    for (unsigned i = 0; i < LENGTH(lodgers); i++) {
        struct orr_spawn what = { .poll = lodger_poll, .data = &lodgers[i], .worker = i % 3 + 1, .detached = true };
        assert_int_equal(orr_spawn(rt, &what), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (unsigned i = 0; i < LENGTH(lodgers); i++) {
        assert_int_equal(lodgers[i].ended, 1);
        assert_int_equal(lodgers[i].error, 0);
    }
    finish_counting(rt, NULL);
}

static void run_one_of_two(void *data)
{
    (void)data;
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .reactor = harness_reactor, .pool_threads = 2 });
    assert_non_null(rt);
    lua_State *L;
    struct orr_lua_options options = { .mount = "game", .profile = ORR_LUA_TRUSTED };
    assert_int_equal(orr_lua_new(rt, &options, &L), 0);
    run_script(
        rt, L,
        "local a, w = game.async, game.worker.new 'local c, n = ... for i = 1, n do c:send(i) end c:close() return n'\n"
        "for round = 1, 20 do\n"
        "  local c, sum = game.worker.channel(round % 3), 0\n"
        "  local task = a.run(function() return w:call(c, round) end)\n"
        "  for i in c:iter() do sum = sum + i end\n"
        "  assert(sum == round * (round + 1) // 2 and a.await(task) == round)\n"
        "end");
    finish(rt, L);
}

/* Pool threads open their reactors with the first job. */
static void pool_threads_that_get_no_ring_use_epoll(void **state)
{
    (void)state;
    enum orr_reactor named = harness_reactor;
    harness_reactor = ORR_REACTOR_AUTO;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .pool_threads = 3 });
    harness_reactor = named;
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    harness_rings = (struct ring_faults){ .allowed = 0, .error = -ENOMEM };
    run_script(rt, L, "note(game.worker.new('return 6 * ...'):call(7))");
    int asked = harness_rings.asked;
    harness_rings = (struct ring_faults){ .allowed = INT32_MAX };
    assert_string_equal(noted, "42;");
    /* The first pool thread is refused; on a machine without io_uring, worker 1 was. */
    assert_int_equal(asked, harness_stats(rt, 1).reactor == ORR_REACTOR_URING ? 1 : 0);
    assert_non_null(strstr(harness_log(), "using epoll"));
    finish_counting(rt, L);
}

static void *run_elsewhere(void *data)
{
    run_one_of_two(data);
    return NULL;
}

static void two_runtimes_have_separate_pool_threads(void **state)
{
    (void)state;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, run_elsewhere, NULL), 0);
    run_one_of_two(NULL);
    pthread_join(other, NULL);
}

static void virtual_hour_passes_in_a_job(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    run_script(
        rt, L,
        "local a, loop, worker = game.async, game.loop, game.worker\n"
        "local began = loop.now()\n"
        "local w = worker.new 'local o = require \"orrery\" local t = o.loop.now() o.async.sleep(3600000) return "
        "o.loop.now() - t'\n"
        "note(w:call { timeout = 1e9 })\n"
        "note(loop.now() - began)\n"
        "a.scope(function() for i = 1, 20 do a.run(function() w:call { timeout = 1e9 } end) end end)\n"
        "note(select(2, pcall(w.call, w, { timeout = 3599999 })))");
    assert_string_equal(noted, "3600000.0;3600000.0;timeout;");
    finish_counting(rt, L);
}

static void job_that_waits_for_ever_is_a_deadlock_in_virtual_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = worker_runtime((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
    lua_State *L = open_without_deadlines(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(
        L, "game.worker.new('(...):receive()'):call(game.worker.channel(0), { timeout = math.huge })");
    assert_int_equal(orr_runtime_run(rt), -EDEADLK);
    assert_int_equal(orr_runtime_enter(rt), 0);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    finish_counting(rt, L);
}

static const struct CMUnitTest worker[] = {
    cmocka_unit_test(job_cancelled_at_any_moment_has_one_outcome),
    cmocka_unit_test(closing_the_caller_of_a_job_at_any_moment_loses_nothing),
    cmocka_unit_test(job_that_ends_and_is_cancelled_at_once_has_one_outcome),
    cmocka_unit_test(endless_loop_is_stopped_in_every_mode),
    cmocka_unit_test(runtime_ends_with_a_thousand_jobs),
    cmocka_unit_test(jobs_end_with_their_script),
    cmocka_unit_test(runtime_stopped_meanwhile_takes_no_more_jobs),
    cmocka_unit_test(host_grants_functions_to_workers),
    cmocka_unit_test(host_that_cannot_prepare_a_worker_fails_the_job),
    cmocka_unit_test(host_chooses_the_modules_of_workers),
    cmocka_unit_test(limits_of_untrusted_jobs_end_only_the_job),
    cmocka_unit_test(untrusted_scripts_cannot_hoard_in_channels_and_queues),
    cmocka_unit_test(host_limits_how_long_jobs_compute),
    cmocka_unit_test(no_thread_is_made_for_a_run),
    cmocka_unit_test(number_of_threads_is_checked),
    cmocka_unit_test(isolates_of_several_workers_share_the_pool_threads),
    cmocka_unit_test(pool_threads_that_get_no_ring_use_epoll),
    cmocka_unit_test(two_runtimes_have_separate_pool_threads),
    cmocka_unit_test(virtual_hour_passes_in_a_job),
    cmocka_unit_test(job_that_waits_for_ever_is_a_deadlock_in_virtual_time),
};

HARNESS_MAIN(worker)
