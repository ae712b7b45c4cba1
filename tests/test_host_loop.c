/*
 * Lua in the loop of a host: when the host must turn; what happens when it turns late, early or
 * never; runtimes inside one another; small stacks; calls through many levels; many isolates one
 * after the other.
 *
 * ORR_TEST_SEED chooses other programs.
 */
#include "lua_host.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char host_loop_lua[];
extern const size_t host_loop_lua_size;

/* --- Fixtures --------------------------------------------------------------------------------- */

static uint64_t random_state;

static unsigned pick(unsigned below)
{
    return (unsigned)((random_bits(&random_state) >> 11) % below);
}

/* --- When to turn ----------------------------------------------------------------------------- */

enum { ASKED_MAX = 64, STEPS = 60, LOG_SIZE = 1 << 18 };

enum habit {
    TURNS,    /* turns all the time, and has no descriptor */
    WATCHES,  /* turns only when the descriptor is readable */
    WAITS,    /* turns only when the next deadline has passed, and has no descriptor */
    COMPARES, /* turns all the time, and compares each turn with what it was told before */
    HABITS,
};

/* A simulated host and what is known about it. */
struct host {
    enum habit habit;
    struct orr_runtime *rt;
    lua_State *L;
    int fd;
    struct orr_future *asked[ASKED_MAX];
    unsigned askers;
    size_t logged;
    unsigned turns, idle;
    bool moved; /* the clock has moved since the last turn, which is a reason to turn */
    char log[LOG_SIZE];
};

static struct host *host_of(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "host");
    struct host *host = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return host;
}

static int log_note(lua_State *L)
{
    struct host *host = host_of(L);
    int length = snprintf(host->log + host->logged, LOG_SIZE - host->logged, "%s\n", luaL_checkstring(L, 1));
    host->logged += (size_t)length;
    assert_true(host->logged < LOG_SIZE);
    return 0;
}

static int ask_start(lua_State *L, struct orr_future *future, int first)
{
    struct host *host = host_of(L);
    (void)first;
    if (host->askers == ASKED_MAX)
        return -EAGAIN;
    host->asked[host->askers++] = orr_future_ref(future);
    return 0;
}

static int ask_push(lua_State *L, const struct orr_result *result)
{
    lua_pushinteger(L, result->error);
    return 1;
}

static void answer_future(void *data)
{
    orr_future_complete(data, (struct orr_result){ 0 });
    orr_future_unref(data);
}

/* Completes one of the futures that scripts wait for, on another thread or on this one. */
static void answer_one(struct host *host, bool elsewhere)
{
    if (!host->askers)
        return;
    struct orr_future *future = host->asked[--host->askers];
    if (elsewhere)
        harness_on_thread(answer_future, future);
    else
        answer_future(future);
}

static bool has_come(struct host *host)
{
    uint64_t deadline = orr_runtime_next_deadline(host->rt);
    return deadline != ORR_NEVER && deadline <= orr_runtime_now(host->rt);
}

/* A number that changes when a turn has done anything. */
static uint64_t deeds(struct host *host)
{
    struct orr_stats stats = harness_stats(host->rt, 0);
    return stats.polls + stats.timers_fired + stats.tasks_spawned + stats.timers_cancelled;
}

/* Whether this host has a reason to turn, as far as it knows. */
static bool is_told(struct host *host)
{
    return (host->fd >= 0 && harness_readable(host->fd)) || (host->habit != WATCHES && has_come(host));
}

static int turn_and_compare(struct host *host)
{
    bool told = is_told(host);
    uint64_t before = deeds(host);
    int more = orr_runtime_turn(host->rt, ORR_NEVER);
    bool idle = deeds(host) == before;
    if (!told)
        assert_true(idle);
    host->turns += told;
    host->idle += told && idle && !host->moved;
    host->moved = false;
    assert_int_equal(more, harness_readable(host->fd));
    assert_int_equal(more, has_come(host));
    return more;
}

