/*
 * Grants: the gate in C.  Each row of the tables is an attempt, with the rules and the expected
 * answer.  Attempts that must fail are made for real, too, with sockets.
 */
#include "io_task.h"

#include "io/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* --- Gates ------------------------------------------------------------------------------------ */

/* A gate with rules that have spaces between them. */
static struct orr_gate *new_gate(const char *connect, const char *listen)
{
    const struct alloc alloc = alloc_from(NULL, NULL);
    struct orr_gate *gate = gate_new(&alloc, NULL);
    const char *const lists[GATE_USES] = { connect, listen };
    assert_non_null(gate);
    for (enum gate_use use = GATE_CONNECT; use < GATE_USES; use++) {
        char copy[512], *rest = copy;
        snprintf(copy, sizeof copy, "%s", lists[use] ? lists[use] : "");
        for (char *rule; (rule = strsep(&rest, " "));)
            if (*rule)
                assert_int_equal(gate_add(gate, use, rule), 0);
    }
    return gate;
}

static bool grants(const char *rules, enum gate_use use, const char *address, bool shared)
{
    struct orr_gate *gate = new_gate(use == GATE_CONNECT ? rules : NULL, use == GATE_LISTEN ? rules : NULL);
    struct orr_address parsed = io_address(address);
    bool granted = gate_grants(gate, &(struct gate_request){ .use = use, .address = &parsed, .shared = shared });
    gate_free(gate);
    return granted;
}

/* --- Tables ----------------------------------------------------------------------------------- */

struct attempt_row {
    const char *rules, *address;
    bool granted;
};

