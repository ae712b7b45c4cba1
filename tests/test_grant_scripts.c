/*
 * Grants, as a host and an untrusted script see them: tests/lua/grants.lua has the attempts of the
 * script, and here are the options, the questions to the host, and simulated networks.
 */
#include "failing.h"
#include "lua_host.h"

#include "io/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Allocations that are still served while it is not negative. */
static _Atomic int served = -1;

static bool may_allocate(void)
{
    int left = served;
    while (left > 0 && !atomic_compare_exchange_weak(&served, &left, left - 1))
        continue;
    return left;
}

/* --- The resolver ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *addresses[5];
} names[] = {
    { "inside.test", { "127.0.0.1" } }, { "INSIDE.test.", { "127.0.0.1" } },
    { "localhost", { "127.0.0.1" } },   { "rebound.test", { "127.0.0.2", "0.0.0.2", "10.0.0.1", "169.254.169.254" } },
    { "a.deep.test", { "10.0.0.1" } },
};

static unsigned leaked; /* lookups of names that no rule has */

static void release_found(struct addrinfo *found)
{
    for (struct addrinfo *next; found; found = next) {
        next = found->ai_next;
        free(found->ai_addr);
        free(found);
    }
}

static struct addrinfo *new_found(const char *address, const char *service)
{
    struct addrinfo *one = calloc(1, sizeof *one);
    struct sockaddr_in *in = calloc(1, sizeof *in);
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)strtoul(service, NULL, 10));
    inet_pton(AF_INET, address, &in->sin_addr);
    one->ai_family = AF_INET;
    one->ai_addr = (struct sockaddr *)in;
    one->ai_addrlen = sizeof *in;
    return one;
}

static int look_up(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    (void)hints;
    for (size_t i = 0; i < LENGTH(names); i++) {
        if (strcmp(host, names[i].name) != 0)
            continue;
        for (const char *const *address = names[i].addresses; *address; address++) {
            *found = new_found(*address, service);
            found = &(*found)->ai_next;
        }
        return 0;
    }
    leaked++;
    return EAI_NONAME;
}

/* --- The fixture ------------------------------------------------------------------------------ */

/* Turns until a task is done, and sleeps while it waits for the kernel or other threads. */
static void await_task(struct orr_runtime *rt, struct orr_task *task)
{
    struct pollfd bell = { .fd = orr_runtime_fd(rt), .events = POLLIN };
    for (bool done = false; !done;) {
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
        done = orr_task_done(task);
        assert_int_equal(orr_runtime_leave(rt), 0);
        if (!done)
            poll(&bell, 1, 1);
    }
}

/* Runs a script to its end, which must be a success. */
static void run(struct orr_runtime *rt, lua_State *L, const char *code)
{
    struct orr_task *task = start(L, code);
    await_task(rt, task);
    expect_success(rt, task);
}

/* --- The attempts ----------------------------------------------------------------------------- */

static void a_script_reaches_what_it_was_granted_and_nothing_else(void **state)
{
    (void)state;
    static const char *const connect[] = {
        "127.0.0.1", "unix:@orrery-granted", "inside.test", "rebound.test", "*.deep.test", "localhost", NULL
    };
    static const char *const listen[] = { "127.0.0.1", "unix:@orrery-granted", NULL };
    static const char *const of_jobs[] = { "async", "net", NULL };
    resolve_replace(look_up, release_found);
    leaked = 0;
    struct orr_runtime *rt = host_counting_runtime();
    struct orr_grants grants = { .connect = connect, .listen = listen };
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .grants = &grants, .worker_modules = of_jobs });
    struct orr_task *task;
    assert_int_equal(orr_lua_load(L, &(struct orr_lua_source){ .path = TESTS "/lua/grants.lua" }), 0);
    assert_int_equal(orr_lua_start(L, 0, "grants", &task), 0);
    await_task(rt, task);
    expect_success(rt, task);
    assert_true(atoi(noted) >= 50);
    assert_int_equal(leaked, 0);
    finish_counting(rt, L);
    resolve_replace(NULL, NULL);
}