/* Takes at most `most` turns; stops when the host has no reason to turn. */
static void take_turns(struct host *host, unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        if ((host->habit == WATCHES || host->habit == WAITS) && !is_told(host))
            return;
        int more = host->habit == COMPARES ? turn_and_compare(host) : orr_runtime_turn(host->rt, ORR_NEVER);
        assert_true(more >= 0);
        if (!more && most == UINT_MAX)
            return;
    }
}

static void move_clock(struct host *host, uint64_t ns)
{
    assert_int_equal(orr_runtime_advance(host->rt, ns), 0);
    host->moved = true;
}

static void emit_one(struct host *host)
{
    char name[8];
    snprintf(name, sizeof name, "e%u", 1 + pick(4));
    lua_pushinteger(host->L, pick(1000));
    assert_int_equal(orr_events_emit(host->L, name), 0);
}

static void poke(struct host *host)
{
    lua_getglobal(host->L, "game");
    lua_getfield(host->L, -1, "poke");
    int value = (int)pick(1000);
    lua_pushinteger(host->L, value);
    if (orr_lua_call(host->L, 1, 1, ORR_NEVER))
        fail_msg("%s", lua_tostring(host->L, -1));
    assert_int_equal(lua_tointeger(host->L, -1), value + 1);
    lua_pop(host->L, 2);
}

static void start_another(struct host *host)
{
    load(host->L, "local note, id = ... game.async.checkpoint() note('started ' .. id)");
    lua_pushcfunction(host->L, log_note);
    lua_pushinteger(host->L, pick(1000));
    assert_int_equal(orr_lua_start(host->L, 2, "another", NULL), 0);
}

static void interfere(struct host *host)
{
    switch (pick(7)) {
    case 0:
    case 1:
        emit_one(host);
        break;
    case 2:
        poke(host);
        break;
    case 3:
        start_another(host);
        break;
    case 4:
        answer_one(host, true);
        break;
    case 5:
        answer_one(host, false);
        break;
    default:
        break;
    }
}

static void open_host(struct host *host, enum habit habit, uint64_t seed)
{
    *host = (struct host){ .habit = habit, .fd = -1 };
    host->rt = host_runtime_with((struct orr_options){ .clock = ORR_CLOCK_MANUAL, .alloc = counting_alloc });
    assert_non_null(host->rt);
    host->L = open_trusted(host->rt, (struct orr_lua_options){ .mode = ORR_LUA_OFF });
    if (habit == WATCHES || habit == COMPARES)
        assert_true((host->fd = orr_runtime_fd(host->rt)) >= 0);
    lua_pushlightuserdata(host->L, host);
    lua_setfield(host->L, LUA_REGISTRYINDEX, "host");
    assert_int_equal(luaL_loadbuffer(host->L, host_loop_lua, host_loop_lua_size, "=host_loop"), LUA_OK);
    lua_getglobal(host->L, "game");
    lua_pushcfunction(host->L, log_note);
    assert_int_equal(orr_lua_push_async(host->L, ask_start, ask_push), 0);
    lua_pushinteger(host->L, (lua_Integer)seed);
    assert_int_equal(orr_lua_start(host->L, 4, "living", NULL), 0);
}

static void close_host(struct host *host)
{
    finish(host->rt, host->L);
    while (host->askers)
        orr_future_unref(host->asked[--host->askers]);
}

/* Runs a random program.  `late` is how often, in percent, the clock moves before all is done. */
static void live(struct host *host, enum habit habit, uint64_t seed, unsigned late)
{
    open_host(host, habit, seed);
    random_state = seed * 2 + 1;
    take_turns(host, 1);
    for (int step = 0; step < STEPS; step++) {
        for (unsigned i = pick(3); i; i--)
            interfere(host);
        take_turns(host, pick(4));
        interfere(host);
        if (pick(100) >= late)
            take_turns(host, UINT_MAX);
        move_clock(host, pick(2) ? pick(20) * MS : pick(5000000));
    }
    while (host->askers) {
        answer_one(host, pick(2));
        take_turns(host, UINT_MAX);
    }
    for (int i = 0; i < 200; i++) { /* until nothing is left to wait for */
        move_clock(host, 5 * MS);
        take_turns(host, UINT_MAX);
        while (host->askers)
            answer_one(host, false);
    }
    take_turns(host, UINT_MAX);
    close_host(host);
}

