/*
 * net.serve as a host sees it: reports of failing handlers, a lack of descriptors, scripts that are
 * unloaded, memory.  tests/lua/serve.lua has what scripts see.
 */
#include "lua_host.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- The fixture ------------------------------------------------------------------------------ */

static char failed_task[256]; /* the name of the last task whose failure reached the sink */
static char failed_text[2048];
static unsigned failures;

static void keep_failure(void *data, struct orr_task *task)
{
    const struct orr_result *result = orr_task_result(task);
    (void)data;
    failures++;
    snprintf(failed_task, sizeof failed_task, "%s", orr_task_name(task) ? orr_task_name(task) : "");
    snprintf(failed_text, sizeof failed_text, "%s", result->message ? result->message : "");
}

static unsigned complaints; /* log lines about connections that cannot be accepted */

static void count_complaints(void *data, enum orr_log level, const char *message)
{
    (void)data;
    (void)level;
    complaints += strstr(message, "no connection can be accepted") != NULL;
}

static struct orr_runtime *open_runtime(void)
{
    failures = complaints = 0;
    failed_task[0] = failed_text[0] = '\0';
    allocated_bytes = 0;
    struct orr_runtime *rt = host_runtime_with(
        (struct orr_options){ .alloc = counting_alloc, .sink = keep_failure, .log = count_complaints });
    assert_non_null(rt);
    return rt;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *open = opendir("/proc/self/fd");
    assert_non_null(open);
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

static void run(struct orr_runtime *rt, lua_State *L, const char *code)
{
    struct orr_task *task = start(L, code);
    assert_int_equal(orr_runtime_run(rt), 0);
    expect_success(rt, task);
}

#define SERVER \
    "local net, async = game.net, game.async\n" \
    "local function handle(stream)\n" \
    "  for line in stream:lines() do\n" \
    "    if line == 'fail' then error('oh no') end\n" \
    "    stream:write(line, '\\n')\n" \
    "  end\n" \
    "end\n"

/* --- Failures --------------------------------------------------------------------------------- */

static void a_failing_handler_is_reported_and_closes_only_its_connection(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L,
        SERVER "local server <close> = net.serve('127.0.0.1:0', handle)\n"
               "local one <close> = net.connect(server:address())\n"
               "local two <close> = net.connect(server:address())\n"
               "peer = 'net.serve ' .. server:address() .. ': ' .. one:address()\n"
               "one:write('fail\\n')\n"
               "note(one:read_line())\n"
               "two:write('hello\\n')\n"
               "note(two:read_line())\n");
    assert_string_equal(noted, "nil;hello;");
    assert_int_equal(failures, 1);
    lua_getglobal(L, "peer");
    assert_string_equal(failed_task, lua_tostring(L, -1));
    assert_non_null(strstr(failed_text, "oh no"));
    assert_non_null(strstr(failed_text, "stack traceback"));
    lua_settop(L, 0);
    finish_counting(rt, L);
}

static void a_cancelled_handler_is_not_reported(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L,
        SERVER "local server = net.serve('127.0.0.1:0', handle)\n"
               "local one <close> = net.connect(server:address())\n"
               "one:write('hello\\n')\n"
               "note(one:read_line())\n"
               "note(server:stop(0))\n");
    assert_string_equal(noted, "hello;false;");
    assert_int_equal(failures, 0);
    finish_counting(rt, L);
}

static void a_failing_child_of_a_handler_is_reported(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L,
        "local net, async = game.net, game.async\n"
        "local server <close> = net.serve('127.0.0.1:0', function(stream)\n"
        "  async.run(function() stream:read() error('in a child') end)\n"
        "  async.sleep(3600000)\n"
        "end)\n"
        "local one <close> = net.connect(server:address())\n"
        "one:write('x')\n"
        "note(one:read())\n");
    assert_string_equal(noted, "nil;");
    assert_int_equal(failures, 1);
    assert_non_null(strstr(failed_text, "in a child"));
    finish_counting(rt, L);
}

/* --- Descriptors ------------------------------------------------------------------------------ */

/* leave_descriptors(n): the process may open n more.  leave_descriptors(): as many as before. */
static int leave_descriptors(lua_State *L)
{
    static struct rlimit before;
    if (!before.rlim_cur)
        getrlimit(RLIMIT_NOFILE, &before);
    struct rlimit limit = before;
    if (lua_isinteger(L, 1)) {
        int lowest = dup(0); /* all below are in use, and none above */
        close(lowest);
        limit.rlim_cur = (rlim_t)lowest + (rlim_t)lua_tointeger(L, 1);
    }
    lua_pushboolean(L, setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return 1;
}

static void a_lack_of_descriptors_is_logged_once_and_waited_out(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "leave_descriptors", leave_descriptors);
    run(rt, L,
        SERVER "local server <close> = net.serve('127.0.0.1:0', handle, { max_connections = 2 })\n"
               "local first <close> = net.connect(server:address())\n"
               "first:write('a\\n') note(first:read_line())\n"
               "leave_descriptors(1)\n"
               "local second <close> = net.connect(server:address())\n"
               "second:write('b\\n')\n"
               "async.sleep(250)\n"
               "first:write('c\\n') note(first:read_line())\n"
               "leave_descriptors()\n"
               "note(second:read_line())\n");
    assert_string_equal(noted, "a;c;b;");
    assert_int_equal(complaints, 1);
    finish_counting(rt, L);
}