static const struct attempt_row connects[] = {
    /* Nothing is granted by default. */
    { "", "8.8.8.8:53", false },
    { "", "127.0.0.1:80", false },
    { "", "unix:/run/x.sock", false },
    /* The star has every address that is not special. */
    { "*", "8.8.8.8:53", true },
    { "*", "[2606:4700::1111]:443", true },
    { "*:443", "8.8.8.8:443", true },
    { "*:443", "8.8.8.8:80", false },
    /* Loopback, however it is written. */
    { "*", "127.0.0.1:80", false },
    { "*", "127.255.255.254:80", false },
    { "*", "0.0.0.0:80", false },
    { "*", "[::]:80", false },
    { "*", "[::1]:80", false },
    { "*", "[0:0:0:0:0:0:0:1]:80", false },
    { "*", "[::ffff:127.0.0.1]:80", false },
    { "*", "[::ffff:7f00:1]:80", false },
    { "*", "[::127.0.0.1]:80", false },
    { "*", "[::ffff:0:127.0.0.1]:80", false },
    { "*", "[::ffff:0.0.0.0]:80", false },
    { "*", "[64:ff9b::127.0.0.1]:80", false },
    { "*", "[64:ff9b::7f00:1]:80", false },
    { "*", "[2002:7f00:1::]:80", false },
    /* Other special addresses, and what hides them. */
    { "*", "10.0.0.1:80", false },
    { "*", "172.16.0.1:80", false },
    { "*", "172.31.255.255:80", false },
    { "*", "192.168.1.1:80", false },
    { "*", "100.64.0.1:80", false },
    { "*", "100.127.255.255:80", false },
    { "*", "169.254.169.254:80", false },
    { "*", "[::ffff:169.254.169.254]:80", false },
    { "*", "[64:ff9b::a9fe:a9fe]:80", false },
    { "*", "[2002:a9fe:a9fe::1]:80", false },
    { "*", "[2002:c0a8:101::]:80", false },
    { "*", "[64:ff9b:1::a00:1]:80", false },
    { "*", "[2001:0:1:2::3]:80", false },
    { "*", "[fe80::1%lo]:80", false },
    { "*", "[fe80::1]:80", false },
    { "*", "[febf::1]:80", false },
    { "*", "[fec0::1]:80", false },
    { "*", "[fc00::1]:80", false },
    { "*", "[fd12:3456::1]:80", false },
    { "*", "224.0.0.1:80", false },
    { "*", "239.255.255.250:1900", false },
    { "*", "[ff02::1]:80", false },
    { "*", "255.255.255.255:80", false },
    { "*", "240.0.0.1:80", false },
    { "*", "0.0.0.1:80", false },
    { "*", "198.18.0.1:80", false },
    { "*", "unix:/run/x.sock", false },
    { "*", "unix:@x", false },
    /* Close to a special range, and outside of it. */
    { "*", "126.255.255.255:80", true },
    { "*", "128.0.0.1:80", true },
    { "*", "172.15.0.1:80", true },
    { "*", "172.32.0.1:80", true },
    { "*", "100.63.255.255:80", true },
    { "*", "100.128.0.1:80", true },
    { "*", "169.253.0.1:80", true },
    { "*", "192.167.1.1:80", true },
    { "*", "[64:ff9b::8.8.8.8]:80", true },
    { "*", "[2001:db8::1]:80", true },
    /* Special addresses are granted as such, and then however they are written. */
    { "127.0.0.1:80", "127.0.0.1:80", true },
    { "127.0.0.1:80", "127.0.0.1:81", false },
    { "127.0.0.1:80", "127.0.0.2:80", false },
    { "127.0.0.1", "[::ffff:127.0.0.1]:80", true },
    { "127.0.0.1", "0.0.0.0:80", true },
    { "127.0.0.1", "[::1]:80", false },
    { "[::1]", "[::]:80", true },
    { "[::ffff:127.0.0.1]", "127.0.0.1:80", true },
    { "localhost:80", "127.0.0.1:80", true },
    { "localhost:80", "[::1]:80", true },
    { "localhost:80", "127.0.0.1:22", false },
    { "localhost", "127.0.0.2:80", false },
    { "localhost", "10.0.0.1:80", false },
    { "10.0.0.0/8", "10.1.2.3:80", true },
    { "10.0.0.0/8", "11.1.2.3:80", false },
    { "10.1.0.0/16:5000-5999", "10.1.2.3:5432", true },
    { "10.1.0.0/16:5000-5999", "10.1.2.3:6000", false },
    { "10.1.0.0/16:5000-5999", "10.1.2.3:4999", false },
    { "[fd00::/8]", "[fd12::1]:80", true },
    { "[fd00::/8]", "[fc12::1]:80", false },
    { "169.254.169.254:80", "169.254.169.254:80", true },
    { "169.254.169.254:80", "169.254.169.253:80", false },
    { "224.0.0.251:5353", "224.0.0.251:5353", true },
    { "255.255.255.255", "255.255.255.255:9", true },
    /* A network that is larger than a special range does not grant it. */
    { "0.0.0.0/0", "8.8.8.8:80", true },
    { "0.0.0.0/0", "127.0.0.1:80", false },
    { "0.0.0.0/0", "10.0.0.1:80", false },
    { "0.0.0.0/0", "169.254.169.254:80", false },
    { "8.0.0.0/6", "10.0.0.1:80", false },
    { "240.0.0.0/4", "255.255.255.255:9", false },
    { "[::/0]", "[2606:4700::1111]:80", true },
    { "[::/0]", "[::1]:80", false },
    { "[::/0]", "[fd00::1]:80", false },
    { "[::/0]", "8.8.8.8:80", false },
    { "[::/0]", "[::ffff:8.8.8.8]:80", false },
    /* A name grants no address by itself. */
    { "example.com", "8.8.8.8:443", false },
    /* Unix sockets. */
    { "unix:/run/x.sock", "unix:/run/x.sock", true },
    { "unix:/run/x.sock", "unix:/run/y.sock", false },
    { "unix:/run/x.sock", "unix:/run/x.sock2", false },
    { "unix:/run/x.sock", "unix:/run/../run/x.sock", false },
    { "unix:/run/x.sock", "unix:/run//x.sock", false },
    { "unix:/run/x.sock", "unix:/run/./x.sock", false },
    { "unix:/run/x.sock", "unix:x.sock", false },
    { "unix:/run/x.sock", "unix:@/run/x.sock", false },
    { "unix:/run/app/", "unix:/run/app/a.sock", true },
    { "unix:/run/app/", "unix:/run/app/b/c.sock", true },
    { "unix:/run/app/", "unix:/run/app", false },
    { "unix:/run/app/", "unix:/run/app2", false },
    { "unix:/run/app/", "unix:/run/app/../x.sock", false },
    { "unix:/run/app/", "unix:/run/app/..", false },
    { "unix:@name", "unix:@name", true },
    { "unix:@name", "unix:@name2", false },
    { "unix:@name", "unix:/name", false },
};

