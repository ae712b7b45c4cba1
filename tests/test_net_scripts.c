/*
 * Sockets of scripts, as a host sees them: what is open ends with its script and with its isolate,
 * counts on their account, and has limits.  Memory runs out at every point.
 */
#include "failing.h"
#include "lua_host.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Allocations that are still served while it is not negative; a server's threads count, too. */
static _Atomic int served = -1;

static bool may_allocate(void)
{
    int left = served;
    while (left > 0 && !atomic_compare_exchange_weak(&served, &left, left - 1))
        continue;
    return left;
}

static int descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void turn(struct orr_runtime *rt, int times)
{
    for (int i = 0; i < times; i++)
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
}

/*
 * The kernel may need a while to end what io_uring does with a descriptor that is closed, and a
 * lookup that was given up has files open until it ends.  `rt` may be NULL.
 */
static void expect_descriptors(struct orr_runtime *rt, int expected)
{
    for (int i = 0; i < 2000 && descriptors() != expected; i++) {
        turn(rt, rt ? 1 : 0);
        poll(NULL, 0, 1);
    }
    assert_int_equal(descriptors(), expected);
}

/* Scripts name sockets by it: the test runs on both reactors at the same time. */
__attribute__((constructor)) static void tell_pid(void)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)getpid());
    setenv("ORR_TEST_PID", text, 1);
}

/* A task in each kind of wait.  The script notes how many wait. */
static const char every_wait[] =
    "local async, net = game.async, game.net\n"
    "local waits = 0\n"
    "local function wait(fn, ...)\n"
    "  waits = waits + 1\n"
    "  async.run({ detached = true }, fn, ...)\n"
    "end\n"
    "local function connected()\n"
    "  local listener <close> = assert(net.listen '127.0.0.1:0')\n"
    "  local client = assert(net.connect(listener:address()))\n"
    "  return client, assert(listener:accept())\n"
    "end\n"
    "local text = string.rep('x', 8 << 20)\n"
    "for _, method in ipairs { 'read', 'read_line', 'read_all' } do\n"
    "  local a, b = connected()\n"
    "  b:write 'some'\n"
    "  if method == 'read' then a:read() end\n"
    "  wait(a[method], a)\n"
    "  wait(b.write, b, text)\n"
    "  kept = { kept, a, b }\n"
    "end\n"
    "local a, b = connected()\n"
    "local c, d = connected()\n"
    "wait(net.copy, a, c)\n"
    "wait(b.write, b, text)\n"
    "wait(a.write, a, text)\n"
    "local listener = assert(net.listen '127.0.0.1:0')\n"
    "wait(listener.accept, listener)\n"
    "local full = assert(net.listen('unix:@orrery-waits-' .. os.getenv 'ORR_TEST_PID', { backlog = 1 }))\n"
    "for i = 1, 8 do wait(net.connect, full:address()) end\n"
    "local socket = assert(net.udp '127.0.0.1:0')\n"
    "wait(socket.receive, socket)\n"
    "local reader, writer = net.pipe()\n"
    "wait(writer.write, writer, text)\n"
    "local one, two = net.pair()\n"
    "wait(one.read_exactly, one, 100)\n"
    "wait(net.lookup, 'localhost:80')\n"
    "kept = { kept, a, b, c, d, listener, full, socket, reader, writer, one, two }\n"
    "note(waits)\n";

/* Turns until a task is done, and sleeps while it waits for the kernel. */
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

/* Everything that a script can do with sockets, without a second process. */
static const char tour[] =
    "local net = game.net\n"
    "local listener <close> = assert(net.listen '127.0.0.1:0')\n"
    "local client <close> = assert(net.connect(listener:address(), { nodelay = true }))\n"
    "local peer <close> = assert(listener:accept())\n"
    "assert(client:write('line\\n', 'exact', 5, 'until;rest'))\n"
    "assert(peer:read_line()) assert(peer:read_exactly(6)) assert(peer:read_until ';') assert(peer:read())\n"
    "client:shutdown()\n"
    "assert(peer:read_all())\n"
    "local socket <close> = assert(net.udp '127.0.0.1:0')\n"
    "assert(socket:send('x', socket:address())) assert(socket:receive())\n"
    "local reader, writer = assert(net.pipe())\n"
    "local _ <close> = reader local _ <close> = writer\n"
    "assert(writer:write 'x') writer:close()\n"
    "assert(net.copy(reader, peer))\n"
    "note 'done'\n";