static void assert_same_log(const struct host *a, const struct host *b, uint64_t seed)
{
    size_t at = 0, line = 0;
    if (a->logged == b->logged && !memcmp(a->log, b->log, a->logged))
        return;
    for (; a->log[at] && a->log[at] == b->log[at]; at++)
        line = a->log[at] == '\n' ? at + 1 : line;
    fail_msg("seed %" PRIu64 ": '%.40s' and '%.40s' at %zu", seed, a->log + line, b->log + line, line);
}

static void host_that_turns_when_told_sees_the_same_as_one_that_turns_always(void **state)
{
    (void)state;
    static struct host hosts[HABITS];
    uint64_t seed = harness_seed(20261116);
    unsigned turns = 0, idle = 0, over = 0;
    for (int i = 0; i < WORK(100); i++, seed++) {
        for (enum habit habit = TURNS; habit < HABITS; habit++) {
            live(&hosts[habit], habit, seed, i % 3 * 30);
            assert_same_log(&hosts[habit], &hosts[TURNS], seed);
            assert_string_equal(sink_text, "");
            assert_int_equal(allocated_bytes, 0);
        }
        turns += hosts[COMPARES].turns;
        idle += hosts[COMPARES].idle;
        over += strstr(hosts[TURNS].log, "\nover ") != NULL;
    }
    print_message("%u turns, %u of them idle, %u programs over\n", turns, idle, over);
    assert_true(over > 0);
    assert_true(idle * 20 < turns); /* the wheel looks at far timers now and then */
}

static void host_that_sleeps_in_poll_is_woken_for_everything(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct pollfd watched = { .fd = orr_runtime_fd(rt), .events = POLLIN };
    uint64_t began = orr_runtime_now(rt);
    struct orr_task *task = start(L, "local a, loop = game.async, game.loop\n"
                                     "local e = a.event()\n"
                                     "a.sleep(3) note 'slept'\n"
                                     "loop.set_timeout(3, function() note 'timer' e:set() end) e:wait()\n"
                                     "local n, f = 0, a.future()\n"
                                     "local t t = loop.set_interval(1, function()\n"
                                     "  n = n + 1 if n == 3 then t:close() f:complete() end\n"
                                     "end)\n"
                                     "f:wait() note 'repeated'\n"
                                     "game.schedule(function() a.sleep(1) e:clear() note 'scheduled' e:set() end)\n"
                                     "e:clear() e:wait() note 'over'");
    for (bool done = false; !done;) {
        int ready = poll(&watched, 1, -1);
        assert_true(ready == 1 || (ready < 0 && errno == EINTR));
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
        done = orr_task_done(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
    }
    assert_true(orr_runtime_now(rt) - began >= 10 * MS);
    assert_string_equal(noted, "slept;timer;repeated;scheduled;over;");
    assert_int_equal(error_of(rt, task), 0);
    finish(rt, L);
}

/* --- Late, early, never ----------------------------------------------------------------------- */

static const char busy_script[] =
    "local a, loop, events = game.async, game.loop, game.events\n"
    "events:on('e', function(n) note('e' .. n) end)\n"
    "for i = 5, 1, -1 do a.run(function() a.sleep(i) note('s' .. i) end) end\n"
    "loop.set_timeout(2.5, function() note 't' end)\n"
    "local n, timer = 0\n"
    "timer = loop.set_interval(2, function()\n"
    "  n = n + 1 note('i' .. n) if n == 2 then timer:close() end\n"
    "end)\n"
    "for i = 1, 20 do game.schedule(function() if i % 10 == 0 then note('c' .. i) end end) end\n";

static struct orr_runtime *counted_runtime(enum orr_clock clock)
{
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .clock = clock, .alloc = counting_alloc });
    assert_non_null(rt);
    return rt;
}

