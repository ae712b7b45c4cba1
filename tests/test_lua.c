/*
 * Lua from the host's side: isolates and states of the host's own, closed at any moment; host
 * functions that scripts await; code outside of tasks that waits; memory that runs out.
 */
#include "harness.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Fixtures --------------------------------------------------------------------------------- */

static const struct orr_lua_options trusted = { .mount = "game", .profile = ORR_LUA_TRUSTED };

/* How many requests for more memory are served, and how many after them are refused. */
struct supply {
    int served, refused;
};

static bool is_refused(struct supply *supply)
{
    if (supply->served-- > 0)
        return false;
    return supply->refused-- > 0;
}

static void *refusing_alloc(void *data, void *block, size_t old_size, size_t size)
{
    if (data && size && (size > old_size || !block) && is_refused(data))
        return NULL;
    return counting_alloc(data, block, old_size, size);
}

static unsigned sunk;

static void count_sunk(void *data, struct orr_task *task)
{
    (void)data;
    (void)task;
    sunk++;
}

static struct orr_runtime *lua_runtime(struct supply *supply)
{
    allocated_bytes = 0;
    sunk = 0;
    return harness_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL,
                                                      .alloc = refusing_alloc,
                                                      .alloc_data = supply,
                                                      .sink = count_sunk,
                                                      .grace_ms = 100 });
}

static char noted[256];

static int note(lua_State *L)
{
    size_t length = strlen(noted);
    snprintf(noted + length, sizeof noted - length, "%s;", luaL_tolstring(L, 1, NULL));
    return 0;
}

static lua_State *lua_open(struct orr_runtime *rt)
{
    lua_State *L;
    noted[0] = '\0';
    assert_int_equal(orr_lua_new(rt, &trusted, &L), 0);
    lua_register(L, "note", note);
    return L;
}

/* Starts a script, which runs in the turns of the runtime. */
static void start(lua_State *L, const char *code)
{
    assert_int_equal(luaL_loadstring(L, code), LUA_OK);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
}

/* --- Running and closing ---------------------------------------------------------------------- */

static void script_runs_as_a_task_of_the_runtime(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    start(L, "game.async.sleep(10) note(game.async.current().name) note(require 'orrery' == game)");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "script;true;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void closing_an_isolate_cancels_its_tasks_and_lets_them_clean_up(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    start(L, "local a = game.async\n"
             "a.run(function() local _, e = pcall(a.sleep, 1e6) a.shield(a.sleep, 10) note(e) end)\n"
             "local x <close> = setmetatable({}, { __close = function() note 'closed x' end })\n"
             "a.event():wait()");
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0); /* no time passes in it */
    assert_int_equal(orr_lua_close(L), 0);
    assert_string_equal(noted, "closed x;closed;");
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    assert_int_equal(sunk, 0);
}

static int close_isolate(lua_State *L)
{
    lua_pushinteger(L, orr_lua_close(L));
    return 1;
}

