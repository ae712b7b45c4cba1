/*
 * Functions of the host that take time, by values: orr_lua_set_async() and orr_reply_*().  The host
 * replies at once, later, from other threads, or too late; calls are cancelled and closed
 * meanwhile; memory runs out at every point.
 */
#include "failing.h"
#include "lua_host.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocations that are still served while it is not negative. */
static _Atomic int served = -1;

static bool may_allocate(void)
{
    if (served < 0)
        return true;
    if (!served)
        return false;
    served--;
    return true;
}

/* --- A host that keeps its replies ------------------------------------------------------------ */

enum { KEPT = 16 };

struct desk {
    struct orr_reply *replies[KEPT]; /* of the calls, in their order; NULL when cancelled */
    _Atomic unsigned started, cancelled, dropped, jobs_dropped;
    bool reply_when_cancelled;
    int refuse_with;
};

static void drop_desk(void *data)
{
    ((struct desk *)data)->dropped++;
}

static void drop_job(void *what)
{
    ((struct desk *)what)->jobs_dropped++;
}

static int keep(void *data, struct orr_call *call, struct orr_reply *reply)
{
    struct desk *desk = data;
    if (desk->refuse_with)
        return orr_call_fail(call, desk->refuse_with, "not now");
    assert_true(orr_reply_wanted(reply));
    assert_null(orr_reply_attached(reply));
    assert_int_equal(orr_reply_attach(reply, desk, drop_job), 0);
    assert_int_equal(orr_reply_attach(reply, desk, drop_job), -EALREADY);
    assert_ptr_equal(orr_reply_attached(reply), desk);
    desk->replies[desk->started++ % KEPT] = reply;
    return 0;
}

static void cancel(void *data, struct orr_reply *reply)
{
    struct desk *desk = data;
    desk->cancelled++;
    assert_ptr_equal(orr_reply_attached(reply), desk);
    assert_false(orr_reply_wanted(reply));
    if (desk->reply_when_cancelled)
        assert_int_equal(orr_reply_fail(reply, -ECANCELED, "stopped"), -ECANCELED);
}

static struct orr_async keeping(struct desk *desk)
{
    return (struct orr_async){ .start = keep, .data = desk, .cancel = cancel, .drop = drop_desk };
}

static lua_State *open_with(struct orr_runtime *rt, struct desk *desk)
{
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    struct orr_async function = keeping(desk);
    assert_int_equal(orr_lua_set_async(L, "host.ask", &function), 0);
    return L;
}

static void turn(struct orr_runtime *rt)
{
    for (int i = 0; i < 10; i++)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
}

static void start_alone(lua_State *L, const char *code)
{
    load(L, code);
    assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
}

/* --- Replies ---------------------------------------------------------------------------------- */

static void call_waits_for_the_reply_and_returns_its_values(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    start_alone(L, "local n, t, s, none = host.ask('x') note(n) note(t[1]) note(t.key) note(s) note(none)");
    start_alone(L, "note('meanwhile')");
    turn(rt);
    assert_string_equal(noted, "meanwhile;");
    assert_int_equal(desk.started, 1);

    struct orr_value item = orr_value_boolean(true);
    struct orr_pair pair = { orr_value_string("key"), orr_value_number(2.5) };
    struct orr_value values[] = {
        orr_value_integer(7),
        { .type = ORR_TABLE, .table = { .items = &item, .length = 1, .pairs = &pair, .count = 1 } },
        orr_value_string("text"),
    };
    assert_int_equal(orr_reply_send(desk.replies[0], values, 3), 0);
    memset(values, 0xff, sizeof values); /* they were copied */
    turn(rt);
    assert_string_equal(noted, "meanwhile;7;true;2.5;text;nil;");
    assert_int_equal(desk.cancelled, 0);
    assert_int_equal(desk.jobs_dropped, 1);
    assert_int_equal(desk.dropped, 0);
    finish_counting(rt, L);
    assert_int_equal(desk.dropped, 1);
}

static int echo(void *data, struct orr_call *call, struct orr_reply *reply)
{
    (void)data;
    assert_int_equal(orr_reply_send(reply, call->arguments, call->count), 0);
    return 0;
}