static const struct attempt_row listens[] = {
    { "", "127.0.0.1:8080", false },
    { "*", "127.0.0.1:8080", true },
    { "*", "0.0.0.0:8080", true },
    { "*", "[::]:0", true },
    { "*:8080", "127.0.0.1:8081", false },
    { "*:8000-8999", "127.0.0.1:0", false },
    { "*", "239.1.2.3:80", false },
    { "*", "[ff02::1]:80", false },
    { "*", "unix:/run/x.sock", false },
    { "*", "unix:@x", false },
    { "127.0.0.1:8080", "127.0.0.1:8080", true },
    { "127.0.0.1:8080", "0.0.0.0:8080", false },
    { "127.0.0.1:8080", "[::]:8080", false },
    { "127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", true },
    { "0.0.0.0:8080", "0.0.0.0:8080", true },
    { "0.0.0.0:8080", "127.0.0.1:8080", false },
    { "[::]:8080", "[::]:8080", true },
    { "[::]:8080", "0.0.0.0:8080", false },
    { "localhost", "127.0.0.1:0", true },
    { "localhost", "0.0.0.0:0", false },
    { "239.1.2.0/24:5000", "239.1.2.3:5000", true },
    { "unix:/run/app/", "unix:/run/app/a.sock", true },
    { "unix:@name", "unix:@name", true },
};

static const struct attempt_row shared[] = {
    { "*", "127.0.0.1:8080", false },
    { "127.0.0.1", "127.0.0.1:8080", false },
    { "127.0.0.1:8080-8081", "127.0.0.1:8080", false },
    { "127.0.0.1:8080", "127.0.0.1:8080", true },
    { "*:8080", "127.0.0.1:8080", true },
};

static void check_rows(const struct attempt_row *rows, size_t count, enum gate_use use, bool is_shared)
{
    for (size_t i = 0; i < count; i++)
        if (grants(rows[i].rules, use, rows[i].address, is_shared) != rows[i].granted)
            fail_msg("with \"%s\", %s is not %s", rows[i].rules, rows[i].address,
                     rows[i].granted ? "granted" : "refused");
}

static void addresses_are_granted_as_the_tables_say(void **state)
{
    (void)state;
    check_rows(connects, LENGTH(connects), GATE_CONNECT, false);
    check_rows(listens, LENGTH(listens), GATE_LISTEN, false);
    check_rows(shared, LENGTH(shared), GATE_LISTEN, true);
}

static void malformed_rules_are_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",          ":80",          "a b",         "10.0.0.0/33",  "10.0.0.1/8",   "10.0.0:80",
        "1.2.3.4.5", "256.1.1.1",    "0177.0.0.1",  "0x7f000001",   "2130706433",   "[::1",
        "[]",        "[::1/129]",    "[fd00::1/8]", "[127.0.0.1]",  "[fe80::1%lo]", "fd00::/8",
        "host:",     "host:65536",   "host:9-8",    "host:1-",      "host:-1",      "host:80,81",
        "*.*",       "*.",           "a..b",        "*example.com", "unix:",        "unix:x",
        "unix:@",    "unix:/a/../b", "unix:/a//b",  "unix:/.",      "http://a",     "a/b",
        "10.0.0.0/", "10.0.0.0/8/8", "host:0x50",
    };
    for (size_t i = 0; i < LENGTH(refused); i++) {
        struct address_rule rule;
        const char *expected = NULL;
        if (address_rule_parse(refused[i], &rule, &expected) != -EINVAL || !expected)
            fail_msg("\"%s\" is taken for a rule", refused[i]);
    }
}

