/* Addresses, connecting, listening, datagrams and copies; both reactors behave the same. */
#include "io_task.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* --- Addresses -------------------------------------------------------------------------------- */

static void addresses_are_read_and_printed(void **state)
{
    (void)state;
    static const char *const same[] = {
        "127.0.0.1:80",       "0.0.0.0:0",        "[::1]:80",      "[::]:65535",          "[fe80::1%lo]:80",
        "[::ffff:1.2.3.4]:1", "unix:/run/x.sock", "unix:relative", "unix:@abstract name", "unix:/a:80",
    };
    for (size_t i = 0; i < LENGTH(same); i++) {
        char text[ORR_ADDRESS_TEXT];
        struct orr_address address = io_address(same[i]);
        assert_int_equal(orr_address_print(&address, text, sizeof text), strlen(same[i]));
        assert_string_equal(text, same[i]);
        assert_int_equal(orr_address_print(&address, text, strlen(same[i])), -ENOSPC);
    }
}

static void malformed_addresses_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int error;
    } refused[] = {
        { "", -EINVAL },
        { "80", -EINVAL },
        { ":80", -EINVAL },
        { "localhost", -EINVAL },
        { "localhost:", -EINVAL },
        { "localhost:65536", -EINVAL },
        { "localhost:123456", -EINVAL },
        { "localhost:-1", -EINVAL },
        { "localhost: 1", -EINVAL },
        { "::1:80", -EINVAL },
        { "[::1]", -EINVAL },
        { "[::1:80", -EINVAL },
        { "[]:80", -EINVAL },
        { "[127.0.0.1]:80", -EINVAL },
        { "[::1%]:80", -EINVAL },
        { "[::1%nosuchdevice]:80", -ENODEV },
        { "1.2.3:80", -EINVAL },
        { "256.1.1.1:80", -EINVAL },
        { "1.2.3.4.:80", -EINVAL },
        { "host.0x7f:80", -EINVAL },
        { "a..b:80", -EINVAL },
        { ".a:80", -EINVAL },
        { "a b:80", -EINVAL },
        { "a/b:80", -EINVAL },
        { "unix:", -EINVAL },
        { "unix:@", -EINVAL },
        { "localhost:80", -EDESTADDRREQ },
        { "example.org.:80", -EDESTADDRREQ },
        { "my_host-1.local:80", -EDESTADDRREQ },
    };
    struct orr_address address;
    for (size_t i = 0; i < LENGTH(refused); i++)
        if (orr_address_parse(refused[i].text, strlen(refused[i].text), &address) != refused[i].error)
            fail_msg("%s", refused[i].text);
    char long_path[200] = "unix:/";
    memset(long_path + 6, 'x', sizeof long_path - 7);
    assert_int_equal(orr_address_parse(long_path, 5 + 107, &address), 0);
    assert_int_equal(orr_address_parse(long_path, 5 + 108, &address), -ENAMETOOLONG);
    assert_int_equal(orr_address_parse("unix:/a\0b", 9, &address), -EINVAL);
    assert_int_equal(orr_address_parse(NULL, 0, &address), -EINVAL);
}

static void a_name_is_split_from_its_port(void **state)
{
    (void)state;
    char host[ORR_HOST_TEXT];
    uint16_t port;
    assert_int_equal(orr_address_split("example.org:443", 15, host, &port), 0);
    assert_string_equal(host, "example.org");
    assert_int_equal(port, 443);
    assert_int_equal(orr_address_split("[::1]:80", 8, host, &port), 0);
    assert_string_equal(host, "::1");
    assert_int_equal(orr_address_split("unix:/x:80", 10, host, &port), -EINVAL);
    assert_int_equal(orr_address_split("1.2.3:80", 8, host, &port), -EINVAL);
}

/* --- Listening and connecting ----------------------------------------------------------------- */

static struct orr_listener *listen_at(const char *text)
{
    struct orr_address address = io_address(text);
    struct orr_listener *listener;
    assert_int_equal(orr_listen(&address, NULL, &listener), 0);
    return listener;
}