/* A server that echoes what one client says. */
static const char served_here[] = "local net = game.net\n"
                                  "local server <close> = assert(net.serve('127.0.0.1:0', function(stream)\n"
                                  "  for line in stream:lines() do stream:write(line, '\\n') end\n"
                                  "end, { max_connections = 3 }))\n"
                                  "local client <close> = assert(net.connect(server:address()))\n"
                                  "assert(client:write 'hello\\n') assert(client:read_line() == 'hello')\n"
                                  "client:close() server:stop(0) note 'done'\n";

static const char served_on_threads[] =
    "local net = game.net\n"
    "local server <close> = assert(net.serve('127.0.0.1:0', [[\n"
    "  return function(stream) for line in stream:lines() do stream:write(line, '\\n') end end\n"
    "]], { threads = 2 }))\n"
    "local client <close> = assert(net.connect(server:address()))\n"
    "assert(client:write 'hello\\n') assert(client:read_line() == 'hello')\n"
    "client:close() server:stop(0) note 'done'\n";

/* Opens what a process keeps open once it is used. */
static void warm_up(const char *script)
{
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L, script);
    finish_counting(rt, L);
    noted[0] = '\0';
}

static struct orr_script *load_script(struct orr_runtime *rt, lua_State *shared, const char *text)
{
    struct orr_script *script;
    struct orr_script_options options = {
        .source = { .name = "=script", .text = text },
        .shared = shared,
        .lua = { .mount = "game", .profile = ORR_LUA_TRUSTED },
    };
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    return script;
}

static void unloading_a_script_in_every_wait_closes_everything(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    /* Opens what the worker keeps open. */
    struct orr_script *warm = load_script(rt, L, every_wait);
    while (!strstr(noted, "22;"))
        turn(rt, 1);
    assert_int_equal(orr_script_unload(warm), 0);
    turn(rt, 2);
    int before = descriptors();
    for (int turns = 1; turns < 40; turns += 3) {
        struct orr_script *script = load_script(rt, L, every_wait);
        turn(rt, turns);
        assert_int_equal(orr_script_unload(script), 0);
        expect_descriptors(rt, before);
    }
    assert_non_null(strstr(noted, "22;"));
    finish_counting(rt, L);
}

static void closing_an_isolate_in_every_wait_closes_everything(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *warm = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, warm, every_wait); /* opens what the worker keeps open */
    assert_int_equal(orr_lua_close(warm), 0);
    turn(rt, 2);
    int before = descriptors();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, every_wait);
    await_task(rt, task);
    orr_task_unref(task);
    assert_true(descriptors() > before + 10);
    assert_int_equal(orr_lua_close(L), 0);
    expect_descriptors(rt, before);
    finish_counting(rt, NULL);
}

static void a_state_of_the_host_may_be_closed_with_open_sockets(void **state)
{
    (void)state;
    warm_up(tour);
    for (int as_isolate = 0; as_isolate < 2; as_isolate++) {
        int before = descriptors();
        struct orr_runtime *rt = host_counting_runtime();
        lua_State *L = luaL_newstate();
        luaL_openlibs(L);
        struct orr_lua_options options = { .mount = "game", .profile = ORR_LUA_TRUSTED };
        assert_int_equal(orr_lua_open(rt, L, &options), 0);
        lua_register(L, "note", host_note);
        struct orr_task *task = start(L, every_wait);
        await_task(rt, task);
        orr_task_unref(task);
        if (as_isolate)
            assert_int_equal(orr_lua_close(L), 0);
        lua_close(L);
        finish_counting(rt, NULL);
        expect_descriptors(NULL, before);
    }
}

static const char server[] = "local net, async = game.net, game.async\n"
                             "local listener = assert(net.listen('unix:@orrery-echo-' .. os.getenv 'ORR_TEST_PID'))\n"
                             "async.run({ detached = true }, function()\n"
                             "  while true do\n"
                             "    local stream = assert(listener:accept())\n"
                             "    async.run(function() net.copy(stream, stream) stream:close() end)\n"
                             "  end\n"
                             "end)\n";

static const char client[] =
    "for i = 1, 20 do\n"
    "  local stream <close> = assert(game.net.connect('unix:@orrery-echo-' .. os.getenv 'ORR_TEST_PID'))\n"
    "  stream:write('hello ', i, '\\n')\n"
    "  assert(stream:read_line() == 'hello ' .. i)\n"
    "end\n";