static void the_oldest_added_grant_makes_room(void **state)
{
    (void)state;
    struct orr_gate *gate = new_gate(NULL, NULL);
    for (int i = 0; i <= GATE_ADDED; i++) {
        char text[32];
        snprintf(text, sizeof text, "10.0.0.%d", i);
        assert_int_equal(gate_add(gate, GATE_CONNECT, text), 0);
    }
    struct orr_address oldest = io_address("10.0.0.0:1"), newest = io_address("10.0.0.128:1");
    assert_false(gate_grants(gate, &(struct gate_request){ .address = &oldest }));
    assert_true(gate_grants(gate, &(struct gate_request){ .address = &newest }));
    gate_free(gate);
}

/* --- Names ------------------------------------------------------------------------------------ */

static void a_name_may_be_looked_up_if_a_rule_has_it(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *host;
        bool granted;
    } rows[] = {
        { "", "example.com", false },
        { "example.com", "example.com", true },
        { "example.com:443", "EXAMPLE.com.", true },
        { "example.com", "www.example.com", false },
        { "example.com", "badexample.com", false },
        { "*.example.com", "www.example.com", true },
        { "*.example.com", "a.b.example.com", true },
        { "*.example.com", "example.com", false },
        { "*.example.com", "badexample.com", false },
        { "*", "anything.org", true },
        { "10.0.0.0/8 0.0.0.0/0 127.0.0.1", "example.com", false },
        { "localhost", "localhost", true },
        { "localhost", "example.com", false },
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct orr_gate *gate = new_gate(rows[i].rules, NULL);
        if (gate_grants_lookup(gate, rows[i].host) != rows[i].granted)
            fail_msg("with \"%s\", %s", rows[i].rules, rows[i].host);
        gate_free(gate);
    }
}

static bool granted_after_lookup(const char *rules, const char *host, const char *answer, const char *address,
                                 bool noted_simulated, bool simulated)
{
    struct orr_gate *gate = new_gate(rules, NULL);
    struct orr_address found = io_address(answer), asked = io_address(address);
    assert_int_equal(gate_note(gate, host, &found, noted_simulated), 0);
    bool granted = gate_grants(gate, &(struct gate_request){ .address = &asked, .simulated = simulated });
    gate_free(gate);
    return granted;
}

static void a_name_grants_what_its_lookup_gave_and_nothing_special(void **state)
{
    (void)state;
    assert_true(granted_after_lookup("a.org", "a.org", "8.8.8.8:80", "8.8.8.8:80", false, false));
    assert_true(granted_after_lookup("a.org:443", "a.org", "8.8.8.8:80", "8.8.8.8:443", false, false));
    assert_true(granted_after_lookup("a.org", "a.org", "8.8.8.8:80", "[::ffff:8.8.8.8]:80", false, false));
    assert_false(granted_after_lookup("a.org:443", "a.org", "8.8.8.8:443", "8.8.8.8:80", false, false));
    assert_false(granted_after_lookup("a.org", "a.org", "8.8.8.8:80", "8.8.4.4:80", false, false));
    assert_false(granted_after_lookup("a.org", "b.org", "8.8.8.8:80", "8.8.8.8:80", false, false));
    static const char *const rebound[] = {
        "127.0.0.1:80", "0.0.0.0:80",           "10.0.0.1:80", "169.254.169.254:80", "[::1]:80",
        "[fd00::1]:80", "[::ffff:10.0.0.1]:80", "[::]:80",     "100.64.0.1:80",      "[64:ff9b::10.0.0.1]:80",
    };
    for (size_t i = 0; i < LENGTH(rebound); i++)
        if (granted_after_lookup("a.org", "a.org", rebound[i], rebound[i], false, false))
            fail_msg("a name grants %s", rebound[i]);
    assert_true(granted_after_lookup("a.org 10.0.0.0/8", "a.org", "10.0.0.1:80", "10.0.0.1:80", false, false));
}