static void check_connection(const char *where)
{
    struct orr_runtime *rt = io_open();
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listen_at(where) };
    struct io_task connecting = { .operation = DO_CONNECT };
    assert_int_equal(orr_listener_address(accepting.listener, &connecting.address), 0);
    io_task_start(rt, &accepting);
    io_settle(rt);
    assert_false(accepting.done);
    assert_int_equal(io_task_run(rt, &connecting), 0);
    io_turn_until(rt, &accepting.done);
    assert_int_equal(accepting.result, 0);
    io_task_end(&accepting);
    char text[ORR_ADDRESS_TEXT], expected[ORR_ADDRESS_TEXT], bytes[8];
    assert_true(orr_address_print(&connecting.address, expected, sizeof expected) > 0);
    assert_true(orr_stream_describe(connecting.stream, ORR_PEER, text, sizeof text) > 0);
    assert_string_equal(text, expected);
    assert_true(orr_stream_describe(accepting.stream, ORR_LOCAL, text, sizeof text) > 0);
    assert_string_equal(text, expected);
    size_t got;
    assert_int_equal(io_write(rt, connecting.stream, "hi"), 0);
    assert_int_equal(io_read(rt, accepting.stream, bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 2);
    assert_int_equal(orr_stream_free(connecting.stream), 0);
    assert_int_equal(orr_stream_free(accepting.stream), 0);
    assert_int_equal(orr_listener_free(accepting.listener), 0);
    io_close(rt);
}

static void a_connection_is_made_over_each_family(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "unix:@orrery-test-%d", (int)getpid());
    check_connection("127.0.0.1:0");
    check_connection("[::1]:0");
    check_connection(path);
    snprintf(path, sizeof path, "unix:/tmp/orrery-test-%d", (int)getpid());
    check_connection(path);
    assert_int_equal(access(path + 5, F_OK), -1); /* removed with the listener */
}

static void a_path_that_a_dead_process_left_is_replaced_and_a_live_one_is_not(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char path[64];
    snprintf(path, sizeof path, "unix:/tmp/orrery-stale-%d", (int)getpid());
    struct orr_address address = io_address(path);
    int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)address.bytes, address.length), 0);
    close(dead);
    struct orr_listener *listener = listen_at(path), *second;
    assert_int_equal(orr_listen(&address, NULL, &second), -EADDRINUSE);
    assert_int_equal(orr_listener_free(listener), 0);
    FILE *file = fopen(path + 5, "w"); /* something else, which must stay */
    assert_non_null(file);
    fclose(file);
    assert_int_equal(orr_listen(&address, NULL, &second), -EADDRINUSE);
    assert_int_equal(unlink(path + 5), 0);
    io_close(rt);
}

static void a_port_can_be_used_again_as_soon_as_its_listener_is_closed(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_listener *listener = listen_at("127.0.0.1:0"), *second;
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listener };
    struct orr_address address;
    assert_int_equal(orr_listener_address(listener, &address), 0);
    io_task_start(rt, &accepting); /* the reactor watches the socket */
    io_settle(rt);
    assert_int_equal(orr_listen(&address, NULL, &second), -EADDRINUSE);
    assert_int_equal(orr_listener_close(listener), 0);
    assert_int_equal(orr_listen(&address, NULL, &second), 0);
    io_turn_until(rt, &accepting.done);
    assert_int_equal(accepting.result, -EBADF);
    io_task_end(&accepting);
    assert_int_equal(orr_listener_address(listener, &address), -EBADF);
    assert_int_equal(io_task_run(rt, &accepting), -EBADF);
    assert_int_equal(orr_listener_free(listener), 0);
    assert_int_equal(orr_listener_free(second), 0);
    io_close(rt);
}

static void a_refused_connection_is_an_error_and_leaves_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open open = { .account = &io_account };
    struct io_task connecting = { .operation = DO_CONNECT, .open = &open };
    struct orr_listener *listener = listen_at("127.0.0.1:0");
    assert_int_equal(orr_listener_address(listener, &connecting.address), 0);
    assert_int_equal(orr_listener_free(listener), 0);
    unsigned fds = harness_open_fds();
    assert_int_equal(io_task_run(rt, &connecting), -ECONNREFUSED);
    connecting.address = io_address("unix:/nonexistent/path");
    assert_int_equal(io_task_run(rt, &connecting), -ENOENT);
    assert_true(harness_open_fds() <= fds + 2); /* the epoll sets of the runtime */
    assert_int_equal(io_counted.bytes, 0);
    io_close(rt);
}