static void emit_numbers(lua_State *L, int count)
{
    for (int i = 1; i <= count; i++) {
        lua_pushinteger(L, i);
        assert_int_equal(orr_events_emit(L, "e"), 0);
    }
}

static void host_that_turns_late_sees_everything_in_order(void **state)
{
    (void)state;
    struct orr_runtime *rt = counted_runtime(ORR_CLOCK_MANUAL);
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_OFF });
    load(L, busy_script);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    emit_numbers(L, 3);
    assert_int_equal(orr_runtime_advance(rt, 3600 * 1000 * MS), 0);
    harness_settle(rt);
    assert_string_equal(noted, "e1;e2;e3;s1;s2;i1;t;s3;s4;s5;c10;c20;");
    assert_int_equal(orr_runtime_advance(rt, 2 * MS), 0);
    harness_settle(rt);
    /* The missed repeats are skipped. */
    assert_string_equal(noted, "e1;e2;e3;s1;s2;i1;t;s3;s4;s5;c10;c20;i2;");
    finish_counting(rt, L);
}

static void turns_with_nothing_to_do_do_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = counted_runtime(ORR_CLOCK_MANUAL);
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .mode = ORR_LUA_OFF });
    load(L, busy_script);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
    harness_settle(rt);
    for (int step = 0; step < 10; step++) {
        uint64_t polls = harness_stats(rt, 0).polls;
        long long before = allocated_bytes;
        for (int i = 0; i < 1000; i++)
            assert_int_equal(orr_runtime_turn(rt, step % 2 ? ORR_NEVER : 0), 0);
        assert_int_equal(harness_stats(rt, 0).polls, polls);
        assert_int_equal(allocated_bytes, before);
        assert_int_equal(orr_runtime_advance(rt, MS / 2), 0);
        harness_settle(rt);
    }
    assert_string_equal(noted, "c10;c20;s1;s2;i1;t;s3;s4;i2;s5;");
    finish_counting(rt, L);
}

static void host_that_never_turns_can_close_everything(void **state)
{
    (void)state;
    unsigned fds = 0;
    for (int round = 0; round < 3; round++) {
        struct orr_runtime *rt = counted_runtime(round % 2 ? ORR_CLOCK_MONOTONIC : ORR_CLOCK_MANUAL);
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
        assert_true(orr_runtime_fd(rt) >= 0);
        load(L, busy_script); /* a task started outside of tasks runs at once, until it waits */
        assert_int_equal(orr_lua_call(L, 0, 0, 0), 0);
        for (int i = 0; i < 50; i++) {
            load(L, "note 'never'");
            assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
        }
        emit_numbers(L, 100);
        assert_string_equal(noted, "");
        finish(rt, L);
        assert_string_equal(noted, ""); /* a task that never ran does not begin now */
        assert_string_equal(sink_text, "");
        assert_int_equal(allocated_bytes, 0);
        if (round)
            assert_int_equal(harness_open_fds(), fds);
        fds = harness_open_fds();
    }
}

/* --- Two runtimes ----------------------------------------------------------------------------- */

static int turn_other(lua_State *L)
{
    struct orr_runtime *rt = lua_touserdata(L, lua_upvalueindex(1));
    lua_pushinteger(L, orr_runtime_turn(rt, MS));
    return 1;
}

static void give_turn(lua_State *L, struct orr_runtime *other)
{
    lua_pushlightuserdata(L, other);
    lua_pushcclosure(L, turn_other, 1);
    lua_setglobal(L, "turn_other");
}