/* How many calls of accept4() fail because the whole system has too many files open. */
static _Atomic unsigned lacks_of_files;

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    if (!lacks_of_files)
        return __real_accept4(fd, address, length, flags);
    lacks_of_files--;
    errno = ENFILE;
    return -1;
}

static void a_lack_of_files_in_the_system_is_logged_once_and_waited_out(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    lacks_of_files = 3;
    run(rt, L,
        SERVER "local server <close> = net.serve('127.0.0.1:0', handle)\n"
               "local client <close> = net.connect(server:address())\n"
               "client:write('a\\n') note(client:read_line())\n");
    assert_string_equal(noted, "a;");
    assert_int_equal(lacks_of_files, 0);
    assert_int_equal(complaints, 1);
    finish_counting(rt, L);
}

static void a_server_waits_while_its_script_has_too_many_sockets(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ .max_sockets = 4 });
    run(rt, L,
        SERVER "local server <close> = net.serve('127.0.0.1:0', handle)\n"
               "local first, second = net.connect(server:address()), net.connect(server:address())\n"
               "second:write('b\\n')\n"
               "async.sleep(250)\n"
               "first:close()\n"
               "note(second:read_line())\n"
               "second:close()\n");
    assert_string_equal(noted, "b;");
    assert_true(complaints >= 1);
    finish_counting(rt, L);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static const char serves_for_ever[] = "local net, async = game.net, game.async\n"
                                      "local server = net.serve('127.0.0.1:0', function(stream)\n"
                                      "  stream:write('x')\n"
                                      "  async.sleep(3600000)\n"
                                      "end)\n"
                                      "local one = net.connect(server:address())\n"
                                      "one:read()\n"
                                      "note 'serving'\n"
                                      "async.sleep(3600000)\n";

static void turn_until_noted(struct orr_runtime *rt)
{
    while (!noted[0])
        assert_true(orr_runtime_turn(rt, 1000000) >= 0);
}

static void unloading_a_script_ends_its_server(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L, /* a reactor opens descriptors of its own when a task first waits */
        "local one, two = game.net.pair()\n"
        "game.async.run(function() one:read() one:close() end)\n"
        "two:close()\n");
    unsigned before = count_descriptors();
    struct orr_script *script;
    struct orr_script_options options = { .source = { .name = "=script", .text = serves_for_ever }, .shared = L };
    assert_int_equal(orr_script_load(rt, &options, &script), 0);
    turn_until_noted(rt);
    assert_true(count_descriptors() >= before + 3);
    assert_int_equal(orr_script_unload(script), 0);
    assert_int_equal(orr_runtime_run(rt), 0);
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(failures, 0);
    finish_counting(rt, L);
}

static void closing_an_isolate_ends_its_server(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, serves_for_ever);
    turn_until_noted(rt);
    orr_task_unref(task);
    finish_counting(rt, L);
}

/* --- Threads ---------------------------------------------------------------------------------- */

#define ON_THREADS \
    "local net, async = game.net, game.async\n" \
    "local server = assert(net.serve('127.0.0.1:0', [[return function(stream)\n" \
    "  stream:write(stream:read_line(), '\\n')\n" \
    "end]], { threads = 2 }))\n" \
    "for i = 1, 8 do\n" \
    "  local one <close> = net.connect(server:address())\n" \
    "  one:write(i, '\\n')\n" \
    "  assert(one:read_line() == tostring(i))\n" \
    "end\n"

static void a_server_on_threads_leaves_nothing_behind(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    run(rt, L, ON_THREADS "note(server:stop(60000))\n");
    assert_string_equal(noted, "true;");
    finish_counting(rt, L);
}

static void closing_an_isolate_ends_its_server_on_threads(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_runtime();
    lua_State *L = open_trusted(rt, (struct orr_lua_options){ 0 });
    struct orr_task *task = start(L, ON_THREADS "note 'serving'\n async.sleep(3600000)\n");
    turn_until_noted(rt);
    orr_task_unref(task);
    finish_counting(rt, L);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_failing_handler_is_reported_and_closes_only_its_connection),
    cmocka_unit_test(a_cancelled_handler_is_not_reported),
    cmocka_unit_test(a_failing_child_of_a_handler_is_reported),
    cmocka_unit_test(a_lack_of_descriptors_is_logged_once_and_waited_out),
    cmocka_unit_test(a_lack_of_files_in_the_system_is_logged_once_and_waited_out),
    cmocka_unit_test(a_server_waits_while_its_script_has_too_many_sockets),
    cmocka_unit_test(unloading_a_script_ends_its_server),
    cmocka_unit_test(closing_an_isolate_ends_its_server),
    cmocka_unit_test(a_server_on_threads_leaves_nothing_behind),
    cmocka_unit_test(closing_an_isolate_ends_its_server_on_threads),
};

HARNESS_MAIN(tests)