static void nothing_is_accepted_that_nobody_asked_for(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open open = { .account = &io_account };
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listen_at("127.0.0.1:0"), .open = &open };
    struct io_task connecting[3];
    for (int i = 0; i < 3; i++) {
        connecting[i] = (struct io_task){ .operation = DO_CONNECT };
        assert_int_equal(orr_listener_address(accepting.listener, &connecting[i].address), 0);
        assert_int_equal(io_task_run(rt, &connecting[i]), 0);
    }
    io_settle(rt);
    assert_int_equal(io_counted.bytes, 0);
    assert_int_equal(io_task_run(rt, &accepting), 0);
    long long one = io_counted.bytes;
    assert_true(one > 0);
    io_settle(rt);
    assert_int_equal(io_counted.bytes, one);
    for (int i = 0; i < 3; i++)
        assert_int_equal(orr_stream_free(connecting[i].stream), 0);
    assert_int_equal(orr_stream_free(accepting.stream), 0);
    assert_int_equal(orr_listener_free(accepting.listener), 0);
    io_close(rt);
}

static void tasks_that_accept_are_served_in_order(void **state)
{
    (void)state;
    enum { MANY = 5 };
    struct orr_runtime *rt = io_open();
    struct orr_listener *listener = listen_at("127.0.0.1:0");
    struct io_task accepting[MANY], connecting[MANY];
    for (int i = 0; i < MANY; i++) {
        accepting[i] = (struct io_task){ .operation = DO_ACCEPT, .listener = listener };
        io_task_start(rt, &accepting[i]);
    }
    io_settle(rt);
    orr_task_cancel(accepting[1].task, NULL); /* leaves the line */
    for (int i = 0; i < MANY - 1; i++) {
        connecting[i] = (struct io_task){ .operation = DO_CONNECT };
        assert_int_equal(orr_listener_address(listener, &connecting[i].address), 0);
        assert_int_equal(io_task_run(rt, &connecting[i]), 0);
        int turn = i ? i + 1 : 0;
        io_turn_until(rt, &accepting[turn].done);
        for (int j = turn + 1; j < MANY; j++)
            assert_true(accepting[j].done == (j == 1));
        assert_int_equal(accepting[turn].result, 0);
        assert_int_equal(orr_stream_free(accepting[turn].stream), 0);
        assert_int_equal(orr_stream_free(connecting[i].stream), 0);
    }
    assert_int_equal(accepting[1].result, -ECANCELED);
    for (int i = 0; i < MANY; i++)
        io_task_end(&accepting[i]);
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

/* Ends another task before that one is polled. */
static enum orr_poll drop_it(struct orr_task *task, void *data)
{
    (void)task;
    struct io_task *victim = data;
    assert_int_equal(orr_task_drop(orr_task_waker(victim->task)), 0);
    return ORR_DONE;
}

static void a_task_that_ends_when_it_is_its_turn_to_accept_passes_the_turn_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_listener *listener = listen_at("127.0.0.1:0");
    struct orr_address address;
    assert_int_equal(orr_listener_address(listener, &address), 0);
    struct io_task first = { .operation = DO_ACCEPT, .listener = listener }, second = first;
    io_task_start(rt, &first);
    io_task_start(rt, &second);
    io_settle(rt);
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(peer, (struct sockaddr *)address.bytes, address.length), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = drop_it, .data = &first }), 0);
    io_turn_until(rt, &second.done);
    assert_false(first.done);
    assert_int_equal(second.result, 0);
    io_task_end(&first);
    io_task_end(&second);
    close(peer);
    assert_int_equal(orr_stream_free(second.stream), 0);
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

static void connections_that_come_at_once_reach_all_tasks_in_line(void **state)
{
    (void)state;
    enum { MANY = 20 };
    struct orr_runtime *rt = io_open();
    struct orr_listener *listener = listen_at("127.0.0.1:0");
    struct orr_address address;
    assert_int_equal(orr_listener_address(listener, &address), 0);
    struct io_task accepting[MANY];
    int peers[MANY];
    for (int i = 0; i < MANY; i++) {
        accepting[i] = (struct io_task){ .operation = DO_ACCEPT, .listener = listener };
        io_task_start(rt, &accepting[i]);
    }
    io_settle(rt);
    for (int i = 0; i < MANY; i++) { /* one edge for all of them */
        peers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(peers[i], (struct sockaddr *)address.bytes, address.length), 0);
    }
    orr_task_cancel(accepting[0].task, NULL);
    for (int i = 0; i < MANY; i++) {
        io_turn_until(rt, &accepting[i].done);
        io_task_end(&accepting[i]);
        assert_int_equal(accepting[i].result, i ? 0 : -ECANCELED);
        if (i)
            assert_int_equal(orr_stream_free(accepting[i].stream), 0);
        close(peers[i]);
    }
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