static void two_runtimes_are_turned_by_one_host(void **state)
{
    (void)state;
    struct orr_options options = { .clock = ORR_CLOCK_MANUAL, .alloc = counting_alloc };
    struct orr_runtime *rts[2] = { host_runtime_with(options), host_runtime_with(options) };
    lua_State *states[2];
    static const char *const scripts[2] = {
        "for i = 1, 4 do game.async.sleep(2) note('a' .. i) end",
        "for i = 1, 3 do game.async.sleep(3) note('b' .. i) end",
    };
    for (int i = 0; i < 2; i++) {
        states[i] = open_trusted(rts[i], (struct orr_lua_options){ 0 });
        load(states[i], scripts[i]);
        assert_int_equal(orr_lua_start(states[i], 0, "script", NULL), 0);
    }
    for (int ms = 0; ms <= 10; ms++) {
        for (int i = 0; i < 2; i++) {
            harness_settle(rts[i]);
            assert_int_equal(orr_runtime_advance(rts[i], MS), 0);
        }
    }
    assert_string_equal(noted, "a1;b1;a2;a3;b2;a4;b3;");
    for (int i = 0; i < 2; i++)
        finish(rts[i], states[i]);
    assert_int_equal(allocated_bytes, 0);
}

static void runtime_is_turned_inside_a_task_of_another(void **state)
{
    (void)state;
    struct orr_runtime *outer = host_runtime(), *inner = host_runtime();
    lua_State *L = open_trusted(outer, (struct orr_lua_options){ 0 });
    lua_State *other = open_trusted(inner, (struct orr_lua_options){ 0 });
    give_turn(L, inner);
    give_turn(other, outer);
    struct orr_task *inside = start(other, "note(turn_other()) -- its turn is under way\n"
                                           "local n = 0\n"
                                           "for i = 1, 3 do game.async.checkpoint() note('b' .. i) end");
    struct orr_task *task = start(L, "local t = game.async.run(function()\n"
                                     "  for i = 1, 3 do game.async.checkpoint() note('a' .. i) end\n"
                                     "end)\n"
                                     "while turn_other() == 1 do end note 'turned' game.async.await(t) note 'over'");
    turn_until_done(outer, task, ORR_NEVER);
    char expected[64];
    snprintf(expected, sizeof expected, "%d;b1;b2;b3;turned;a1;a2;a3;over;", -EBUSY);
    assert_string_equal(noted, expected);
    assert_int_equal(error_of(outer, task), 0);
    assert_int_equal(error_of(inner, inside), 0);
    finish(inner, other);
    finish(outer, L);
}

static void slices_and_deadlines_hold_for_nested_runtimes(void **state)
{
    (void)state;
    struct orr_runtime *outer = host_runtime(), *inner = host_runtime();
    lua_State *L = open_trusted(outer, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 600 * MS } });
    lua_State *other = open_trusted(inner, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 200 * MS } });
    give_turn(L, inner);
    struct orr_task *inside = start(other, "note 'inside' while true do end");
    struct orr_task *task = start(L, "while turn_other() == 1 do end note 'outside' while true do turn_other() end");
    turn_until_done(outer, task, MS);
    assert_string_equal(noted, "inside;outside;");
    assert_int_equal(error_of(outer, task), -ETIME);
    assert_int_equal(error_of(inner, inside), -ETIME);
    assert_true(runtime_stat(other, "preemptions") > 0);
    assert_true(runtime_stat(L, "preemptions") > 0);
    finish(inner, other);
    finish(outer, L);
}