/* --- Options ---------------------------------------------------------------------------------- */

static void bad_rules_are_refused_and_named(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *named;
        bool listen;
    } rows[] = {
        { "10.0.0.1/8", "grants.connect has \"10.0.0.1/8\": expected an IPv4", false },
        { "host:99999", "grants.connect has \"host:99999\": expected a port", false },
        { "[fe80::1%lo]", "expected an IPv6", false },
        { "unix:relative", "expected a path", false },
        { "http://example.com", "grants.connect has", false },
        { "example.com", "grants.listen has \"example.com\": expected *", true },
        { "", "grants.listen has \"\"", true },
    };
    struct orr_runtime *rt = host_counting_runtime();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        const char *const list[] = { "127.0.0.1", rows[i].rule, NULL };
        struct orr_grants grants = { .connect = rows[i].listen ? NULL : list, .listen = rows[i].listen ? list : NULL };
        lua_State *L = NULL;
        assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .grants = &grants }, &L), -EINVAL);
        if (!strstr(harness_log(), rows[i].named))
            fail_msg("\"%s\": %s", rows[i].rule, harness_log());
    }
    finish_counting(rt, NULL);
}

static void a_trusted_isolate_has_everything_and_takes_no_grants(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    struct orr_grants grants = { 0 };
    lua_State *L;
    struct orr_lua_options options = { .grants = &grants, .profile = ORR_LUA_TRUSTED };
    assert_int_equal(orr_lua_new(rt, &options, &L), -EINVAL);
    assert_non_null(strstr(harness_log(), "a trusted one has everything"));
    L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L, "local g = game.grants() assert(g.everything and not g.asks and #g.connect == 0)");
    finish_counting(rt, L);
}

static void scripts_see_their_grants_which_are_copies(void **state)
{
    (void)state;
    char rule[] = "10.0.0.0/8:80", *const list[] = { rule, NULL };
    struct orr_runtime *rt = host_counting_runtime();
    struct orr_grants grants = { .connect = (const char *const *)list };
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .grants = &grants });
    memset(rule, 'x', sizeof rule - 1);
    run(rt, L,
        "local g = game.grants()\n"
        "assert(not g.everything and not g.asks and #g.connect == 1 and #g.listen == 0)\n"
        "assert(g.connect[1] == '10.0.0.0/8:80', g.connect[1])\n"
        "assert(game.net and not game.stdin)\n");
    finish_counting(rt, L);
}

static void a_function_of_the_host_can_pass_the_gate_on(void **state)
{
    (void)state;
    static const char *const some[] = { "127.0.0.1", NULL };
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *untrusted = open_isolate(rt,
                                        (struct orr_lua_options){ .grants = &(struct orr_grants){ .listen = some } });
    lua_State *trusted = open_trusted(rt, (struct orr_lua_options){ 0 });
    const struct orr_gate *gate = NULL, *none = NULL;
    struct orr_address address;
    struct orr_listener *listener;
    assert_int_equal(orr_lua_gate(untrusted, &gate), 0);
    assert_int_equal(orr_lua_gate(trusted, &none), 0);
    assert_int_equal(orr_lua_gate(NULL, &none), -EINVAL);
    assert_int_equal(orr_lua_gate(trusted, NULL), -EINVAL);
    assert_non_null(gate);
    assert_null(none);
    struct orr_listen_options options = { .socket.open.gate = gate };
    assert_int_equal(orr_address_parse("127.0.0.2:0", 11, &address), 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_listen(&address, &options, &listener), -EACCES);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_lua_close(trusted), 0);
    finish_counting(rt, untrusted);
}