static void without_descriptors_accept_fails_and_the_connection_waits(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listen_at("127.0.0.1:0") };
    struct io_task connecting = { .operation = DO_CONNECT };
    assert_int_equal(orr_listener_address(accepting.listener, &connecting.address), 0);
    io_task_start(rt, &accepting); /* opens what the reactor needs */
    io_settle(rt);
    orr_task_cancel(accepting.task, NULL);
    io_turn_until(rt, &accepting.done);
    io_task_end(&accepting);
    assert_int_equal(io_task_run(rt, &connecting), 0);
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    int spare = dup(0);
    few = (struct rlimit){ .rlim_cur = (rlim_t)spare, .rlim_max = before.rlim_max };
    close(spare);
    setrlimit(RLIMIT_NOFILE, &few);
    int result = io_task_run(rt, &accepting);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(result, -EMFILE);
    assert_int_equal(io_task_run(rt, &accepting), 0); /* it has stayed in the backlog */
    assert_int_equal(orr_stream_free(connecting.stream), 0);
    assert_int_equal(orr_stream_free(accepting.stream), 0);
    assert_int_equal(orr_listener_free(accepting.listener), 0);
    io_close(rt);
}

static void a_connection_that_the_account_refuses_stays_in_the_backlog(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open open = { .account = &io_account };
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listen_at("127.0.0.1:0"), .open = &open };
    struct io_task connecting = { .operation = DO_CONNECT };
    assert_int_equal(orr_listener_address(accepting.listener, &connecting.address), 0);
    assert_int_equal(io_task_run(rt, &connecting), 0);
    io_counted = (struct io_account){ .most = 1, .error = -EDQUOT };
    assert_int_equal(io_task_run(rt, &accepting), -EDQUOT);
    io_counted.most = 0;
    assert_int_equal(io_task_run(rt, &accepting), 0);
    assert_int_equal(orr_stream_free(connecting.stream), 0);
    assert_int_equal(orr_stream_free(accepting.stream), 0);
    assert_int_equal(orr_listener_free(accepting.listener), 0);
    io_close(rt);
}

static void connecting_to_a_path_waits_while_its_backlog_is_full(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char path[64];
    snprintf(path, sizeof path, "unix:@orrery-full-%d", (int)getpid());
    struct orr_address address = io_address(path);
    struct io_task accepting = { .operation = DO_ACCEPT };
    assert_int_equal(orr_listen(&address, &(struct orr_listen_options){ .backlog = 1 }, &accepting.listener), 0);
    struct io_task connecting[3], *late = &connecting[2];
    for (int i = 0; i < 3; i++) {
        connecting[i] = (struct io_task){ .operation = DO_CONNECT, .address = address };
        io_task_start(rt, &connecting[i]);
    }
    io_settle(rt);
    assert_false(late->done);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(io_task_run(rt, &accepting), 0);
        assert_int_equal(orr_stream_free(accepting.stream), 0);
    }
    for (int i = 0; i < 3; i++) {
        io_turn_until(rt, &connecting[i].done);
        io_task_end(&connecting[i]);
        assert_int_equal(connecting[i].result, 0);
        assert_int_equal(orr_stream_free(connecting[i].stream), 0);
    }
    assert_int_equal(orr_listener_free(accepting.listener), 0);
    io_close(rt);
}

static void settings_reach_the_socket(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    for (int i = 0; i < 2; i++) {
        int fd = orr_stream_descriptor(ends[i]), value;
        socklen_t size = sizeof value;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &value, &size), 0);
        assert_int_equal(value != 0, true); /* small writes go out at once */
        assert_int_equal(orr_stream_set(ends[i], ORR_SET_DELAY, 1), 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, 1, &value, &size), 0);
        assert_int_equal(value, 0);
        assert_int_equal(orr_stream_set(ends[i], ORR_SET_KEEPALIVE, 60), 0);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &size), 0);
        assert_int_equal(value, 1);
        assert_int_equal(orr_stream_set(ends[i], ORR_SET_KEEPALIVE, 40000), -EINVAL);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(orr_stream_free(ends[i]), 0);
    }
    io_close(rt);
}

/* --- Datagrams -------------------------------------------------------------------------------- */