/* --- A small stack ---------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SMALL_STACK = 2 << 20, DEEP = 40 };
#else
enum { SMALL_STACK = 128 << 10, DEEP = 1000 };
#endif

struct small_life {
    int endless, deep, nested, strings;
    unsigned preempted;
};

static void live_on_a_small_stack(void *data)
{
    struct small_life *life = data;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = 30 * MS } });
    lua_pushinteger(L, DEEP);
    lua_setglobal(L, "DEEP");
    lua_register(L, "call_back", host_call_back);
    struct orr_task *task = start(L, "local function f() while true do end end\n"
                                     "for i = 1, 10 do local g = f f = function() pcall(g) end end\n"
                                     "coroutine.wrap(f)()");
    turn_until_done(rt, task, MS);
    life->endless = error_of(rt, task);
    life->preempted = (unsigned)runtime_stat(L, "preemptions");
    task = start(L, "local a = game.async\n"
                    "local function nest(n) if n > 0 then a.run(nest, n - 1) else note 'deep' a.sleep(1) end end\n"
                    "nest(DEEP)");
    turn_until_done(rt, task, ORR_NEVER);
    life->deep = error_of(rt, task);
    lua_pushinteger(L, 50);
    lua_setglobal(L, "DEEP");
    task = start(
        L, "local a = game.async\n" /* inside a call that cannot be suspended */
           "local function nest(n)\n"
           "  if n > 0 then\n"
           "    table.sort({ 1, 2 }, function() a.run(nest, n - 1) return false end)\n"
           "  else note 'nested' end\n"
           "end\n"
           "nest(DEEP) note(not pcall(a.scope, nest, 150))\n"
           "local function down(n)\n"
           "  if n > 0 then return call_back(function() local e, m = down(n - 1) if e ~= 0 then error(m) end end) end\n"
           "  note 'down' return 0\n"
           "end\n"
           "note(down(10)) note(down(200))");
    turn_until_done(rt, task, ORR_NEVER);
    life->nested = error_of(rt, task);
    task = start(L, "note(#(('x'):rep(1e5):gsub('x+', function(s) return s end)))\n"
                    "note((string.format('%99.50f', 1 / 3):find '0.333') ~= nil)\n"
                    "note(pcall(load, ('('):rep(1e4)))");
    turn_until_done(rt, task, ORR_NEVER);
    life->strings = error_of(rt, task);
    finish(rt, L);
}

static void thread_with_a_small_stack_is_enough(void **state)
{
    (void)state;
    struct small_life life = { 0 };
    harness_on_stack(SMALL_STACK, live_on_a_small_stack, &life);
    assert_int_equal(life.endless, -ETIME);
    assert_true(life.preempted > 0);
    assert_int_equal(life.deep, 0);
    assert_int_equal(life.nested, 0);
    assert_int_equal(life.strings, 0);
    char expected[128];
    snprintf(expected, sizeof expected, "deep;nested;true;down;0;%d;100000;true;true;", -EREMOTEIO);
    assert_string_equal(noted, expected);
}

/* --- Nested calls ----------------------------------------------------------------------------- */

enum { DEPTH = 10 };

/* descend(level) calls the next level.  One of the levels has the deadline, or raises the error. */
static struct {
    int depth, timed, failing;
    int answers[DEPTH + 1];
} descent;

static int descend(lua_State *L)
{
    int level = (int)luaL_checkinteger(L, 1);
    lua_getglobal(L, "visit");
    lua_pushinteger(L, level + 1);
    int error = orr_lua_call(L, 1, 1, level + 1 == descent.timed ? 10 * MS : ORR_NEVER);
    descent.answers[level + 1] = error;
    return 1; /* the result or the error */
}

static const char visit[] =
    "local depth, failing, endless = ...\n"
    "function visit(level)\n"
    "  local seen <close> = setmetatable({}, { __close = function() closes = closes + 1 end })\n"
    "  if level == failing then error({ level = level }) end\n"
    "  if level == depth then while endless do end return 'bottom' end\n"
    "  local result = descend(level)\n"
    "  collectgarbage() -- the coroutines of the calls above are in use\n"
    "  if type(result) == 'table' then result = 'caught ' .. result.level end\n"
    "  game.async.run(function() note(level) end)\n"
    "  return result\n"
    "end\n"
    "closes = 0";

/*
 * Calls down to the deepest level, from a task or from outside; returns what came back to the top.
 */