static void reply_may_come_before_start_returns(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    assert_int_equal(orr_lua_set_async(L, "echo", &(struct orr_async){ .start = echo }), 0);
    start_alone(L, "note(select('#', echo())) note(echo('a'))\n"
                   "note((select(12, echo(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))))");
    turn(rt);
    assert_string_equal(noted, "0;a;12;");
    finish_counting(rt, L);
}

static void failed_reply_raises_its_message_with_the_path(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    start_alone(L, "note(select(2, pcall(host.ask))) note(select(2, pcall(host.ask)))");
    turn(rt);
    assert_int_equal(orr_reply_fail(desk.replies[0], -EIO, "the disk is %s", "full"), 0);
    turn(rt);
    char longer[400];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(orr_reply_fail(desk.replies[1], -EIO, "%s", longer), 0);
    turn(rt);
    assert_non_null(strstr(noted, "host.ask: the disk is full;"));
    assert_non_null(strstr(noted, "xxx...;")); /* not cut without a word */
    assert_int_equal(desk.jobs_dropped, 2);
    finish_counting(rt, L);
}

static void call_that_the_host_refuses_raises_its_message(void **state)
{
    (void)state;
    struct desk desk = { .refuse_with = -EINVAL };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    start_alone(L, "note(select(2, pcall(host.ask)))");
    turn(rt);
    assert_non_null(strstr(noted, "host.ask: not now;"));
    assert_int_equal(desk.cancelled, 0);
    finish_counting(rt, L);
    assert_int_equal(desk.dropped, 1);
}

static int reply_and_refuse(void *data, struct orr_call *call, struct orr_reply *reply)
{
    (void)data;
    (void)call;
    assert_int_equal(orr_reply_send(reply, NULL, 0), 0);
    return -EBUSY;
}

static void host_that_replies_and_refuses_gets_its_refusal(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    assert_int_equal(orr_lua_set_async(L, "odd", &(struct orr_async){ .start = reply_and_refuse }), 0);
    start_alone(L, "note(select(2, pcall(odd)))");
    turn(rt);
    assert_non_null(strstr(noted, "odd: Device or resource busy;"));
    finish_counting(rt, L);
}

static void values_that_lua_cannot_have_fail_the_call(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    struct orr_value deep[ORR_VALUE_DEPTH + 2];
    for (int i = 0; i < ORR_VALUE_DEPTH + 2; i++)
        deep[i] = (struct orr_value){ .type = ORR_TABLE,
                                      .table = { .items = i ? &deep[i - 1] : NULL, .length = i != 0 } };
    struct orr_pair no_key = { .value = orr_value_integer(1) };
    struct orr_value fine_then_bad[] = { orr_value_string("kept for a while"), { .type = ORR_OTHER } };
    const struct {
        struct orr_value value;
        int error;
    } cases[] = {
        { { .type = ORR_FUNCTION }, -EINVAL },
        { { .type = ORR_OTHER }, -EINVAL },
        { { .type = (enum orr_value_type)99 }, -EINVAL },
        { { .type = ORR_STRING, .string = { NULL, 3 } }, -EINVAL },
        { { .type = ORR_TABLE, .table = { .pairs = &no_key, .count = 1 } }, -EINVAL },
        { { .type = ORR_TABLE, .table = { .length = 2 } }, -EINVAL },
        { { .type = ORR_TABLE, .table = { .items = fine_then_bad, .length = 2 } }, -EINVAL },
        { deep[ORR_VALUE_DEPTH + 1], -ELOOP },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        noted[0] = '\0';
        desk.started = 0;
        start_alone(L, "note(select(2, pcall(host.ask)))");
        turn(rt);
        assert_int_equal(orr_reply_send(desk.replies[0], &cases[i].value, 1), cases[i].error);
        turn(rt);
        assert_non_null(strstr(noted, "host.ask: it replied with a value that cannot be converted to Lua: "));
    }
    start_alone(L, "note(select(2, pcall(host.ask)))");
    turn(rt);
    assert_int_equal(orr_reply_send(desk.replies[1], NULL, 1), -EINVAL);
    turn(rt);
    finish_counting(rt, L);
}