static struct orr_datagram *open_datagram(const char *local, const struct orr_address *peer)
{
    struct orr_datagram *datagram;
    struct orr_address address;
    if (local)
        address = io_address(local);
    struct orr_datagram_options options = { .local = local ? &address : NULL, .peer = peer };
    options.open.account = &io_account;
    assert_int_equal(orr_datagram_open(&options, &datagram), 0);
    return datagram;
}

static void check_datagrams(const char *one_text, const char *other_text)
{
    struct orr_runtime *rt = io_open();
    struct orr_datagram *one = open_datagram(one_text, NULL), *other = open_datagram(other_text, NULL);
    struct orr_address from, to, local;
    char bytes[8];
    struct iovec room = { bytes, sizeof bytes }, hello = { "hello", 5 }, much = { "0123456789", 10 };
    assert_int_equal(orr_datagram_address(one, ORR_LOCAL, &local), 0);
    assert_int_equal(orr_datagram_address(other, ORR_LOCAL, &to), 0);
    struct io_task receiving = { .operation = DO_RECEIVE,
                                 .datagram = other,
                                 .message = { .parts = &room, .count = 1, .address = &from } };
    struct io_task sending = { .operation = DO_SEND,
                               .datagram = one,
                               .message = { .parts = &hello, .count = 1, .address = &to } };
    io_task_start(rt, &receiving);
    io_settle(rt);
    assert_false(receiving.done);
    struct io_task second = receiving;
    second.wait = (struct orr_wait){ 0 };
    assert_int_equal(io_task_run(rt, &second), -EBUSY);
    assert_int_equal(io_task_run(rt, &sending), 0);
    io_turn_until(rt, &receiving.done);
    io_task_end(&receiving);
    assert_int_equal(receiving.result, 0);
    assert_int_equal(receiving.message.size, 5);
    assert_false(receiving.message.cut);
    assert_int_equal(from.length, local.length);
    assert_memory_equal(from.bytes, local.bytes, local.length);
    sending.message.parts = &much; /* more than the receiver has room for */
    assert_int_equal(io_task_run(rt, &sending), 0);
    assert_int_equal(io_task_run(rt, &receiving), 0);
    assert_int_equal(receiving.message.size, 10);
    assert_true(receiving.message.cut);
    sending.message.count = 0; /* an empty message is one, too */
    assert_int_equal(io_task_run(rt, &sending), 0);
    assert_int_equal(io_task_run(rt, &receiving), 0);
    assert_int_equal(receiving.message.size, 0);
    io_task_start(rt, &receiving);
    io_settle(rt);
    assert_int_equal(orr_datagram_close(other), 0);
    io_turn_until(rt, &receiving.done);
    io_task_end(&receiving);
    assert_int_equal(receiving.result, -EBADF);
    assert_int_equal(orr_datagram_free(one), 0);
    assert_int_equal(orr_datagram_free(other), 0);
    io_close(rt);
}

static void datagrams_go_there_with_their_sender(void **state)
{
    (void)state;
    char one[64], other[64];
    check_datagrams("127.0.0.1:0", "127.0.0.1:0");
    check_datagrams("[::1]:0", "[::1]:0");
    snprintf(one, sizeof one, "unix:@orrery-one-%d", (int)getpid());
    snprintf(other, sizeof other, "unix:@orrery-other-%d", (int)getpid());
    check_datagrams(one, other);
}

static void a_connected_datagram_socket_hears_of_a_missing_peer_and_goes_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_datagram *peer = open_datagram("127.0.0.1:0", NULL), *one;
    struct orr_address address, found;
    char bytes[8];
    struct iovec hello = { "hello", 5 }, room = { bytes, sizeof bytes };
    assert_int_equal(orr_datagram_address(peer, ORR_LOCAL, &address), 0);
    one = open_datagram(NULL, &address);
    assert_int_equal(orr_datagram_address(one, ORR_PEER, &found), 0);
    assert_memory_equal(found.bytes, address.bytes, address.length);
    assert_int_equal(orr_datagram_address(peer, ORR_PEER, &found), -ENOTCONN);
    struct io_task sending = { .operation = DO_SEND, .datagram = one, .message = { .parts = &hello, .count = 1 } };
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = peer, .message = { .parts = &room, .count = 1 } };
    assert_int_equal(io_task_run(rt, &sending), 0);
    assert_int_equal(io_task_run(rt, &receiving), 0);
    assert_int_equal(orr_datagram_free(peer), 0);
    assert_int_equal(io_task_run(rt, &sending), 0);
    receiving.datagram = one;
    assert_int_equal(io_task_run(rt, &receiving), -ECONNREFUSED);
    assert_int_equal(io_task_run(rt, &sending), 0); /* not kept */
    assert_int_equal(orr_datagram_free(one), 0);
    io_close(rt);
}