static void without_grants_there_is_no_net(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    static const char *const none[] = { NULL };
    struct orr_grants grants = { .connect = none };
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .grants = &grants });
    run(rt, L, "assert(game.net == nil and not game.grants().everything)");
    finish_counting(rt, L);
}

static void jobs_have_no_net_unless_the_host_says_so(void **state)
{
    (void)state;
    static const char *const some[] = { "127.0.0.1", NULL };
    struct orr_runtime *rt = host_counting_runtime();
    struct orr_grants grants = { .connect = some };
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .grants = &grants });
    run(rt, L, "assert(game.worker.new('return require(\"orrery\").net == nil'):call())");
    finish_counting(rt, L);
}

/* --- Questions to the host -------------------------------------------------------------------- */

static struct {
    int verdict;          /* what the host answers at once */
    unsigned count;       /* how often it was asked */
    enum orr_grant grant; /* the last question */
    char rule[300];
    struct orr_future *answer; /* with -EAGAIN */
} host;

static int host_decides(void *data, const struct orr_grant_request *request)
{
    (void)data;
    host.count++;
    host.grant = request->grant;
    snprintf(host.rule, sizeof host.rule, "%s", request->rule);
    if (host.verdict == -EAGAIN)
        host.answer = orr_future_ref(request->answer);
    return host.verdict;
}

static lua_State *open_asking(struct orr_runtime *rt, int verdict)
{
    memset(&host, 0, sizeof host);
    host.verdict = verdict;
    return open_isolate(rt, (struct orr_lua_options){ .grants = &(struct orr_grants){ .ask = host_decides } });
}

static void the_host_is_asked_once_and_remembered(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_asking(rt, 1);
    run(rt, L,
        "local net = game.net\n"
        "assert(game.grants().asks)\n"
        "for i = 1, 3 do\n"
        "  local listener <close> = assert(net.listen '127.0.0.1:0')\n"
        "end\n"
        "local socket <close> = assert(net.udp '127.0.0.1:0')\n"
        "for i = 1, 2 do socket:send('x', '127.0.0.1:9') socket:send('x', '0.0.0.0:9') end\n"
        "assert(game.grants().listen[1] == '127.0.0.1:0')\n"
        "assert(game.grants().connect[1] == '127.0.0.1:9')\n");
    assert_int_equal(host.count, 2);
    assert_int_equal(host.grant, ORR_GRANT_CONNECT);
    assert_string_equal(host.rule, "127.0.0.1:9");
    finish_counting(rt, L);
}

static void what_the_host_refuses_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_asking(rt, 0);
    run(rt, L,
        "local net = game.net\n"
        "local function refused(result, err) assert(not result and err.code == 'EACCES') end\n"
        "refused(net.connect '127.0.0.1:9')\n"
        "refused(net.listen '127.0.0.1:0')\n"
        "refused(net.udp '127.0.0.1:0')\n"
        "refused(net.udp{ peer = '127.0.0.1:9' })\n"
        "refused(net.lookup 'unknown.test:80')\n");
    assert_int_equal(host.count, 5);
    assert_string_equal(host.rule, "unknown.test:80");
    finish_counting(rt, L);
}

/* Turns until the host was asked so often. */
static void await_question(struct orr_runtime *rt, unsigned count)
{
    while (host.count < count)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
}

static void answer(void *error)
{
    orr_future_complete(host.answer, (struct orr_result){ .error = *(int *)error });
    orr_future_unref(host.answer);
    host.answer = NULL;
}