static void an_isolate_that_opens_all_it_may_does_not_disturb_another(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *quiet = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, quiet, server);
    lua_State *greedy = open_trusted(rt, (struct orr_lua_options){ .max_sockets = 5 });
    run(rt, greedy,
        "local net, open = game.net, {}\n"
        "local function refused(value, err)\n"
        "  assert(value == nil and err.code == 'EDQUOT', err and err.code)\n"
        "  assert(err.message:find 'max_sockets')\n"
        "end\n"
        "local listener = assert(net.listen '127.0.0.1:0')\n"
        "open[1] = assert(net.connect(listener:address()))\n"
        "open[2] = assert(listener:accept())\n"
        "open[3] = assert(net.udp '127.0.0.1:0')\n"
        "refused(net.pair())\n"
        "refused(net.pipe())\n"
        "open[4] = assert(net.connect(listener:address()))\n"
        "refused(net.connect(listener:address()))\n"
        "refused(net.listen '127.0.0.1:0')\n"
        "refused(net.udp '127.0.0.1:0')\n"
        "refused(listener:accept())\n"
        "open[1]:close()\n"
        "assert(listener:accept()):close()\n"
        "local many = 0\n"
        "game.async.scope(function()\n"
        "  for i = 1, 10 do game.async.run(function()\n"
        "    local s, err = net.connect('unix:@orrery-echo-' .. os.getenv 'ORR_TEST_PID')\n"
        "    if s then many = many + 1 open[#open + 1] = s else refused(s, err) end\n"
        "  end) end\n"
        "end)\n"
        "assert(many == 1, many)\n"
        "held = open\n");
    lua_State *other = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, other, client);
    assert_int_equal(orr_lua_close(greedy), 0);
    assert_int_equal(orr_lua_close(other), 0);
    finish_counting(rt, quiet);
}

static void connections_under_way_count_and_give_their_places_back(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .max_sockets = 8 });
    run(rt, L,
        "local async, net = game.async, game.net\n"
        "local full = assert(net.listen('unix:@orrery-full-' .. os.getenv 'ORR_TEST_PID', { backlog = 1 }))\n"
        "local open, refused, tasks = {}, 0, {}\n"
        "for i = 1, 20 do\n"
        "  tasks[i] = async.run(function()\n"
        "    local stream, err = net.connect(full:address())\n"
        "    open[#open + 1] = stream\n"
        "    if err then assert(err.code == 'EDQUOT') refused = refused + 1 end\n"
        "  end)\n"
        "end\n"
        "assert(refused == 20 - 7, refused)\n"
        "assert(#open < 7, 'some wait')\n"
        "for _, task in ipairs(tasks) do task:close() task:pwait() end\n"
        "for _ = 1, 7 - #open do open[#open + 1] = assert(net.udp '127.0.0.1:0') end\n"
        "assert(select(2, net.udp '127.0.0.1:0').code == 'EDQUOT')\n");
    finish_counting(rt, L);
}

static void bytes_that_wait_for_a_reader_are_on_the_account(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L,
        "local async, net = game.async, game.net\n"
        "local reader, writer = net.pair()\n"
        "local text = string.rep('x', 100000)\n"
        "local function used() collectgarbage() collectgarbage() return game.runtime.stats().memory_used end\n"
        "reader:read_exactly(0)\n"
        "local before = used()\n"
        "local task = async.run(function() reader:read_exactly(100001) end)\n"
        "writer:write(text)\n"
        "repeat async.sleep(1) until used() - before >= 100000\n"
        "task:close() task:pwait()\n"
        "assert(used() - before >= 100000, 'what a cancelled read leaves')\n"
        "assert(reader:read_exactly(100000) == text)\n"
        "assert(used() - before < 50000, 'an idle stream has no buffer')\n");
    finish_counting(rt, L);
}

static void a_script_that_reads_too_much_gets_an_error_and_the_host_goes_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    lua_State *quiet = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, quiet, server);
    lua_State *greedy = open_trusted(rt, (struct orr_lua_options){ .memory_limit = 4 << 20 });
    run(rt, greedy,
        "local async, net = game.async, game.net\n"
        "for _, method in ipairs { 'read_all', 'read_line', 'read_exactly' } do\n"
        "  local reader, writer = net.pair()\n"
        "  local feeder = async.run(function()\n"
        "    local chunk = string.rep('x', 65536)\n"
        "    while writer:write(chunk) do end\n"
        "  end)\n"
        "  local ok, value, err = pcall(reader[method], reader, 64 << 20)\n"
        "  local text = tostring(ok and err.code or value)\n"
        "  assert(text == 'ENOMEM', text)\n"
        "  reader:close()\n"
        "  writer:close()\n"
        "  feeder:pwait()\n"
        "end\n"
        "collectgarbage()\n"
        "local text = string.rep('y', 1 << 20) -- there is memory again\n"
        "local reader, writer = net.pair()\n"
        "writer:write 'sound' assert(reader:read() == 'sound')\n"
        "note(#text)\n");
    assert_string_equal(noted, "1048576;");
    run(rt, quiet, client);
    assert_int_equal(orr_lua_close(greedy), 0);
    finish_counting(rt, quiet);
}