static void descriptors_go_along_with_a_message(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char name[64], bytes[8];
    snprintf(name, sizeof name, "unix:@orrery-rights-%d", (int)getpid());
    struct orr_datagram *other = open_datagram(name, NULL);
    struct orr_address address = io_address(name);
    struct orr_datagram *one = open_datagram(NULL, &address);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct iovec hello = { "take", 4 }, room = { bytes, sizeof bytes };
    struct io_task sending = {
        .operation = DO_SEND,
        .datagram = one,
        .message = { .parts = &hello, .count = 1, .descriptors = { fds[0], fds[1] }, .descriptor_count = 2 },
    };
    struct io_task receiving = {
        .operation = DO_RECEIVE,
        .datagram = other,
        .message = { .parts = &room, .count = 1, .descriptor_count = ORR_DESCRIPTORS_MAX },
    };
    assert_int_equal(io_task_run(rt, &sending), 0);
    assert_int_equal(io_task_run(rt, &receiving), 0);
    assert_int_equal(receiving.message.descriptor_count, 2);
    assert_true(fcntl(receiving.message.descriptors[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(receiving.message.descriptors[1], "x", 1), 1);
    assert_int_equal(read(fds[0], bytes, 1), 1);
    close(receiving.message.descriptors[0]);
    close(receiving.message.descriptors[1]);
    unsigned before = harness_open_fds();
    for (unsigned may_come = 0; may_come < 2; may_come++) { /* those that nobody wants are closed */
        assert_int_equal(io_task_run(rt, &sending), 0);
        receiving.message.descriptor_count = may_come;
        assert_int_equal(io_task_run(rt, &receiving), 0);
        assert_int_equal(receiving.message.descriptor_count, may_come);
        assert_true(receiving.message.cut);
        if (may_come)
            close(receiving.message.descriptors[0]);
    }
    assert_int_equal(harness_open_fds(), before);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(orr_datagram_free(one), 0);
    assert_int_equal(orr_datagram_free(other), 0);
    io_close(rt);
}

static void sending_to_a_full_queue_waits(void **state)
{
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        struct orr_runtime *rt = io_open();
        char name[64], bytes[8];
        snprintf(name, sizeof name, "unix:@orrery-queue-%d", (int)getpid());
        struct orr_datagram *other = open_datagram(name, NULL);
        struct orr_address address = io_address(name);
        char own[80];
        snprintf(own, sizeof own, "%s-own", name);
        struct orr_datagram *one = connected ? open_datagram(NULL, &address) : open_datagram(own, NULL);
        struct iovec hello = { "1", 1 }, room = { bytes, sizeof bytes };
        struct io_task sending = {
            .operation = DO_SEND,
            .datagram = one,
            .message = { .parts = &hello, .count = 1, .address = connected ? NULL : &address },
        };
        struct io_task receiving = { .operation = DO_RECEIVE, .datagram = other };
        receiving.message = (struct orr_message){ .parts = &room, .count = 1 };
        unsigned sent = 0;
        do {
            sending.wait = (struct orr_wait){ 0 };
            io_task_start(rt, &sending);
            io_settle(rt);
            sent += sending.done;
            if (sending.done)
                io_task_end(&sending);
        } while (sending.done);
        assert_true(sent > 0);
        for (unsigned i = 0; i <= sent; i++)
            assert_int_equal(io_task_run(rt, &receiving), 0);
        io_turn_until(rt, &sending.done);
        assert_int_equal(sending.result, 0);
        io_task_end(&sending);
        assert_int_equal(orr_datagram_free(one), 0);
        assert_int_equal(orr_datagram_free(other), 0);
        io_close(rt);
    }
}

static void a_group_gets_what_is_sent_to_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_address group = io_address("239.255.77.1:0"), any = io_address("0.0.0.0:0"), local;
    struct orr_datagram *member;
    struct orr_datagram_options options = { .local = &any, .reuse = true };
    assert_int_equal(orr_datagram_open(&options, &member), 0);
    assert_int_equal(orr_datagram_address(member, ORR_LOCAL, &local), 0);
    int joined = orr_datagram_join(member, &group, 1 /* the loopback device */);
    if (joined == -ENODEV || joined == -EADDRNOTAVAIL) { /* this machine has no multicast */
        assert_int_equal(orr_datagram_free(member), 0);
        io_close(rt);
        skip();
    }
    assert_int_equal(joined, 0);
    assert_int_equal(orr_datagram_join(member, &group, 1), -EADDRINUSE);
    assert_int_equal(orr_datagram_set_multicast(member, 1, true), 0);
    assert_int_equal(orr_datagram_set_multicast(member, 256, true), -EINVAL);
    assert_int_equal(orr_datagram_leave(member, &group, 1), 0);
    struct orr_address path = io_address("unix:/x");
    assert_int_equal(orr_datagram_join(member, &path, 0), -EINVAL);
    assert_int_equal(orr_datagram_free(member), 0);
    io_close(rt);
}