static void a_simulated_lookup_counts_in_simulated_networks_only(void **state)
{
    (void)state;
    assert_true(granted_after_lookup("a.org", "a.org", "10.77.0.2:80", "10.77.0.2:80", true, true));
    assert_false(granted_after_lookup("a.org", "a.org", "10.77.0.2:80", "10.77.0.2:80", true, false));
    assert_false(granted_after_lookup("a.org", "a.org", "8.8.8.8:80", "8.8.8.8:80", true, false));
    assert_false(granted_after_lookup("a.org", "a.org", "10.77.0.2:80", "10.77.0.2:80", false, true));
}

/* --- At the system call ----------------------------------------------------------------------- */

static int try_connect(struct orr_runtime *rt, const struct orr_gate *gate, const struct orr_address *address)
{
    struct orr_open open = { .gate = gate };
    struct io_task task = { .operation = DO_CONNECT, .address = *address, .open = &open };
    int error = io_task_run(rt, &task);
    orr_stream_free(task.stream);
    return error;
}

static int try_listen(const struct orr_gate *gate, const char *text, bool reuse_port, struct orr_listener **listener)
{
    struct orr_address address = io_address(text);
    struct orr_listen_options options = { .socket.open.gate = gate, .reuse_port = reuse_port };
    *listener = NULL;
    return orr_listen(&address, &options, listener);
}

/* Sends one message; 0 if it went out. */
static int try_send(struct orr_runtime *rt, struct orr_datagram *socket, const struct orr_address *to)
{
    struct iovec part = { .iov_base = "x", .iov_len = 1 };
    struct orr_address address = to ? *to : (struct orr_address){ 0 };
    struct io_task task = {
        .operation = DO_SEND,
        .datagram = socket,
        .message = { .parts = &part, .count = 1, .address = to ? &address : NULL },
    };
    return io_task_run(rt, &task);
}

static void connections_are_refused_before_the_system_call(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_gate *none = new_gate("*", NULL), *some = new_gate("127.0.0.1", NULL);
    struct orr_listener *listener;
    struct orr_address address;
    assert_int_equal(try_listen(NULL, "127.0.0.1:0", false, &listener), 0);
    assert_int_equal(orr_listener_address(listener, &address), 0);
    assert_int_equal(try_connect(rt, none, &address), -EACCES);
    assert_int_equal(try_connect(rt, some, &address), 0);
    assert_int_equal(try_connect(rt, NULL, &address), 0);
    orr_listener_free(listener);
    gate_free(none);
    gate_free(some);
    io_close(rt);
}

static void the_address_to_connect_from_is_checked_too(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_gate *gates[] = { new_gate("127.0.0.1", NULL), new_gate("127.0.0.1", "127.0.0.2") };
    for (int i = 0; i < 2; i++) {
        struct orr_address local = io_address("127.0.0.2:0"), to = io_address("127.0.0.1:9");
        struct gate_request own = { .use = GATE_LISTEN, .address = &local };
        assert_int_equal(gate_grants(gates[i], &own), i);
        struct orr_datagram *socket = NULL;
        struct orr_datagram_options options = { .open.gate = gates[i], .local = &local, .peer = &to };
        assert_int_equal(orr_datagram_open(&options, &socket), i ? 0 : -EACCES);
        orr_datagram_free(socket);
        gate_free(gates[i]);
    }
    io_close(rt);
}

static void every_message_is_checked(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_gate *gate = new_gate("127.0.0.1:9 127.0.0.3", "127.0.0.1");
    struct orr_address local = io_address("127.0.0.1:0");
    struct orr_datagram *socket = NULL;
    struct orr_datagram_options options = { .open.gate = gate, .local = &local };
    assert_int_equal(orr_datagram_open(&options, &socket), 0);
    static const struct {
        const char *to;
        int answer;
    } rows[] = {
        { "127.0.0.1:9", 0 },
        { "127.0.0.1:10", -EACCES },
        { "127.0.0.2:9", -EACCES },
        { "127.0.0.3:77", 0 },
        { "0.0.0.0:10", -EACCES },
        { "255.255.255.255:9", -EACCES },
        { "169.254.169.254:53", -EACCES },
        { "224.0.0.1:9", -EACCES },
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct orr_address to = io_address(rows[i].to);
        int answer = try_send(rt, socket, &to);
        if (answer != rows[i].answer && !(rows[i].answer == 0 && answer == -ECONNREFUSED))
            fail_msg("%s: %d", rows[i].to, answer);
    }
    struct orr_address group = io_address("239.1.2.3:0");
    assert_int_equal(orr_datagram_join(socket, &group, 0), -EACCES);
    orr_datagram_free(socket);
    gate_free(gate);
    io_close(rt);
}