static void deepest_value_is_sent(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    struct orr_value deep[ORR_VALUE_DEPTH];
    for (int i = 0; i < ORR_VALUE_DEPTH; i++)
        deep[i] = (struct orr_value){ .type = ORR_TABLE,
                                      .table = { .items = i ? &deep[i - 1] : NULL, .length = i != 0 } };
    start_alone(L, "local t, n = host.ask(), 0 while t do t, n = t[1], n + 1 end note(n)");
    turn(rt);
    assert_int_equal(orr_reply_send(desk.replies[0], &deep[ORR_VALUE_DEPTH - 1], 1), 0);
    turn(rt);
    assert_string_equal(noted, "64;");
    finish_counting(rt, L);
}

/* --- Cancellation ----------------------------------------------------------------------------- */

static void cancelled_call_tells_the_host_once(void **state)
{
    (void)state;
    for (int at_once = 0; at_once < 2; at_once++) {
        struct desk desk = { .reply_when_cancelled = at_once };
        struct orr_runtime *rt = host_counting_runtime();
        lua_State *L = open_with(rt, &desk);
        start_alone(L, "local t = game.async.run('asks', function() host.ask() end)\n"
                       "game.async.sleep(0) t:close() note(t:status())");
        turn(rt);
        assert_int_equal(desk.started, 1);
        assert_int_equal(desk.cancelled, 1);
        assert_int_equal(desk.jobs_dropped, at_once);
        if (!at_once) {
            assert_false(orr_reply_wanted(desk.replies[0]));
            struct orr_value late = orr_value_string("too late");
            assert_int_equal(orr_reply_send(desk.replies[0], &late, 1), -ECANCELED);
        }
        assert_int_equal(desk.jobs_dropped, 1);
        turn(rt);
        assert_int_equal(desk.cancelled, 1);
        finish_counting(rt, L);
        assert_int_equal(desk.dropped, 1);
    }
}

static void time_limit_around_a_call_cancels_it(void **state)
{
    (void)state;
    struct desk desk = { .reply_when_cancelled = true };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    struct orr_task *task = start(L, "note(select(2, pcall(game.async.with_timeout, 5, host.ask)))");
    turn_until_done(rt, task, ORR_NEVER);
    expect_success(rt, task);
    assert_int_equal(desk.cancelled, 1);
    assert_non_null(strstr(noted, "timeout"));
    finish_counting(rt, L);
}

static void failed_sibling_cancels_the_call(void **state)
{
    (void)state;
    struct desk desk = { .reply_when_cancelled = true };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    start_alone(L, "game.async.run('asks', function() host.ask() end)\n"
                   "game.async.run('fails', function() error 'on purpose' end)");
    turn(rt);
    assert_int_equal(desk.cancelled, 1);
    finish_counting(rt, L);
}

static void closed_isolate_cancels_calls_and_late_replies_are_harmless(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    start_alone(L, "for i = 1, 3 do game.async.run('asks', function() host.ask() end) end");
    turn(rt);
    assert_int_equal(desk.started, 3);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(desk.cancelled, 3);
    assert_int_equal(desk.dropped, 0); /* replies are open */
    struct orr_value value = orr_value_string("hello?");
    assert_int_equal(orr_reply_send(desk.replies[0], &value, 1), -ECANCELED);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(orr_reply_send(desk.replies[1], &value, 1), -ECANCELED);
    assert_int_equal(desk.dropped, 0);
    assert_int_equal(orr_reply_fail(desk.replies[2], -EIO, "gone"), -ECANCELED);
    assert_int_equal(desk.dropped, 1);
    assert_int_equal(desk.jobs_dropped, 3);
    assert_int_equal(allocated_bytes, 0);
}

static void unloaded_script_cancels_its_calls(void **state)
{
    (void)state;
    struct desk desk = { .reply_when_cancelled = true };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    struct orr_script *script;
    struct orr_script_options options = { .source = { .name = "asks.lua", .text = "host.ask()" }, .shared = L };
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    turn(rt);
    assert_int_equal(desk.started, 1);
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(desk.cancelled, 1);
    finish_counting(rt, L);
}

static void task_dropped_by_force_cancels_its_call(void **state)
{
    (void)state;
    struct desk desk = { .reply_when_cancelled = true };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    struct orr_task *task = start(L, "host.ask()");
    turn(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_task_drop(orr_task_waker(task)), 0);
    orr_task_unref(task);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(desk.cancelled, 1);
    finish_counting(rt, L);
}