/* Turns until the task is done, or nothing has happened for a moment. */
static void turn_until_stuck(struct orr_runtime *rt, struct orr_task *task)
{
    struct pollfd ready = { .fd = orr_runtime_fd(rt), .events = POLLIN };
    while (!orr_task_done(task)) {
        int more = orr_runtime_turn(rt, ORR_NEVER);
        if (more < 0 || (!more && !poll(&ready, 1, 20)))
            return;
    }
}

/*
 * Runs a script again and again, until memory lasts.  Each time, memory runs out a little later,
 * and comes back when the script is done or stuck.
 */
static void run_without_memory(const char *script)
{
    enum { STEP = 7 * 50 / WORK(50) }; /* after the first points, which are all tried */
    warm_up(script);
    int before = descriptors();
    bool whole = false;
    for (int allowed = 0; !whole; allowed += allowed < 40 ? 1 : STEP) {
        allocated_bytes = 0;
        struct orr_runtime *rt = host_runtime_with((struct orr_options){ .alloc = failing_alloc });
        assert_non_null(rt);
        lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
        load(L, script);
        struct orr_task *task = NULL;
        served = allowed;
        int error = orr_lua_start(L, 0, "script", &task);
        if (!error)
            turn_until_stuck(rt, task);
        whole = served > 0 && !error && orr_task_done(task);
        served = -1;
        if (!error)
            await_task(rt, task);
        if (task)
            orr_task_unref(task);
        finish_counting(rt, L);
        assert_int_equal(descriptors(), before);
    }
    assert_non_null(strstr(noted, "done"));
}

static void without_memory_at_any_point_nothing_is_left_open(void **state)
{
    (void)state;
    run_without_memory(tour);
}

static void a_server_without_memory_at_any_point_leaves_nothing_open(void **state)
{
    (void)state;
    run_without_memory(served_here);
}

static void a_server_on_threads_without_memory_at_any_point_leaves_nothing_open(void **state)
{
    (void)state;
    run_without_memory(served_on_threads);
}

static void an_untrusted_isolate_has_no_net(void **state)
{
    (void)state;
    struct orr_runtime *rt = host_counting_runtime();
    static const char *const modules[] = { "async", "net", NULL };
    lua_State *L;
    assert_int_equal(orr_lua_new(rt, &(struct orr_lua_options){ .mount = "game", .modules = modules }, &L), -EINVAL);
    assert_non_null(strstr(harness_log(), "net"));
    assert_non_null(strstr(harness_log(), "only with the option grants"));
    L = open_isolate(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, "note(game.net == nil) note(game.stdin == nil) note(game.stdout == nil)"
                                     "note(pcall(require, 'orrery.net'))");
    await_task(rt, task);
    expect_success(rt, task);
    assert_non_null(strstr(noted, "true;true;true;false;"));
    finish_counting(rt, L);
}

static const struct CMUnitTest net_scripts[] = {
    cmocka_unit_test(unloading_a_script_in_every_wait_closes_everything),
    cmocka_unit_test(closing_an_isolate_in_every_wait_closes_everything),
    cmocka_unit_test(a_state_of_the_host_may_be_closed_with_open_sockets),
    cmocka_unit_test(an_isolate_that_opens_all_it_may_does_not_disturb_another),
    cmocka_unit_test(connections_under_way_count_and_give_their_places_back),
    cmocka_unit_test(bytes_that_wait_for_a_reader_are_on_the_account),
    cmocka_unit_test(a_script_that_reads_too_much_gets_an_error_and_the_host_goes_on),
    cmocka_unit_test(without_memory_at_any_point_nothing_is_left_open),
    cmocka_unit_test(a_server_without_memory_at_any_point_leaves_nothing_open),
    cmocka_unit_test(a_server_on_threads_without_memory_at_any_point_leaves_nothing_open),
    cmocka_unit_test(an_untrusted_isolate_has_no_net),
};

HARNESS_MAIN(net_scripts)