static void a_port_is_shared_only_by_its_number(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_listener *host, *hijack;
    struct orr_address address;
    char text[ORR_ADDRESS_TEXT];
    assert_int_equal(try_listen(NULL, "127.0.0.1:0", true, &host), 0);
    assert_int_equal(orr_listener_address(host, &address), 0);
    assert_true(orr_address_print(&address, text, sizeof text) > 0);
    struct orr_gate *wide = new_gate(NULL, "*"), *exact = new_gate(NULL, text);
    assert_int_equal(try_listen(wide, text, true, &hijack), -EACCES);
    assert_int_equal(try_listen(wide, text, false, &hijack), -EADDRINUSE);
    assert_int_equal(try_listen(exact, text, true, &hijack), 0);
    orr_listener_free(hijack);
    struct orr_datagram *socket = NULL;
    struct orr_datagram_options options = { .open.gate = wide, .local = &address, .reuse = true };
    assert_int_equal(orr_datagram_open(&options, &socket), -EACCES);
    orr_listener_free(host);
    gate_free(wide);
    gate_free(exact);
    io_close(rt);
}

static void the_gate_holds_in_simulated_networks(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open_on(ORR_CLOCK_VIRTUAL);
    struct orr_gate *none = new_gate("*", "*:1"), *some = new_gate("127.0.0.1", "127.0.0.1");
    struct orr_listener *listener, *other;
    struct orr_address address;
    struct orr_datagram *socket = NULL;
    assert_int_equal(try_listen(none, "127.0.0.1:80", false, &other), -EACCES);
    assert_int_equal(try_listen(some, "127.0.0.1:80", false, &listener), 0);
    assert_int_equal(orr_listener_address(listener, &address), 0);
    assert_int_equal(try_connect(rt, none, &address), -EACCES);
    assert_int_equal(try_connect(rt, some, &address), 0);
    struct orr_datagram_options options = { .open.gate = some, .local = &address };
    assert_int_equal(orr_datagram_open(&options, &socket), 0);
    struct orr_address to = io_address("127.0.0.2:9");
    assert_int_equal(try_send(rt, socket, &to), -EACCES);
    assert_int_equal(try_send(rt, socket, &address), 0);
    orr_datagram_free(socket);
    orr_listener_free(listener);
    gate_free(none);
    gate_free(some);
    io_close(rt);
}

/* --- Paths ------------------------------------------------------------------------------------ */

/* A new folder, with a granted folder "in", a folder "out", and the link "in/link" to it. */
static void make_folders(char folder[64])
{
    char path[128], target[128];
    snprintf(folder, 64, "/tmp/orr-grants-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/in", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(target, sizeof target, "%s/out", folder);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(path, sizeof path, "%s/in/link", folder);
    assert_int_equal(symlink(target, path), 0);
}

static void remove_folders(const char *folder)
{
    static const char *const left[] = { "in/sock.link", "in/link", "in/file", "in", "out", "" };
    for (size_t i = 0; i < LENGTH(left); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, left[i]);
        remove(path);
    }
}

static struct orr_address address_in(const char *folder, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "unix:%s/%s", folder, name);
    return io_address(text);
}

static int listen_in(const struct orr_gate *gate, const char *folder, const char *name, struct orr_listener **listener)
{
    char text[128];
    snprintf(text, sizeof text, "unix:%s/%s", folder, name);
    return try_listen(gate, text, false, listener);
}