static void freed_runtime_cancels_calls_of_a_state_of_the_host(void **state)
{
    (void)state;
    struct desk desk = { .reply_when_cancelled = true };
    struct orr_runtime *rt = host_runtime();
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    assert_int_equal(orr_lua_open(rt, L, &(struct orr_lua_options){ .mount = "game" }), 0);
    struct orr_async function = keeping(&desk);
    assert_int_equal(orr_lua_set_async(L, "ask", &function), 0);
    start_alone(L, "ask()");
    turn(rt);
    assert_int_equal(desk.started, 1);
    lua_close(L);
    assert_int_equal(desk.cancelled, 1);
    assert_int_equal(desk.dropped, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

/* --- Misuse and bounds ------------------------------------------------------------------------ */

static void misuse_is_refused(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    struct orr_async function = keeping(&desk), empty = { .data = &desk, .drop = drop_desk };
    lua_State *bare = luaL_newstate();
    assert_int_equal(orr_lua_set_async(NULL, "f", &function), -EINVAL);
    assert_int_equal(orr_lua_set_async(bare, "f", &function), -EINVAL);
    assert_int_equal(orr_lua_set_async(L, NULL, &function), -EINVAL);
    assert_int_equal(orr_lua_set_async(L, "a..b", &function), -EINVAL);
    assert_int_equal(orr_lua_set_async(L, "f", NULL), -EINVAL);
    assert_int_equal(orr_lua_set_async(L, "f", &empty), -EINVAL);
    lua_pushinteger(L, 1);
    lua_setglobal(L, "number");
    assert_int_equal(orr_lua_set_async(L, "number.f", &function), -ENOTDIR);
    assert_int_equal(orr_reply_send(NULL, NULL, 0), -EINVAL);
    assert_int_equal(orr_reply_fail(NULL, -EIO, "none"), -EINVAL);
    assert_int_equal(orr_reply_attach(NULL, &desk, NULL), -EINVAL);
    assert_null(orr_reply_attached(NULL));
    assert_false(orr_reply_wanted(NULL));
    lua_close(bare);
    finish_counting(rt, L);
    assert_int_equal(desk.dropped, 0); /* nothing was kept */
}

static void call_outside_a_task_says_what_to_do(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    struct orr_value why;
    size_t room = 1;
    assert_int_equal(orr_lua_call_values(L, "host.ask", NULL, 0, &why, &room, 0), -EREMOTEIO);
    assert_string_equal(why.string.bytes, "host.ask: not inside a task; start one with async.run(fn)");
    orr_values_free(&why, 1);
    assert_int_equal(desk.started, 0);
    finish_counting(rt, L);
}

static void calls_that_the_host_has_not_replied_to_are_bounded(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    struct orr_async function = keeping(&desk);
    function.max_calls = 3;
    assert_int_equal(orr_lua_set_async(L, "ask", &function), 0);
    start_alone(L, "for i = 1, 100 do\n" /* a script that starts work and lets it go */
                   "  local t = game.async.run('asks', function()\n"
                   "    local ok, why = pcall(ask) if i == 4 and not ok then note(why) end end)\n"
                   "  game.async.sleep(0) t:close()\n"
                   "end note('end')");
    turn(rt);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(desk.started, 3);
    assert_non_null(strstr(noted, "ask: the host has yet to reply to 3 earlier calls;end;"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(orr_reply_send(desk.replies[i], NULL, 0), -ECANCELED);
    noted[0] = '\0';
    start_alone(L, "ask() note('again')");
    turn(rt);
    assert_int_equal(orr_reply_send(desk.replies[3], NULL, 0), 0);
    turn(rt);
    assert_string_equal(noted, "again;");
    finish_counting(rt, L);
}

static void replaced_function_is_dropped_when_nobody_has_it(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_with(rt, &desk);
    start_alone(L, "note(host.ask())");
    turn(rt);
    start_alone(L, "host.ask = nil");
    turn(rt);
    lua_gc(L, LUA_GCCOLLECT);
    assert_int_equal(desk.dropped, 0); /* a call waits */
    struct orr_value value = orr_value_integer(5);
    assert_int_equal(orr_reply_send(desk.replies[0], &value, 1), 0);
    turn(rt);
    assert_string_equal(noted, "5;");
    lua_gc(L, LUA_GCCOLLECT);
    lua_gc(L, LUA_GCCOLLECT);
    assert_int_equal(desk.dropped, 1);
    finish_counting(rt, L);
    assert_int_equal(desk.dropped, 1);
}

static void virtual_clock_waits_for_the_reply(void **state)
{
    (void)state;
    struct desk desk = { 0 };
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
    lua_State *L = open_with(rt, &desk);
    start_alone(L,
                "game.async.run('clock', function() game.async.sleep(1000) note('tick') end) host.ask() note('reply')");
    turn(rt);
    assert_string_equal(noted, "");
    assert_int_equal(orr_reply_send(desk.replies[0], NULL, 0), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_string_equal(noted, "reply;tick;");
    finish(rt, L);
}

/* --- Other threads ---------------------------------------------------------------------------- */

struct job {
    struct orr_reply *reply;
    int64_t number;
};

static _Atomic int jobs_alive;

static void free_job(void *what)
{
    jobs_alive--;
    free(what);
}

/* Looks at the job until the end, and replies if somebody still wants it, or all the same. */
static void *work(void *data)
{
    struct job *job = data;
    for (int i = 0; i < 100 && orr_reply_wanted(job->reply); i++)
        sched_yield();
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)job->number);
    struct orr_value value = orr_value_string(text);
    if (job->number % 5 == 0)
        orr_reply_fail(job->reply, -EIO, "%s", text);
    else
        orr_reply_send(job->reply, &value, 1);
    return NULL; /* the job may be gone */
}

static int start_thread(void *data, struct orr_call *call, struct orr_reply *reply)
{
    (void)data;
    struct job *job = malloc(sizeof *job);
    *job = (struct job){ .reply = reply, .number = call->arguments[0].integer };
    jobs_alive++;
    orr_reply_attach(reply, job, free_job);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, work, job);
    return error ? -error : -pthread_detach(thread);
}

/* Reads the job, which must be there although its thread may reply at this moment. */
static void stop_thread(void *data, struct orr_reply *reply)
{
    const struct job *job = orr_reply_attached(reply);
    *(_Atomic int64_t *)data += job->number;
}

static void note_drop(void *data)
{
    *(_Atomic int64_t *)data = -1;
}

static void wait_for_jobs(void)
{
    while (jobs_alive)
        sched_yield();
}

/* Calls whose replies come from other threads, some of them cancelled at any moment. */
static void threads_reply_while_calls_are_cancelled(void **state)
{
    (void)state;
    char code[600];
    _Atomic int64_t cancelled = 0;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
    struct orr_async function = {
        .start = start_thread, .data = (void *)&cancelled, .cancel = stop_thread, .drop = note_drop
    };
    assert_int_equal(orr_lua_set_async(L, "work", &function), 0);
    snprintf(code, sizeof code,
             "local a, right, wrong, closed = game.async, 0, 0, 0\n"
             "for round = 1, %d do\n"
             "  local tasks = {}\n"
             "  for i = 1, 8 do tasks[i] = a.run('t', function()\n"
             "    local ok, answer = pcall(work, i)\n"
             "    if ok then assert(answer == tostring(i)) right = right + 1\n"
             "    elseif answer:find('work: ' .. i, 1, true) then wrong = wrong + 1\n"
             "    else closed = closed + 1 error(answer, 0) end end) end\n"
             "  a.sleep(0) tasks[round %% 8 + 1]:close()\n"
             "  for i = 1, 8 do pcall(a.await, tasks[i]) end\n"
             "end\n"
             "note(right > 0) note(right + wrong + closed)",
             WORK(60));
    struct orr_task *task = start(L, code);
    assert_int_equal(orr_runtime_run(rt), 0);
    expect_success(rt, task);
    char expected[32];
    snprintf(expected, sizeof expected, "true;%d;", WORK(60) * 8);
    assert_string_equal(noted, expected);
    assert_int_equal(orr_lua_close(L), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    wait_for_jobs();
    while (cancelled != -1) /* the last thread may still be in the destructor */
        sched_yield();
    while (allocated_bytes)
        sched_yield();
}

static void isolate_is_closed_while_threads_reply(void **state)
{
    (void)state;
    for (int round = 0; round < WORK(100); round++) {
        _Atomic int64_t dropped = 0;
        struct orr_runtime *rt = host_counting_runtime();
        lua_State *L = open_isolate(rt, (struct orr_lua_options){ 0 });
        struct orr_async function = { .start = start_thread, .data = (void *)&dropped, .drop = note_drop };
        assert_int_equal(orr_lua_set_async(L, "work", &function), 0);
        start_alone(L, "for i = 1, 8 do game.async.run('t', function() work(i) end) end");
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        finish(rt, L);
        wait_for_jobs();
        while (allocated_bytes)
            sched_yield();
    }
}

/* --- Without memory --------------------------------------------------------------------------- */

/* True if there was enough memory. */
static bool run_with_memory_for(int points)
{
    struct desk desk = { 0 };
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = failing_alloc });
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_async function = keeping(&desk);
    struct orr_value items[] = { orr_value_string("one"), orr_value_string("two") };
    struct orr_pair pair = { orr_value_string("a key"), orr_value_string("its value") };
    struct orr_value value = { .type = ORR_TABLE,
                               .table = { .items = items, .length = 2, .pairs = &pair, .count = 1 } };
    lua_gc(L, LUA_GCCOLLECT);
    lua_gc(L, LUA_GCSTOP);
    served = points;
    int error = orr_lua_set_async(L, "host.ask", &function);
    assert_true(error == 0 || error == -ENOMEM);
    bool set = !error;
    if (!error) {
        served = -1; /* starting a script is not what is tested here */
        load(L, "ok, why = pcall(host.ask, { 'an argument' }, 'of some length', 3, 4, 5, 6, 7, 8, 9, 10)");
        assert_int_equal(orr_lua_start(L, 0, "script", NULL), 0);
        served = points;
        turn(rt);
    }
    if (!error && desk.started) {
        error = orr_reply_send(desk.replies[0], &value, 1);
        assert_true(error == 0 || error == -ENOMEM);
        turn(rt);
    }
    bool enough = served > 0;
    served = -1;
    turn(rt);
    lua_getglobal(L, "ok");
    if (enough)
        assert_true(set && !error && lua_toboolean(L, -1));
    lua_pop(L, 1);
    finish(rt, L);
    assert_int_equal(allocated_bytes, 0);
    assert_int_equal(desk.dropped, set); /* not by a call that failed */
    assert_int_equal(desk.jobs_dropped, desk.started);
    return enough;
}

static void memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing(void **state)
{
    (void)state;
    int points = 0;
    while (!run_with_memory_for(points))
        points++;
    print_message("%d points of failure\n", points);
    assert_true(points > 15);
}

static const struct CMUnitTest async_functions[] = {
    cmocka_unit_test(call_waits_for_the_reply_and_returns_its_values),
    cmocka_unit_test(reply_may_come_before_start_returns),
    cmocka_unit_test(failed_reply_raises_its_message_with_the_path),
    cmocka_unit_test(call_that_the_host_refuses_raises_its_message),
    cmocka_unit_test(host_that_replies_and_refuses_gets_its_refusal),
    cmocka_unit_test(values_that_lua_cannot_have_fail_the_call),
    cmocka_unit_test(deepest_value_is_sent),
    cmocka_unit_test(cancelled_call_tells_the_host_once),
    cmocka_unit_test(time_limit_around_a_call_cancels_it),
    cmocka_unit_test(failed_sibling_cancels_the_call),
    cmocka_unit_test(closed_isolate_cancels_calls_and_late_replies_are_harmless),
    cmocka_unit_test(unloaded_script_cancels_its_calls),
    cmocka_unit_test(task_dropped_by_force_cancels_its_call),
    cmocka_unit_test(freed_runtime_cancels_calls_of_a_state_of_the_host),
    cmocka_unit_test(misuse_is_refused),
    cmocka_unit_test(call_outside_a_task_says_what_to_do),
    cmocka_unit_test(calls_that_the_host_has_not_replied_to_are_bounded),
    cmocka_unit_test(replaced_function_is_dropped_when_nobody_has_it),
    cmocka_unit_test(virtual_clock_waits_for_the_reply),
    cmocka_unit_test(threads_reply_while_calls_are_cancelled),
    cmocka_unit_test(isolate_is_closed_while_threads_reply),
    cmocka_unit_test(memory_that_runs_out_at_any_point_is_an_error_and_loses_nothing),
};

HARNESS_MAIN(async_functions)
