/*
 * Names in Lua's `net`, with a resolver of the test's own: lookups that are cancelled, lookups that
 * are too many, connecting to several addresses, and cancelling each phase of it.
 *
 * Names and their addresses, of which only the first two have a listener:
 *   127.0.0.1   accepts
 *   127.0.0.3   never answers: its backlog is full
 *   127.0.0.2   refuses
 */
#include "lua_host.h"

#include "io/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

/* --- The resolver ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *addresses[4];
} names[] = {
    { "here", { "127.0.0.1" } },
    { "refused-first", { "127.0.0.2", "127.0.0.1" } },
    { "silent-first", { "127.0.0.3", "127.0.0.1" } },
    { "silent", { "127.0.0.3", "127.0.0.3" } },
    { "refused", { "127.0.0.2", "127.0.0.2" } },
    { "slow", { "127.0.0.1" } }, /* answers when the test allows it */
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open;        /* "slow" may answer */
    unsigned entered; /* lookups of "slow" that have begun */
} gate = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void pass_gate(void)
{
    pthread_mutex_lock(&gate.mutex);
    gate.entered++;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.open)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

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
    if (!strcmp(host, "slow"))
        pass_gate();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(host, names[i].name) != 0)
            continue;
        for (const char *const *address = names[i].addresses; *address; address++) {
            *found = new_found(*address, service);
            found = &(*found)->ai_next;
        }
        return 0;
    }
    return EAI_NONAME;
}

/* --- Listeners -------------------------------------------------------------------------------- */

static int accepting, silent, queued[8];

static int listen_on(const char *text, uint16_t *port, int backlog)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(*port) };
    socklen_t size = sizeof address;
    inet_pton(AF_INET, text, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, backlog) < 0) {
        close(fd);
        return -1;
    }
    getsockname(fd, (struct sockaddr *)&address, &size);
    *port = ntohs(address.sin_port);
    return fd;
}

/* The kernel drops further connections to a full backlog, without an answer. */
static void fill_backlog(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    inet_pton(AF_INET, "127.0.0.3", &address.sin_addr);
    for (size_t i = 0; i < sizeof queued / sizeof *queued; i++) {
        queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(queued[i], (struct sockaddr *)&address, sizeof address);
    }
}

/* --- The fixture ------------------------------------------------------------------------------ */

static struct orr_runtime *rt;
static lua_State *L;

/* open_gate(): "slow" answers from now on. */
static int open_gate(lua_State *at)
{
    (void)at;
    pthread_mutex_lock(&gate.mutex);
    gate.open = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    return 0;
}

/* entered() -> lookups of "slow" that have begun */
static int entered(lua_State *at)
{
    pthread_mutex_lock(&gate.mutex);
    lua_pushinteger(at, gate.entered);
    pthread_mutex_unlock(&gate.mutex);
    return 1;
}

/* descriptors() -> how many the process has */
static int descriptors(lua_State *at)
{
    lua_pushinteger(at, harness_open_fds());
    return 1;
}

static int set_up(void **state)
{
    (void)state;
    uint16_t port = 0;
    accepting = listen_on("127.0.0.1", &port, 128);
    silent = listen_on("127.0.0.3", &port, 0);
    if (accepting < 0 || silent < 0)
        return -1;
    fill_backlog(port);
    gate.open = false;
    gate.entered = 0;
    resolve_replace(look_up, release_found);
    rt = host_counting_runtime();
    L = open_trusted(rt, (struct orr_lua_options){ 0 });
    lua_register(L, "open_gate", open_gate);
    lua_register(L, "entered", entered);
    lua_register(L, "descriptors", descriptors);
    lua_pushinteger(L, port);
    lua_setglobal(L, "port");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    finish_counting(rt, L);
    open_gate(NULL);
    while (resolve_numbers().running + resolve_numbers().waiting)
        sched_yield();
    resolve_replace(NULL, NULL);
    close(accepting);
    close(silent);
    for (size_t i = 0; i < sizeof queued / sizeof *queued; i++)
        close(queued[i]);
    return 0;
}