static void isolate_closed_from_inside_is_freed_after_the_call_has_returned(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    lua_register(L, "close", close_isolate);
    start(L, "note(close()) note(close()) note(pcall(game.async.run, { detached = true }, print))\n"
             "game.async.run(note, 'child')\n" /* a cleanup may start tasks */
             "local ok, e = pcall(game.async.sleep, 1000) note(e)");
    assert_int_equal(orr_runtime_run(rt), 0);
    char expected[64];
    snprintf(expected, sizeof expected, "%d;%d;false;child;closed;", -EINPROGRESS, -EINVAL);
    assert_string_equal(noted, expected);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void isolate_can_be_closed_after_any_number_of_turns(void **state)
{
    (void)state;
    for (int turns = 0; turns < 40; turns++) {
        struct orr_runtime *rt = lua_runtime(NULL);
        lua_State *L = lua_open(rt);
        start(L, "local a = game.async\n"
                 "local q = a.queue(1)\n"
                 "for i = 1, 5 do a.run(function() while true do q:put(i) a.checkpoint() end end) end\n"
                 "a.run(function() a.sleep(1) error 'x' end)\n"
                 "local t = game.loop.set_interval(1, function() q:get() end)\n"
                 "pcall(a.supervise, function() a.run(function() a.sleep(3) error 'y' end) a.sleep(5) end)\n"
                 "while true do q:get() end");
        for (int i = 0; i < turns; i++)
            assert_true(orr_runtime_turn(rt, 0) >= 0);
        assert_int_equal(orr_lua_close(L), 0);
        assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static void closing_leaves_no_task_that_reports_a_failed_cleanup(void **state)
{
    (void)state;
    for (int turns = 0; turns < 4; turns++) {
        struct orr_runtime *rt = lua_runtime(NULL);
        lua_State *L = lua_open(rt);
        start(L, "local x <close> = setmetatable({}, { __close = function() error 'x' end })\n"
                 "game.async.sleep(1e6)");
        for (int turn = 0; turn < turns; turn++)
            assert_true(orr_runtime_turn(rt, 0) >= 0);
        assert_int_equal(orr_lua_close(L), 0);
        assert_int_equal(sunk, turns > 0); /* else it never began */
        assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

static void closing_leaves_no_task_that_begins_scheduled_callbacks(void **state)
{
    (void)state;
    for (int owned = 0; owned < 2; owned++) {
        struct orr_runtime *rt = lua_runtime(NULL);
        lua_State *L = owned ? NULL : luaL_newstate();
        if (!owned)
            luaL_openlibs(L);
        assert_int_equal(owned ? orr_lua_new(rt, &trusted, &L) : orr_lua_open(rt, L, &trusted), 0);
        assert_int_equal(luaL_dostring(L, "game.schedule(print)"), LUA_OK);
        assert_int_equal(harness_stats(rt, 0).tasks_live, 1);
        if (owned)
            assert_int_equal(orr_lua_close(L), 0);
        else
            lua_close(L);
        assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
    }
}

struct elsewhere {
    lua_State *L;
    struct orr_wait wait;
    struct orr_task *script;
    int step, error, closed;
    unsigned worker;
};

/* A task of worker 2 that makes an isolate there, runs a script in it, and closes it. */
static enum orr_poll use_lua_elsewhere(struct orr_task *task, void *data)
{
    struct elsewhere *self = data;
    if (self->step == 0) {
        self->step = 1;
        self->worker = orr_task_worker(task);
        assert_int_equal(orr_lua_new(orr_task_runtime(task), &trusted, &self->L), 0);
        assert_int_equal(luaL_loadstring(self->L,
                                         "local a = game.async\n"
                                         "local t = {}\n"
                                         "for i = 1, 100 do t[i] = a.run(function() a.sleep(i % 7) return i end) end\n"
                                         "a.await_all(t) error('at the end', 0)"),
                         LUA_OK);
        assert_int_equal(orr_lua_start(self->L, 0, "script", &self->script), 0);
    }
    if (orr_task_await(task, &self->wait, self->script) == -EAGAIN)
        return ORR_PENDING;
    self->error = strcmp(orr_task_result(self->script)->message, "at the end\n") > 0;
    self->closed = orr_lua_close(self->L);
    orr_task_unref(self->script);
    return ORR_DONE;
}

static void isolate_lives_on_the_worker_whose_task_made_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 2, .alloc = refusing_alloc });
    struct elsewhere elsewhere = { 0 };
    allocated_bytes = 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = use_lua_elsewhere, .data = &elsewhere, .worker = 2 }),
                     0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(elsewhere.worker, 2);
    assert_true(elsewhere.error);
    /* It is freed after the task that asked has returned. */
    assert_int_equal(elsewhere.closed, -EINPROGRESS);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* --- The host's own state --------------------------------------------------------------------- */

static void hosts_own_state_gets_the_api_and_keeps_its_globals(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    noted[0] = '\0';
    lua_register(L, "note", note);
    assert_int_equal(orr_lua_open(rt, L, NULL), 0);
    assert_int_equal(orr_lua_open(rt, L, NULL), -EALREADY);
    assert_int_equal(luaL_dostring(L, "async = require('orrery').async\n"
                                      "local t = async.run(function() async.sleep(10) return 5 end)\n"
                                      "note(t:status()) note(t:wait()) note(async.current())"),
                     LUA_OK);
    assert_string_equal(noted, "awaiting;5;nil;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_true(luaL_dostring(L, "async.run(print)"));
    assert_non_null(strstr(lua_tostring(L, -1), "closing"));
    lua_close(L);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void code_outside_of_tasks_waits_by_driving_the_loop(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    assert_int_equal(luaL_dostring(L, "local a = game.async\n"
                                      "local t = a.run(function() a.sleep(1000) return 'late' end)\n"
                                      "note(select(2, t:pwait(10))) note(t:wait())\n"
                                      "local f = a.run(function() a.sleep(5) error('bad', 0) end)\n"
                                      "note(select(2, f:pwait())) note(select(2, pcall(f.wait, f)))\n"
                                      "note(select(2, pcall(a.sleep, 1)))"),
                     LUA_OK);
    assert_non_null(strstr(noted, "timeout;late;bad;bad;"));
    assert_non_null(strstr(noted, "not inside a task"));
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    assert_int_equal(sunk, 0);
}

static int stop_runtime(lua_State *L)
{
    assert_int_equal(orr_runtime_stop(lua_touserdata(L, lua_upvalueindex(1))), 0);
    return 0;
}

static void wait_outside_of_tasks_ends_with_an_error_on_stop_and_on_deadlock(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    lua_pushlightuserdata(L, rt);
    lua_pushcclosure(L, stop_runtime, 1);
    lua_setglobal(L, "stop");
    assert_int_equal(luaL_dostring(L, "local a = game.async\n"
                                      "local t = a.run(function() a.event():wait() end)\n"
                                      "note((select(2, pcall(t.wait, t)):find 'deadlock') ~= nil)\n"
                                      "a.run(function() a.sleep(5) stop() end)\n"
                                      "note((select(2, pcall(t.wait, t)):find 'interrupted') ~= nil)"),
                     LUA_OK);
    assert_string_equal(noted, "true;true;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static void private_loop_outside_of_tasks_drives_the_real_loop(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    assert_int_equal(luaL_dostring(L, "local a, loop = game.async, game.eventloop.new()\n"
                                      "local began = game.loop.now()\n"
                                      "local function noting(word)\n"
                                      "  return function() note(word .. ' ' .. game.loop.now() - began) end\n"
                                      "end\n"
                                      "a.run(function() a.sleep(15) noting 'task' () end)\n"
                                      "loop.setTimeout(10, function() noting 'a' () a.sleep(10) noting 'b' () end)\n"
                                      "game.loop.set_timeout(12, noting 'timer')\n"
                                      "game.loop.set_timeout(1000, noting 'never')\n"
                                      "loop.onStop(noting 'stop')\n"
                                      "loop.runLoop()\n"
                                      "loop.setInterval(10, function() noting 'c' () loop.stopLoop() end)\n"
                                      "loop.runLoop() note(loop.pending()) note(loop.isRunning())"),
                     LUA_OK);
    assert_string_equal(noted, "a 10.0;timer 12.0;task 15.0;b 20.0;stop 20.0;c 30.0;stop 30.0;1;false;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    assert_int_equal(sunk, 0);
}

static void private_loop_raises_its_first_error_and_reports_the_others(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    assert_int_equal(luaL_dostring(L, "local loop = game.eventloop.new()\n"
                                      "for i = 1, 3 do loop.register('x', function() error('bad ' .. i, 0) end) end\n"
                                      "loop.queueEvent 'x'\n"
                                      "note(select(2, pcall(loop.runLoop))) note(loop.isRunning())"),
                     LUA_OK);
    assert_string_equal(noted, "bad 1;false;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    assert_int_equal(sunk, 2);
}

static void deadlocked_private_loop_is_an_error_and_can_be_run_again(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    assert_int_equal(luaL_dostring(L, "local loop = game.eventloop.new()\n"
                                      "loop.register('x', function() note 'x' loop.stopLoop() end)\n"
                                      "note((select(2, pcall(loop.runLoop)):find 'deadlock') ~= nil)\n"
                                      "note(loop.isRunning()) note(loop.pending())\n"
                                      "loop.register('x', function() note 'x' loop.stopLoop() end)\n"
                                      "loop.queueEvent 'x' loop.runLoop()"),
                     LUA_OK);
    assert_string_equal(noted, "true;false;0;x;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* advance(ms): moves the clock, as if the script had taken so long. */
static int advance(lua_State *L)
{
    uint64_t ns = (uint64_t)luaL_checkinteger(L, 1) * 1000000;
    assert_int_equal(orr_runtime_advance(lua_touserdata(L, lua_upvalueindex(1)), ns), 0);
    return 0;
}

static void repeat_keeps_its_rate_and_skips_what_it_missed(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    lua_pushlightuserdata(L, rt);
    lua_pushcclosure(L, advance, 1);
    lua_setglobal(L, "advance");
    start(
        L,
        "local loop, count = game.loop, 0\n"
        "local began, timer = loop.now(), loop.new_timer()\n"
        "timer:start(10, 10, function()\n"
        "  count = count + 1\n"
        "  note(loop.now() - began)\n"
        "  if count == 2 then advance(35) elseif count == 3 then advance(3) elseif count == 5 then timer:close() end\n"
        "end)");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "10.0;20.0;55.0;60.0;70.0;");
    noted[0] = '\0';
    start(L, "local loop = game.eventloop.new()\n"
             "local count, began = 0, game.loop.now()\n"
             "loop.setInterval(10, function()\n"
             "  count = count + 1\n"
             "  note(game.loop.now() - began)\n"
             "  if count == 2 then advance(35) elseif count == 4 then loop.stopLoop() end\n"
             "end)\n"
             "loop.runLoop()");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "10.0;20.0;60.0;70.0;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    assert_int_equal(sunk, 0);
}

static void error_in_a_timer_callback_is_reported_and_stops_no_timer(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    start(L, "local loop, count, timer = game.loop, 0, game.loop.new_timer()\n"
             "loop.set_timeout(5, function() note 'once' error 'bad' end)\n"
             "timer:start(10, 10, function()\n"
             "  count = count + 1\n"
             "  note(count)\n"
             "  if count == 3 then timer:close() else error 'bad' end\n"
             "end)");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "once;1;2;3;");
    assert_int_equal(sunk, 3);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

static int write_byte(lua_State *L)
{
    assert_int_equal(write((int)luaL_checkinteger(L, 1), "x", 1), 1);
    return 0;
}

static void scripts_wait_for_descriptors(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    lua_register(L, "write_byte", write_byte);
    lua_pushinteger(L, ends[0]);
    lua_setglobal(L, "input");
    lua_pushinteger(L, ends[1]);
    lua_setglobal(L, "output");
    start(L, "local a = game.async\n"
             "local closed = a.run(a.readable, input) closed:close() note(select(2, a.pawait(closed)))\n"
             "local t = a.run(function() note(a.readable(input)) end)\n"
             "note(a.writable(output)) note(t:status())\n"
             "write_byte(output) a.await(t)\n"
             "note((select(2, pcall(a.readable, 1234567)):find 'Bad file descriptor') ~= nil)");
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "closed;true;awaiting;true;true;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    close(ends[0]);
    close(ends[1]);
}

static void hosts_own_state_may_be_closed_while_it_has_tasks(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    assert_int_equal(orr_lua_open(rt, L, &trusted), 0);
    assert_int_equal(luaL_dostring(L, "for i = 1, 10 do game.async.run(game.async.sleep, i) end"), LUA_OK);
    lua_close(L);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
}

/* --- Host functions that scripts await -------------------------------------------------------- */

struct doubling {
    struct orr_future *future;
    long number;
};

static _Atomic unsigned doublings_done;

static void *double_it(void *data)
{
    struct doubling *doubling = data;
    struct orr_future *future = doubling->future;
    doubling->number *= 2;
    bool failed = doubling->number < 0;
    orr_future_complete(future, (struct orr_result){ .error = failed ? -EDOM : 0,
                                                     .message = failed ? "negative" : NULL,
                                                     .value = doubling,
                                                     .drop = free });
    orr_future_unref(future);
    atomic_fetch_add(&doublings_done, 1);
    return NULL;
}

static int double_start(lua_State *L, struct orr_future *future, int first)
{
    long number = (long)luaL_checkinteger(L, first);
    struct doubling *doubling = malloc(sizeof *doubling);
    pthread_t thread;
    *doubling = (struct doubling){ .future = orr_future_ref(future), .number = number };
    assert_int_equal(pthread_create(&thread, NULL, double_it, doubling), 0);
    pthread_detach(thread);
    return 0;
}

static int double_push(lua_State *L, const struct orr_result *result)
{
    if (result->error)
        return luaL_error(L, "%s", result->message);
    lua_pushinteger(L, ((struct doubling *)result->value)->number);
    return 1;
}

static void calling_an_asynchronous_host_function_awaits_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *L = lua_open(rt);
    assert_int_equal(orr_lua_push_async(L, double_start, double_push), 0);
    lua_setglobal(L, "double");
    start(L, "local a = game.async\n"
             "local sum = 0\n"
             "a.scope(function() for i = 1, 50 do a.run(function() local d = double(i) sum = sum + d end) end end)\n"
             "note(sum) note(select(2, pcall(double, -1)):match 'negative')\n"
             "note((select(2, pcall(double, 'x')):find 'number expected') ~= nil)\n"
             "local t = a.run(double, 5) t:close() local r = select(2, a.pawait(t))\n"
             "note(r == 'closed' or r == 10)"); /* the thread may have been quicker */
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "2550;negative;true;true;");
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    /* The last one may complete its future after everything is gone. */
    harness_await(&doublings_done, 52);
    assert_int_equal(allocated_bytes, 0);
}

/* --- Without memory --------------------------------------------------------------------------- */

static const char busy_script[] =
    "local a = game.async\n"
    "local q, s, e, m, c = a.queue(1), a.semaphore(1), a.event(), a.mutex(), a.condition()\n"
    "local function safely(fn, ...) return pcall(fn, ...) end\n"
    "for i = 1, 5 do\n"
    "  safely(a.run, 'worker ' .. i, function()\n"
    "    local x <close> = setmetatable({}, { __close = function() safely(a.shield, a.sleep, 1) end })\n"
    "    s:with(a.sleep, i)\n"
    "    q:put({ i })\n"
    "    if i == 3 then error({ i }) end\n"
    "    m:with(c.wait, c, m)\n"
    "  end)\n"
    "end\n"
    "safely(function() for i = 1, 4 do q:get() end end)\n"
    "safely(a.with_timeout, 5, e.wait, e)\n"
    "safely(a.await, function(callback) game.loop.set_timeout(1, function() callback(1, 2, 3) end) end)\n"
    "local t = a.run(a.sleep, 100) t:on_complete(function() end) t:close() a.pawait(t)\n"
    "safely(a.await_all, { a.run(a.sleep, 1), a.run(function() return 1, 2, 3 end) })\n"
    "local f = a.future() a.run(function() f:complete(nil, 1) end) safely(a.await, f)\n"
    "safely(coroutine.wrap(function() a.sleep(1) end))\n"
    "for i = 1, 3 do safely(a.run, function() return { i } end) end\n"
    "safely(a.run, { detached = true }, function() a.current() error({}) end)\n"
    "safely(a.run, function() a.run(a.checkpoint) return 1, {} end)\n"
    "safely(a.await, function(done) done({}, 2) end)\n"
    "a.sleep(0)\n"
    "c:notify_all()\n";

/* True if there was enough memory. */
static bool run_with_memory_for(int served, int refused)
{
    struct supply supply = { served, refused };
    struct orr_runtime *rt = lua_runtime(&supply);
    if (!rt)
        return false;
    lua_State *L = NULL;
    int error = orr_lua_new(rt, &trusted, &L);
    assert_true(error == 0 || error == -ENOMEM);
    if (!error) {
        if (luaL_loadstring(L, busy_script) == LUA_OK)
            orr_lua_start(L, 0, "script", NULL);
        error = orr_runtime_run(rt);
        /* The task that would have woken the others may not have been made. */
        assert_true(error == 0 || error == -EDEADLK);
        assert_int_equal(orr_lua_close(L), 0);
    }
    bool enough = supply.served > 0;
    supply = (struct supply){ INT32_MAX, 0 };
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(allocated_bytes, 0);
    return enough;
}

static void run_at_every_point(int refused)
{
    int points = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    int step = 7;
#else
    int step = 1;
#endif
    while (!run_with_memory_for(points, refused))
        points += step;
    print_message("%d points of failure\n", points);
    assert_true(points > 500);
}

static void memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    run_at_every_point(INT32_MAX);
}

/* Lua collects and tries again after one refusal, so two are refused. */
static void one_failed_allocation_is_an_error_and_other_tasks_go_on(void **state)
{
    (void)state;
    run_at_every_point(2);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = lua_runtime(NULL);
    lua_State *bare = luaL_newstate();
    lua_State *L;
    assert_int_equal(orr_lua_new(NULL, NULL, &L), -EINVAL);
    assert_int_equal(orr_lua_new(rt, NULL, NULL), -EINVAL);
    assert_int_equal(orr_lua_open(rt, NULL, NULL), -EINVAL);
    assert_int_equal(orr_lua_close(NULL), -EINVAL);
    assert_int_equal(orr_lua_close(bare), -EINVAL);
    assert_int_equal(orr_lua_start(bare, 0, NULL, NULL), -EINVAL);
    assert_int_equal(orr_lua_push_async(bare, double_start, NULL), -EINVAL);
    L = lua_open(rt);
    /* There is no function on the stack. */
    assert_int_equal(orr_lua_start(L, 0, NULL, NULL), -EINVAL);
    assert_int_equal(orr_lua_push_async(L, NULL, NULL), -EINVAL);
    assert_int_equal(orr_lua_close(L), 0);
    lua_close(bare);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static const struct CMUnitTest lua[] = {
    cmocka_unit_test(script_runs_as_a_task_of_the_runtime),
    cmocka_unit_test(closing_an_isolate_cancels_its_tasks_and_lets_them_clean_up),
    cmocka_unit_test(isolate_closed_from_inside_is_freed_after_the_call_has_returned),
    cmocka_unit_test(isolate_can_be_closed_after_any_number_of_turns),
    cmocka_unit_test(closing_leaves_no_task_that_reports_a_failed_cleanup),
    cmocka_unit_test(closing_leaves_no_task_that_begins_scheduled_callbacks),
    cmocka_unit_test(isolate_lives_on_the_worker_whose_task_made_it),
    cmocka_unit_test(hosts_own_state_gets_the_api_and_keeps_its_globals),
    cmocka_unit_test(code_outside_of_tasks_waits_by_driving_the_loop),
    cmocka_unit_test(wait_outside_of_tasks_ends_with_an_error_on_stop_and_on_deadlock),
    cmocka_unit_test(private_loop_outside_of_tasks_drives_the_real_loop),
    cmocka_unit_test(private_loop_raises_its_first_error_and_reports_the_others),
    cmocka_unit_test(deadlocked_private_loop_is_an_error_and_can_be_run_again),
    cmocka_unit_test(repeat_keeps_its_rate_and_skips_what_it_missed),
    cmocka_unit_test(error_in_a_timer_callback_is_reported_and_stops_no_timer),
    cmocka_unit_test(scripts_wait_for_descriptors),
    cmocka_unit_test(hosts_own_state_may_be_closed_while_it_has_tasks),
    cmocka_unit_test(calling_an_asynchronous_host_function_awaits_it),
    cmocka_unit_test(memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing),
    cmocka_unit_test(one_failed_allocation_is_an_error_and_other_tasks_go_on),
    cmocka_unit_test(misuse_is_refused),
};

HARNESS_MAIN(lua)