/* --- Copies ----------------------------------------------------------------------------------- */

/* Two pairs: what is written to a[1] is read from a[0], copied to b[1], and read from b[0]. */
struct copying {
    struct orr_stream *a[2], *b[2];
    struct io_task copy;
};

static void open_copying(struct orr_runtime *rt, struct copying *self, bool tcp)
{
    struct orr_open open = { .account = &io_account };
    memset(self, 0, sizeof *self);
    if (tcp) {
        io_tcp_pair(rt, &open, self->a);
        io_tcp_pair(rt, &open, self->b);
    } else {
        assert_int_equal(orr_pipe(&open, &self->a[0], &self->a[1]), 0);
        assert_int_equal(orr_pair(&open, self->b), 0);
    }
    self->copy = (struct io_task){ .operation = DO_COPY, .stream = self->a[0], .to = self->b[1] };
}

static void close_copying(struct copying *self)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(self->a[i]), 0);
        assert_int_equal(orr_stream_free(self->b[i]), 0);
    }
}

static void a_copy_goes_on_to_the_end(void **state)
{
    (void)state;
    enum { MUCH = 3 << 20 };
    for (int tcp = 0; tcp < 2; tcp++) {
        struct orr_runtime *rt = io_open();
        struct copying self;
        open_copying(rt, &self, tcp);
        char *out = malloc(MUCH), *in = malloc(MUCH);
        for (size_t i = 0; i < MUCH; i++)
            out[i] = (char)(i ^ (i >> 8));
        struct io_task filler = { .operation = DO_FILL, .stream = self.a[0], .least = 3, .most = 10 };
        struct io_task writer = { .operation = DO_WRITE, .stream = self.a[1], .bytes = out, .size = MUCH };
        io_task_start(rt, &writer);
        assert_int_equal(io_task_run(rt, &filler), 0); /* what was read ahead goes first */
        io_task_start(rt, &self.copy);
        size_t total = 0, got;
        while (total < MUCH) {
            assert_int_equal(io_read(rt, self.b[0], in + total, MUCH - total, &got), 0);
            total += got;
        }
        assert_memory_equal(in, out, MUCH);
        io_turn_until(rt, &writer.done);
        io_task_end(&writer);
        io_settle(rt);
        assert_false(self.copy.done);
        assert_int_equal(io_write(rt, self.b[1], "x"), -EBUSY); /* the copy is the writer */
        assert_int_equal(orr_stream_close(self.a[1]), 0);
        io_turn_until(rt, &self.copy.done);
        assert_int_equal(self.copy.result, 0);
        assert_int_equal(self.copy.copy.bytes, MUCH);
        io_task_end(&self.copy);
        assert_int_equal(io_write(rt, self.b[1], "x"), 0); /* its output has not ended */
        close_copying(&self);
        free(out);
        free(in);
        io_close(rt);
    }
}