static void no_symbolic_link_leads_to_a_socket(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char folder[64], rule[128], path[128], target[128];
    make_folders(folder);
    snprintf(rule, sizeof rule, "unix:%s/in/", folder);
    struct orr_gate *gate = new_gate(rule, rule);
    struct orr_listener *inside, *outside, *none;
    assert_int_equal(listen_in(gate, folder, "in/sock", &inside), 0);
    assert_int_equal(listen_in(NULL, folder, "out/sock", &outside), 0);
    snprintf(target, sizeof target, "%s/out/sock", folder);
    snprintf(path, sizeof path, "%s/in/sock.link", folder);
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof path, "%s/in/file", folder);
    fclose(fopen(path, "w"));
    static const struct {
        const char *name;
        int answer;
    } rows[] = {
        { "in/sock", 0 },
        { "out/sock", -EACCES },
        { "in/link/sock", -EACCES },
        { "in/sock.link", -EACCES },
        { "in/../out/sock", -EACCES },
        { "in/file", -ECONNREFUSED },
        { "in/none", -ENOENT },
    };
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct orr_address address = address_in(folder, rows[i].name);
        int answer = try_connect(rt, gate, &address);
        if (answer != rows[i].answer)
            fail_msg("%s: %d", rows[i].name, answer);
    }
    assert_int_equal(listen_in(gate, folder, "in/link/new", &none), -EACCES);
    assert_int_equal(listen_in(gate, folder, "out/new", &none), -EACCES);
    orr_listener_free(inside);
    orr_listener_free(outside);
    remove_folders(folder);
    gate_free(gate);
    io_close(rt);
}

static void a_granted_path_that_was_left_behind_is_replaced(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char folder[64], rule[128];
    make_folders(folder);
    snprintf(rule, sizeof rule, "unix:%s/in/", folder);
    struct orr_gate *gate = new_gate(NULL, rule);
    struct orr_listener *listener;
    struct orr_address address = address_in(folder, "in/stale");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)address.bytes, address.length), 0);
    close(fd);
    assert_int_equal(listen_in(gate, folder, "in/stale", &listener), 0);
    orr_listener_free(listener);
    assert_int_equal(
        connect(fd = socket(AF_UNIX, SOCK_STREAM, 0), (const struct sockaddr *)address.bytes, address.length), -1);
    assert_int_equal(errno, ENOENT);
    close(fd);
    remove_folders(folder);
    gate_free(gate);
    io_close(rt);
}

static void no_descriptor_is_left_over(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char folder[64], rule[128];
    make_folders(folder);
    snprintf(rule, sizeof rule, "unix:%s/in/", folder);
    struct orr_gate *gate = new_gate(rule, rule);
    unsigned before = harness_open_fds();
    for (int i = 0; i < 10; i++) {
        struct orr_address missing = address_in(folder, "in/none"), linked = address_in(folder, "in/link/sock");
        struct orr_listener *listener;
        assert_int_equal(try_connect(rt, gate, &missing), -ENOENT);
        assert_int_equal(try_connect(rt, gate, &linked), -EACCES);
        assert_int_equal(listen_in(gate, folder, "in/link/new", &listener), -EACCES);
    }
    io_settle(rt);
    assert_int_equal(harness_open_fds(), before);
    remove_folders(folder);
    gate_free(gate);
    io_close(rt);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(addresses_are_granted_as_the_tables_say),
    cmocka_unit_test(malformed_rules_are_refused),
    cmocka_unit_test(the_oldest_added_grant_makes_room),
    cmocka_unit_test(a_name_may_be_looked_up_if_a_rule_has_it),
    cmocka_unit_test(a_name_grants_what_its_lookup_gave_and_nothing_special),
    cmocka_unit_test(a_simulated_lookup_counts_in_simulated_networks_only),
    cmocka_unit_test(connections_are_refused_before_the_system_call),
    cmocka_unit_test(the_address_to_connect_from_is_checked_too),
    cmocka_unit_test(every_message_is_checked),
    cmocka_unit_test(a_port_is_shared_only_by_its_number),
    cmocka_unit_test(the_gate_holds_in_simulated_networks),
    cmocka_unit_test(no_symbolic_link_leads_to_a_socket),
    cmocka_unit_test(a_granted_path_that_was_left_behind_is_replaced),
    cmocka_unit_test(no_descriptor_is_left_over),
};

HARNESS_MAIN(tests)