/*
 * Runs a script to its end, and compares what it noted.  A first connection opens the descriptors
 * that the reactor needs.
 */
static void expect_notes(const char *code, const char *expected)
{
    char text[4096];
    snprintf(text, sizeof text,
             "local async, net = game.async, game.net\n"
             "local function at(name) return name .. ':' .. port end\n"
             "local function begun(n) while entered() < n do async.sleep(1) end end\n"
             "local warm = assert(net.connect(at 'here')) warm:close()\n"
             "%s",
             code);
    struct orr_task *task = start(L, text);
    assert_int_equal(orr_runtime_run(rt), 0);
    expect_success(rt, task);
    assert_string_equal(noted, expected);
}

/* --- Lookups ---------------------------------------------------------------------------------- */

static void a_lookup_gives_all_addresses_with_the_port(void **state)
{
    (void)state;
    expect_notes("local found = net.lookup 'refused-first:80' note(#found) note(found[1]) note(found[2])",
                 "2;127.0.0.2:80;127.0.0.1:80;");
}

static void a_name_that_is_not_known_is_an_error(void **state)
{
    (void)state;
    expect_notes("local found, err = net.lookup 'nobody:80' note(tostring(found)) note(tostring(err))",
                 "nil;lookup nobody: the name is not known (ENOENT);");
}

static void a_cancelled_lookup_goes_on_unseen(void **state)
{
    (void)state;
    expect_notes("local task = async.run(function() note(tostring(net.lookup(at 'slow'))) end)\n"
                 "begun(1)\n"
                 "task:close()\n"
                 "task:pwait()\n"
                 "note 'closed'\n",
                 "closed;");
    assert_int_equal(resolve_numbers().running, 1);
}

static void lookups_of_others_do_not_wait_for_a_cancelled_one(void **state)
{
    (void)state;
    expect_notes("local task = async.run(function() net.lookup(at 'slow') end)\n"
                 "begun(1)\n"
                 "task:close()\n"
                 "note(#net.lookup 'here:80')\n",
                 "1;");
}

static void too_many_lookups_are_a_clear_error(void **state)
{
    (void)state;
    expect_notes("local tasks = {}\n"
                 "for i = 1, 2 do tasks[i] = async.run(net.lookup, at 'slow') end\n"
                 "begun(2)\n"
                 "for i = 3, 66 do tasks[i] = async.run(net.lookup, at 'slow') end\n"
                 "local found, err = net.lookup(at 'slow')\n"
                 "note(tostring(found)) note(err.code) note(err.message)\n"
                 "note(entered())\n"
                 "tasks[66]:close()\n"
                 "tasks[66] = async.run(net.lookup, at 'slow')\n"
                 "open_gate()\n"
                 "local count = 0\n"
                 "for i = 1, 66 do count = count + #async.await(tasks[i]) end\n"
                 "note(count)\n",
                 "nil;ENOBUFS;the script has too many lookups under way; wait for some of them;2;66;");
}

static void an_isolate_that_closes_leaves_its_lookups_behind(void **state)
{
    (void)state;
    struct orr_task *task = start(L, "game.net.lookup 'slow:80'");
    while (!resolve_numbers().running)
        assert_true(orr_runtime_turn(rt, 0) >= 0);
    assert_int_equal(orr_lua_close(L), 0);
    L = NULL;
    assert_int_equal(error_of(rt, task), -ECANCELED);
    assert_int_equal(resolve_numbers().running, 1);
}

/* --- Connecting ------------------------------------------------------------------------------- */

static void an_address_that_refuses_makes_way_for_the_next(void **state)
{
    (void)state;
    expect_notes("local before = descriptors()\n"
                 "local stream = assert(net.connect(at 'refused-first'))\n"
                 "note(stream:peer() == '127.0.0.1:' .. port)\n"
                 "note(descriptors() - before)\n"
                 "stream:close()\n",
                 "true;1;");
}