static void a_cancelled_copy_loses_nothing(void **state)
{
    (void)state;
    enum { MUCH = 24 << 20 };
    for (int tcp = 0; tcp < 2; tcp++) {
        struct orr_runtime *rt = io_open();
        struct copying self;
        open_copying(rt, &self, tcp);
        char *out = malloc(MUCH), *in = calloc(2, MUCH);
        for (size_t i = 0; i < MUCH; i++)
            out[i] = (char)(i * 31 + (i >> 10));
        struct io_task writer = { .operation = DO_WRITE, .stream = self.a[1], .bytes = out, .size = MUCH };
        unsigned fds = harness_open_fds();
        io_task_start(rt, &self.copy);
        io_task_start(rt, &writer);
        io_settle(rt); /* until nothing fits anywhere any more */
        assert_false(self.copy.done);
        orr_task_cancel(self.copy.task, NULL);
        io_turn_until(rt, &self.copy.done);
        assert_int_equal(self.copy.result, -ECANCELED);
        assert_int_equal(harness_open_fds(), fds);
        io_task_end(&self.copy);
        uint64_t through = self.copy.copy.bytes;
        assert_true(through > 0 && through < MUCH);
        size_t total = 0, got;
        while (total < through) {
            assert_int_equal(io_read(rt, self.b[0], in + total, MUCH, &got), 0);
            total += got;
        }
        assert_int_equal(total, through);
        while (total < MUCH) { /* the rest is still in the source */
            assert_int_equal(io_read(rt, self.a[0], in + total, MUCH, &got), 0);
            total += got;
        }
        assert_memory_equal(in, out, MUCH);
        assert_int_equal(io_write(rt, self.b[1], "x"), 0); /* the target is not broken */
        io_turn_until(rt, &writer.done);
        io_task_end(&writer);
        close_copying(&self);
        free(out);
        free(in);
        io_close(rt);
    }
}

static void a_copy_ends_when_either_stream_is_closed(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        struct orr_runtime *rt = io_open();
        struct copying self;
        open_copying(rt, &self, which & 1);
        io_task_start(rt, &self.copy);
        io_settle(rt);
        assert_int_equal(orr_stream_close(which & 2 ? self.a[0] : self.b[1]), 0);
        io_turn_until(rt, &self.copy.done);
        assert_int_equal(self.copy.result, -EBADF);
        io_task_end(&self.copy);
        close_copying(&self);
        io_close(rt);
    }
}

static void a_copy_to_a_lost_peer_ends_without_a_signal(void **state)
{
    (void)state;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct orr_runtime *rt = io_open();
        struct copying self;
        open_copying(rt, &self, tcp);
        assert_int_equal(orr_stream_close(self.b[0]), 0);
        io_task_start(rt, &self.copy);
        while (!self.copy.done)
            assert_int_equal(io_write(rt, self.a[1], "into the void"), 0);
        assert_true(self.copy.result == -EPIPE || self.copy.result == -ECONNRESET);
        io_task_end(&self.copy);
        close_copying(&self);
        io_close(rt);
    }
}

static const struct CMUnitTest socket_tests[] = {
    cmocka_unit_test(addresses_are_read_and_printed),
    cmocka_unit_test(malformed_addresses_are_refused),
    cmocka_unit_test(a_name_is_split_from_its_port),
    cmocka_unit_test(a_connection_is_made_over_each_family),
    cmocka_unit_test(a_path_that_a_dead_process_left_is_replaced_and_a_live_one_is_not),
    cmocka_unit_test(a_port_can_be_used_again_as_soon_as_its_listener_is_closed),
    cmocka_unit_test(a_refused_connection_is_an_error_and_leaves_nothing),
    cmocka_unit_test(nothing_is_accepted_that_nobody_asked_for),
    cmocka_unit_test(tasks_that_accept_are_served_in_order),
    cmocka_unit_test(a_task_that_ends_when_it_is_its_turn_to_accept_passes_the_turn_on),
    cmocka_unit_test(connections_that_come_at_once_reach_all_tasks_in_line),
    cmocka_unit_test(without_descriptors_accept_fails_and_the_connection_waits),
    cmocka_unit_test(a_connection_that_the_account_refuses_stays_in_the_backlog),
    cmocka_unit_test(connecting_to_a_path_waits_while_its_backlog_is_full),
    cmocka_unit_test(settings_reach_the_socket),
    cmocka_unit_test(datagrams_go_there_with_their_sender),
    cmocka_unit_test(a_connected_datagram_socket_hears_of_a_missing_peer_and_goes_on),
    cmocka_unit_test(descriptors_go_along_with_a_message),
    cmocka_unit_test(sending_to_a_full_queue_waits),
    cmocka_unit_test(a_group_gets_what_is_sent_to_it),
    cmocka_unit_test(a_copy_goes_on_to_the_end),
    cmocka_unit_test(a_cancelled_copy_loses_nothing),
    cmocka_unit_test(a_copy_ends_when_either_stream_is_closed),
    cmocka_unit_test(a_copy_to_a_lost_peer_ends_without_a_signal),
};

HARNESS_MAIN(socket_tests)