static void a_task_waits_for_an_answer_from_another_thread(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        enum orr_grant grant;
    } rows[] = {
        { "return game.net.listen '127.0.0.1:0'", ORR_GRANT_LISTEN },
        { "return game.net.udp '127.0.0.1:0'", ORR_GRANT_LISTEN },
        { "return game.net.udp{ peer = '127.0.0.1:9' }", ORR_GRANT_CONNECT },
        { "return game.net.lookup 'inside.test:80'", ORR_GRANT_CONNECT },
    };
    resolve_replace(look_up, release_found);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        for (int error = 0; error >= -EPERM; error -= EPERM) {
            struct orr_runtime *rt = host_counting_runtime();
            lua_State *L = open_asking(rt, -EAGAIN);
            char code[256];
            snprintf(code, sizeof code,
                     "local result, err = (function() %s end)()\n"
                     "note(result and 'ok' or err.code)\n"
                     "if result and result.close then result:close() end",
                     rows[i].code);
            struct orr_task *task = start(L, code);
            await_question(rt, 1);
            assert_string_equal(noted, "");
            assert_int_equal(host.grant, rows[i].grant);
            harness_on_thread(answer, &error);
            await_task(rt, task);
            expect_success(rt, task);
            assert_string_equal(noted, error ? "EACCES;" : "ok;");
            finish_counting(rt, L);
        }
    }
    resolve_replace(NULL, NULL);
}

static void a_connection_waits_for_its_answers(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_asking(rt, -EAGAIN);
    int granted = 0;
    struct orr_task *task = start(L, "local listener <close> = assert(game.net.listen '127.0.0.1:0')\n"
                                     "local client <close> = assert(game.net.connect(listener:address(),\n"
                                     "  { local_address = '127.0.0.2:0' }))\n"
                                     "assert(listener:accept()):close()\n");
    for (unsigned i = 1; i <= 3; i++) {
        await_question(rt, i);
        answer(&granted);
    }
    await_task(rt, task);
    expect_success(rt, task);
    finish_counting(rt, L);
}

static void a_task_that_is_cancelled_does_not_wait_for_the_answer(void **state)
{
    (void)state;
    static const char *const asks[] = {
        "game.net.connect '127.0.0.1:9'",
        "game.net.listen '127.0.0.1:0'",
        "game.net.udp '127.0.0.1:0'",
        "game.net.lookup 'inside.test:80'",
    };
    for (size_t i = 0; i < LENGTH(asks); i++) {
        struct orr_runtime *rt = host_counting_runtime();
        lua_State *L = open_asking(rt, -EAGAIN);
        char code[256];
        snprintf(code, sizeof code,
                 "local task = game.async.run({ detached = true }, function() %s note 'never' end)\n"
                 "task:close()\n"
                 "local ok, err = task:pwait()\n"
                 "note(tostring(ok)) note(tostring(err))",
                 asks[i]);
        run(rt, L, code);
        assert_string_equal(noted, "false;closed;");
        assert_int_equal(host.count, 1);
        int granted = 0;
        answer(&granted);
        run(rt, L, "assert(#game.grants().connect == 0 and #game.grants().listen == 0)");
        finish_counting(rt, L);
    }
}

static void an_answer_may_come_after_the_isolate(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_asking(rt, -EAGAIN);
    struct orr_task *task = start(L, "game.net.connect '127.0.0.1:9'");
    await_question(rt, 1);
    orr_task_unref(task);
    assert_int_equal(orr_lua_close(L), 0);
    int granted = 0;
    answer(&granted);
    finish_counting(rt, NULL);
}

/* --- Without memory --------------------------------------------------------------------------- */

static struct orr_runtime *failing_runtime(void)
{
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = failing_alloc });
    assert_non_null(rt);
    return rt;
}

static void grants_without_memory_leave_nothing(void **state)
{
    (void)state;
    static const char *const rules[] = { "127.0.0.1", "example.com:443", "unix:/run/x.sock", NULL };
    struct orr_grants grants = { .connect = rules, .listen = (const char *const[]){ "*", NULL } };
    for (int allowed = 0; allowed < 40; allowed++) {
        struct orr_runtime *rt = failing_runtime();
        lua_State *L = NULL;
        served = allowed;
        assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .grants = &grants }, &L), -ENOMEM);
        served = -1;
        finish_counting(rt, NULL);
    }
}