static const char *go_down(struct orr_runtime *rt, lua_State *L, bool in_task, bool endless)
{
    static char result[64];
    noted[0] = '\0';
    load(L, visit);
    lua_pushinteger(L, descent.depth);
    lua_pushinteger(L, descent.failing);
    lua_pushboolean(L, endless);
    assert_int_equal(lua_pcall(L, 3, 0, 0), LUA_OK);
    memset(descent.answers, 0, sizeof descent.answers);
    if (in_task) {
        struct orr_task *task = start(
            L, "result = descend(0) if type(result) == 'table' then result = 'caught ' .. result.level end");
        turn_until_done(rt, task, ORR_NEVER);
        assert_int_equal(error_of(rt, task), 0);
    } else {
        lua_pushcfunction(L, descend);
        lua_pushinteger(L, 0);
        assert_int_equal(lua_pcall(L, 1, 1, 0), LUA_OK);
        if (lua_istable(L, -1)) {
            lua_getfield(L, -1, "level");
            lua_pushfstring(L, "caught %d", (int)lua_tointeger(L, -1));
            lua_replace(L, -3);
            lua_pop(L, 1);
        }
        lua_setglobal(L, "result");
    }
    harness_settle(rt);
    lua_getglobal(L, "result");
    snprintf(result, sizeof result, "%s", luaL_tolstring(L, -1, NULL));
    lua_pop(L, 2);
    return result;
}

/* The levels from `last` up to the first have noted something, after their calls. */
static void assert_noted_from(int last)
{
    char expected[128] = "";
    for (int level = last; level >= 1; level--)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%d;", level);
    assert_string_equal(noted, expected);
}

static int global_integer(lua_State *L, const char *name)
{
    lua_getglobal(L, name);
    int value = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

static void error_at_any_depth_reaches_the_call_above_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "descend", descend);
    for (int i = 0; i <= 2 * DEPTH + 1; i++) {
        descent.depth = DEPTH;
        descent.timed = 0;
        descent.failing = i / 2; /* 0: no level fails */
        char expected[32];
        snprintf(expected, sizeof expected, descent.failing ? "caught %d" : "bottom", descent.failing);
        assert_string_equal(go_down(rt, L, i % 2, false), expected);
        for (int level = 1; level <= DEPTH; level++)
            assert_int_equal(descent.answers[level], level == descent.failing ? -EREMOTEIO : 0);
        assert_noted_from(descent.failing ? descent.failing - 1 : DEPTH - 1);
        assert_int_equal(global_integer(L, "closes"), descent.failing ? descent.failing : DEPTH);
        assert_int_equal(lua_gettop(L), 0);
    }
    assert_string_equal(sink_text, "");
    finish(rt, L);
}

static void deadline_at_any_depth_ends_what_is_below_and_nothing_above(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .deadline_ns = { [ORR_LUA_SCRIPT] = ORR_NEVER } });
    lua_register(L, "descend", descend);
    for (int i = 2; i <= 2 * DEPTH + 1; i++) {
        descent.depth = DEPTH;
        descent.timed = i / 2;
        descent.failing = 0;
        assert_string_equal(go_down(rt, L, i % 2, true), "Script execution timeout");
        for (int level = 1; level < descent.timed; level++)
            assert_int_equal(descent.answers[level], 0);
        for (int level = descent.timed; level <= DEPTH; level++)
            assert_int_equal(descent.answers[level], -ETIME);
        assert_noted_from(descent.timed - 1);
        assert_int_equal(lua_gettop(L), 0);
    }
    finish(rt, L);
}

/* --- Many isolates and runtimes --------------------------------------------------------------- */

static const char life[] = "local a, loop, events = game.async, game.loop, game.events\n"
                           "local q = a.queue(1)\n"
                           "for i = 1, 3 do a.run(function() a.sleep(i % 2) q:put(i) end) end\n"
                           "a.run(function() a.event():wait() end)\n"
                           "loop.new_timer():start(5, 5, function() a.sleep(3) end)\n"
                           "loop.set_timeout(0, function() note 't' end)\n"
                           "loop.set_timeout(1e6, function() end)\n"
                           "loop.new_timer():close()\n"
                           "events:on({ 'x', 'y*' }, function() a.sleep(1) end)\n"
                           "events:once('x', function() note 'x' end)\n"
                           "game.schedule(function() game.schedule(a.sleep, 5) end)\n"
                           "game.schedule(print):cancel()\n"
                           "pcall(a.await, a.run(function() a.sleep(1) error 'x' end))\n"
                           "local x <close> = setmetatable({}, { __close = function() end })\n"
                           "while true do q:get() end";