static void an_address_that_never_answers_does_not_keep_the_next_waiting(void **state)
{
    (void)state;
    expect_notes("local before = descriptors()\n"
                 "local stream = assert(net.connect(at 'silent-first'))\n"
                 "note(stream:peer() == '127.0.0.1:' .. port)\n"
                 "note(descriptors() - before)\n"
                 "stream:close()\n",
                 "true;1;");
}

static void the_error_is_that_of_the_first_address_if_all_refuse(void **state)
{
    (void)state;
    expect_notes("local before = descriptors()\n"
                 "local stream, err = net.connect(at 'refused')\n"
                 "note(tostring(stream)) note(err.code) note(err.address == '127.0.0.2:' .. port)\n"
                 "note(descriptors() - before)\n",
                 "nil;ECONNREFUSED;true;0;");
}

/*
 * Cancels a connect during the lookup, the first attempt, both attempts, and around the end.  What
 * has been opened by then is closed.
 */
static void cancelling_any_phase_of_a_connect_loses_no_descriptor(void **state)
{
    (void)state;
    expect_notes("local before = descriptors()\n"
                 "local function try(name, reached)\n"
                 "  local task = async.run(function()\n"
                 "    local stream = net.connect(at(name))\n"
                 "    if stream then stream:close() end\n"
                 "  end)\n"
                 "  while reached and not reached() do async.sleep(1) end\n"
                 "  task:close()\n"
                 "  task:pwait()\n"
                 "  note(descriptors() - before)\n"
                 "end\n"
                 "local function attempts(n) return function() return descriptors() - before == n end end\n"
                 "local function after(ms) return function() async.sleep(ms) return true end end\n"
                 "try('slow')\n"
                 "try('slow', function() return entered() > 0 end)\n"
                 "open_gate()\n"
                 "try('silent', attempts(1))\n"
                 "try('silent-first', attempts(1))\n"
                 "try('silent', attempts(2))\n"
                 "for ms = 0, 4 do try('here', after(ms)) try('refused-first', after(ms)) end\n"
                 "for ms = 248, 252 do try('silent-first', after(ms)) end\n"
                 "collectgarbage()\n"
                 "note(descriptors() - before)\n",
                 "0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;");
}

static void a_time_limit_ends_a_connect_and_loses_no_descriptor(void **state)
{
    (void)state;
    expect_notes("local before = descriptors()\n"
                 "note(tostring((pcall(async.with_timeout, 300, net.connect, at 'silent'))))\n"
                 "note(descriptors() - before)\n",
                 "false;0;");
}

static void unloading_in_the_middle_of_a_connect_loses_no_descriptor(void **state)
{
    (void)state;
    expect_notes("", "");
    unsigned before = harness_open_fds();
    struct orr_task *task = start(L, "game.net.connect('silent:' .. port)");
    while (harness_open_fds() == before)
        assert_true(orr_runtime_turn(rt, 0) >= 0);
    assert_int_equal(orr_lua_close(L), 0);
    L = NULL;
    assert_int_equal(error_of(rt, task), -ECANCELED);
    assert_int_equal(harness_open_fds(), before);
}

#define WITH_NAMES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest net_lookup[] = {
    WITH_NAMES(a_lookup_gives_all_addresses_with_the_port),
    WITH_NAMES(a_name_that_is_not_known_is_an_error),
    WITH_NAMES(a_cancelled_lookup_goes_on_unseen),
    WITH_NAMES(lookups_of_others_do_not_wait_for_a_cancelled_one),
    WITH_NAMES(too_many_lookups_are_a_clear_error),
    WITH_NAMES(an_isolate_that_closes_leaves_its_lookups_behind),
    WITH_NAMES(an_address_that_refuses_makes_way_for_the_next),
    WITH_NAMES(an_address_that_never_answers_does_not_keep_the_next_waiting),
    WITH_NAMES(the_error_is_that_of_the_first_address_if_all_refuse),
    WITH_NAMES(cancelling_any_phase_of_a_connect_loses_no_descriptor),
    WITH_NAMES(a_time_limit_ends_a_connect_and_loses_no_descriptor),
    WITH_NAMES(unloading_in_the_middle_of_a_connect_loses_no_descriptor),
};

HARNESS_MAIN(net_lookup)