static void questions_without_memory_at_any_point_leave_nothing(void **state)
{
    (void)state;
    enum { STEP = 7 * 50 / WORK(50) }; /* after the first points, which are all tried */
    bool whole = false;
    for (int allowed = 0; !whole; allowed += allowed < 40 ? 1 : STEP) {
        struct orr_runtime *rt = failing_runtime();
        lua_State *L = open_asking(rt, 1);
        load(L, "local net = game.net\n"
                "local socket <close> = assert(net.udp '127.0.0.1:0')\n"
                "local listener <close> = assert(net.listen '127.0.0.1:0')\n"
                "local client <close> = assert(net.connect(listener:address()))\n"
                "socket:send('x', '127.0.0.1:9')\n"
                "assert(#game.grants().connect == 2)\n"
                "note 'done'");
        struct orr_task *task = NULL;
        served = allowed;
        int error = orr_lua_start(L, 0, "script", &task);
        if (!error)
            harness_settle(rt);
        whole = served > 0 && !error && orr_task_done(task);
        served = -1;
        if (!error)
            await_task(rt, task);
        orr_task_unref(task);
        finish_counting(rt, L);
    }
    assert_non_null(strstr(noted, "done"));
}

/* --- Simulated networks ----------------------------------------------------------------------- */

static void grants_hold_on_a_virtual_clock(void **state)
{
    (void)state;
    static const char *const connect[] = { "127.0.0.1:80", "inside.test", NULL }, *const listen[] = { "*:80", NULL };
    struct orr_runtime *rt = host_runtime_with((struct orr_options){ .clock = ORR_CLOCK_VIRTUAL });
    struct orr_grants grants = { .connect = connect, .listen = listen };
    lua_State *L = open_isolate(rt, (struct orr_lua_options){ .grants = &grants });
    run(rt, L,
        "local net = game.net\n"
        "local function refused(result, err) assert(not result and err.code == 'EACCES', tostring(err)) end\n"
        "local listener <close> = assert(net.listen '0.0.0.0:80')\n"
        "local client <close> = assert(net.connect '127.0.0.1:80')\n"
        "refused(net.connect '127.0.0.1:81')\n"
        "refused(net.connect '10.77.0.2:80')\n"
        "refused(net.listen '0.0.0.0:81')\n"
        "refused(net.udp '127.0.0.1:0')\n"
        "refused(net.lookup 'other.test:80')\n"
        "local _, err = net.lookup 'inside.test:80'\n"
        "assert(err.code == 'ENOENT', tostring(err))\n"
        "refused(net.connect('127.0.0.2:80', { real = true }))\n"
        "refused(net.listen('127.0.0.1:0', { real = true }))\n");
    finish(rt, L);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_script_reaches_what_it_was_granted_and_nothing_else),
    cmocka_unit_test(bad_rules_are_refused_and_named),
    cmocka_unit_test(a_trusted_isolate_has_everything_and_takes_no_grants),
    cmocka_unit_test(scripts_see_their_grants_which_are_copies),
    cmocka_unit_test(a_function_of_the_host_can_pass_the_gate_on),
    cmocka_unit_test(without_grants_there_is_no_net),
    cmocka_unit_test(jobs_have_no_net_unless_the_host_says_so),
    cmocka_unit_test(the_host_is_asked_once_and_remembered),
    cmocka_unit_test(what_the_host_refuses_is_refused),
    cmocka_unit_test(a_task_waits_for_an_answer_from_another_thread),
    cmocka_unit_test(a_connection_waits_for_its_answers),
    cmocka_unit_test(a_task_that_is_cancelled_does_not_wait_for_the_answer),
    cmocka_unit_test(an_answer_may_come_after_the_isolate),
    cmocka_unit_test(grants_without_memory_leave_nothing),
    cmocka_unit_test(questions_without_memory_at_any_point_leave_nothing),
    cmocka_unit_test(grants_hold_on_a_virtual_clock),
};

HARNESS_MAIN(tests)