static void live_once(struct orr_runtime *rt, unsigned turns, enum orr_lua_profile profile)
{
    noted[0] = '\0';
    /*
     * No slice ends early, even on a busy machine: closing a script in the middle of its start is
     * another test.
     */
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .profile = profile, .slice_ns = 60000 * MS });
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ .name = "life", .text = life }), 0);
    assert_int_equal(orr_lua_start(L, 0, "life", NULL), 0);
    for (unsigned i = 0; i < turns; i++) {
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        if (i % 3 == 0) {
            lua_pushinteger(L, 1);
            assert_int_equal(orr_events_emit(L, i % 2 ? "x" : "yz"), 0);
        }
        assert_int_equal(orr_runtime_advance(rt, MS / 2), 0);
    }
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(harness_stats(rt, 0).tasks_live, 0);
    assert_int_equal(harness_stats(rt, 0).timers_pending, 0);
}

static void ten_thousand_isolates_leave_nothing_behind(void **state)
{
    (void)state;
    struct orr_runtime *rt = counted_runtime(ORR_CLOCK_MANUAL);
    assert_true(orr_runtime_fd(rt) >= 0);
    long long before = 0;
    unsigned fds = 0, threads = 0;
    for (unsigned i = 0; i < WORK(10000); i++) {
        live_once(rt, i % 8, i % 2 ? ORR_LUA_UNTRUSTED : ORR_LUA_TRUSTED);
        if (i < 16) { /* each kind has been there once */
            before = allocated_bytes;
            fds = harness_open_fds();
            threads = harness_threads();
        }
        assert_int_equal(allocated_bytes, before);
    }
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(harness_threads(), threads);
    assert_string_equal(sink_text, "");
    finish_counting(rt, NULL);
}

static void thousand_runtimes_leave_nothing_behind(void **state)
{
    (void)state;
    unsigned fds = 0, threads = 0;
    for (unsigned i = 0; i < WORK(1000); i++) {
        struct orr_runtime *rt = counted_runtime(ORR_CLOCK_MANUAL);
        if (i % 3)
            assert_true(orr_runtime_fd(rt) >= 0);
        live_once(rt, i % 8, ORR_LUA_TRUSTED);
        finish_counting(rt, NULL);
        if (i < 3) {
            fds = harness_open_fds();
            threads = harness_threads();
        }
    }
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(harness_threads(), threads);
}

static const struct CMUnitTest host_loop[] = {
    cmocka_unit_test(host_that_turns_when_told_sees_the_same_as_one_that_turns_always),
    cmocka_unit_test(host_that_sleeps_in_poll_is_woken_for_everything),
    cmocka_unit_test(host_that_turns_late_sees_everything_in_order),
    cmocka_unit_test(turns_with_nothing_to_do_do_nothing),
    cmocka_unit_test(host_that_never_turns_can_close_everything),
    cmocka_unit_test(two_runtimes_are_turned_by_one_host),
    cmocka_unit_test(runtime_is_turned_inside_a_task_of_another),
    cmocka_unit_test(slices_and_deadlines_hold_for_nested_runtimes),
    cmocka_unit_test(thread_with_a_small_stack_is_enough),
    cmocka_unit_test(error_at_any_depth_reaches_the_call_above_it),
    cmocka_unit_test(deadline_at_any_depth_ends_what_is_below_and_nothing_above),
    cmocka_unit_test(ten_thousand_isolates_leave_nothing_behind),
    cmocka_unit_test(thousand_runtimes_leave_nothing_behind),
};

HARNESS_MAIN(host_loop)
