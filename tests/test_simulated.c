/* The simulated network: delays, faults, partitions, names, and that a seed replays exactly. */
#include "failing.h"
#include "io_task.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static long fail_at; /* this allocation fails, counted from 1; 0: none */

static bool may_allocate(void)
{
    return !(fail_at && --fail_at == 0);
}

static struct orr_runtime *open_with(orr_alloc_fn *alloc)
{
    io_counted = (struct io_account){ 0 };
    allocated_bytes = 0;
    struct orr_options options = { .workers = 1, .alloc = alloc, .clock = ORR_CLOCK_VIRTUAL };
    struct orr_runtime *rt = harness_runtime_with(options);
    assert_non_null(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
    return rt;
}

static struct orr_runtime *open_virtual(void)
{
    return open_with(counting_alloc);
}

/* A network that the worker uses from now on. */
static struct orr_network *use(struct orr_network_options options)
{
    struct orr_network *network;
    options.open.account = &io_account;
    assert_int_equal(orr_network_new(&options, &network), 0);
    assert_int_equal(orr_network_use(network), 0);
    return network;
}

static const struct orr_open counted = { .account = &io_account, .label = "test" };

static void pair_of_tcp(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    io_tcp_pair(rt, &counted, ends);
    assert_int_equal(orr_stream_descriptor(ends[0]), -ENOTSUP); /* no socket of the kernel */
}

static void turn(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

static void free_both(struct orr_stream *ends[2])
{
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
}

/* Reads a text that is known. */
static void expect_text(struct orr_runtime *rt, struct orr_stream *stream, const char *text)
{
    char bytes[256];
    size_t got, total = 0, length = strlen(text);
    while (total < length) {
        assert_int_equal(io_read(rt, stream, bytes, length - total, &got), 0);
        assert_true(got > 0);
        assert_memory_equal(bytes, text + total, got);
        total += got;
    }
}

static void expect_end(struct orr_runtime *rt, struct orr_stream *stream)
{
    char byte;
    size_t got;
    assert_int_equal(io_read(rt, stream, &byte, 1, &got), 0);
    assert_int_equal(got, 0);
}

static void expect_error(struct orr_runtime *rt, struct orr_stream *stream, int error)
{
    char byte;
    size_t got;
    assert_int_equal(io_read(rt, stream, &byte, 1, &got), error);
}

/* --- Which network ---------------------------------------------------------------------------- */

static void on_a_virtual_clock_sockets_are_in_memory(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends); /* the fixtures have their descriptors then */
    free_both(ends);
    unsigned fds = harness_open_fds();
    pair_of_tcp(rt, ends);
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(io_write(rt, ends[0], "hello"), 0);
    expect_text(rt, ends[1], "hello");
    free_both(ends);
    io_close(rt);
}

static void real_sockets_are_had_by_asking(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_open open = { .real = true };
    struct orr_stream *ends[2];
    assert_int_equal(orr_pair(&open, ends), 0);
    assert_true(orr_stream_descriptor(ends[0]) >= 0);
    free_both(ends);
    assert_int_equal(orr_pipe(&open, &ends[0], &ends[1]), 0);
    assert_true(orr_stream_descriptor(ends[0]) >= 0);
    free_both(ends);
    io_close(rt);
}

static void on_a_real_clock_a_network_is_had_by_asking(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_network_host *host;
    struct orr_stream *ends[2];
    assert_int_equal(orr_network_here(NULL, &host), 0);
    assert_null(host);
    struct orr_network *network = use((struct orr_network_options){ .latency = 1 * MS });
    assert_int_equal(orr_network_here(NULL, &host), 0);
    assert_string_equal(orr_network_host_name(host), "main");
    uint64_t before = orr_runtime_now(rt);
    pair_of_tcp(rt, ends);
    assert_true(orr_runtime_now(rt) - before >= 2 * MS);
    assert_int_equal(orr_network_use(NULL), 0);
    struct orr_stream *real[2];
    assert_int_equal(orr_pair(NULL, real), 0);
    assert_true(orr_stream_descriptor(real[0]) >= 0);
    free_both(real);
    free_both(ends);
    assert_int_equal(orr_network_free(network), 0);
    io_close(rt);
}

/* A task that asks where it is, and starts a child that asks, too. */
struct asker {
    struct orr_runtime *rt;
    struct orr_network_host *place; /* it places itself here first; may be NULL */
    struct asker *child;
    const char *found;
    bool done;
};

static enum orr_poll ask(struct orr_task *task, void *data)
{
    struct asker *self = data;
    struct orr_network_host *host;
    if (self->place)
        assert_int_equal(orr_network_place(task, self->place), 0);
    assert_int_equal(orr_network_here(NULL, &host), 0);
    self->found = orr_network_host_name(host);
    if (self->child)
        assert_int_equal(orr_spawn(self->rt, &(struct orr_spawn){ .poll = ask, .data = self->child }), 0);
    self->done = true;
    return ORR_DONE;
}

static void tasks_run_on_the_host_of_the_task_above_them(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_network *network = use((struct orr_network_options){ 0 });
    struct orr_network_host *db, *web;
    assert_int_equal(orr_network_host(network, "db", &db), 0);
    assert_int_equal(orr_network_host(network, "web", &web), 0);
    struct asker lowest = { .rt = rt }, moved = { .rt = rt, .place = web, .child = &lowest };
    struct asker child = { .rt = rt, .child = &moved }, top = { .rt = rt, .place = db, .child = &child };
    struct asker other = { .rt = rt };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = ask, .data = &top }), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = ask, .data = &other }), 0);
    io_turn_until(rt, &lowest.done);
    assert_string_equal(top.found, "db");
    assert_string_equal(child.found, "db");
    assert_string_equal(moved.found, "web");
    assert_string_equal(lowest.found, "web");
    assert_string_equal(other.found, "main");
    io_close(rt);
}

/* --- Names and addresses ---------------------------------------------------------------------- */

static struct orr_address look_up(struct orr_network_host *from, const char *name, uint16_t port)
{
    struct orr_address address;
    assert_int_equal(orr_network_lookup(from, name, port, AF_UNSPEC, &address), 0);
    return address;
}

static void expect_address(const struct orr_address *address, const char *text)
{
    char printed[ORR_ADDRESS_TEXT];
    assert_true(orr_address_print(address, printed, sizeof printed) > 0);
    assert_string_equal(printed, text);
}

static void names_are_those_of_hosts(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_network *network = use((struct orr_network_options){ 0 });
    struct orr_network_host *main_host, *db, *again;
    struct orr_address address;
    assert_int_equal(orr_network_host(network, NULL, &main_host), 0);
    assert_int_equal(orr_network_host(network, "db", &db), 0);
    assert_int_equal(orr_network_host(network, "DB", &again), 0);
    assert_ptr_equal(db, again);
    address = look_up(main_host, "db", 5432);
    expect_address(&address, "10.0.0.2:5432");
    address = look_up(db, "localhost", 1);
    expect_address(&address, "127.0.0.1:1");
    assert_int_equal(orr_network_lookup(db, "main", 7, AF_INET6, &address), 0);
    expect_address(&address, "[fd00::1]:7");
    assert_int_equal(orr_network_lookup(db, "nobody", 7, AF_UNSPEC, &address), -ENOENT);
    assert_int_equal(orr_network_lookup(db, "main", 7, AF_UNIX, &address), -EAFNOSUPPORT);
    assert_int_equal(orr_network_host(network, "localhost", &again), -EINVAL);
    assert_int_equal(orr_network_host(network, "10.0.0.1", &again), -EINVAL);
    assert_int_equal(orr_network_host(network, "", &again), -EINVAL);
    io_close(rt);
}

static struct orr_listener *listen_on(struct orr_network_host *host, const char *text)
{
    struct orr_listener *listener;
    struct orr_address address = io_address(text);
    struct orr_listen_options options = { .socket.open = { .account = &io_account, .host = host } };
    assert_int_equal(orr_listen(&address, &options, &listener), 0);
    return listener;
}

/* Connects from a host. */
static int connect_from(struct orr_runtime *rt, struct orr_network_host *host, struct orr_address address,
                        struct orr_stream **stream)
{
    struct orr_open open = { .account = &io_account, .host = host };
    struct io_task connecting = { .operation = DO_CONNECT, .open = &open, .address = address };
    int result = io_task_run(rt, &connecting);
    *stream = result ? NULL : connecting.stream;
    return result;
}

static int connect_to(struct orr_runtime *rt, struct orr_network_host *host, const char *text,
                      struct orr_stream **stream)
{
    return connect_from(rt, host, io_address(text), stream);
}

static struct orr_stream *accept_from(struct orr_runtime *rt, struct orr_listener *listener)
{
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listener, .open = &counted };
    assert_int_equal(io_task_run(rt, &accepting), 0);
    return accepting.stream;
}

static void expect_description(struct orr_stream *stream, enum orr_end end, const char *text)
{
    char printed[ORR_ADDRESS_TEXT];
    assert_true(orr_stream_describe(stream, end, printed, sizeof printed) > 0);
    assert_string_equal(printed, text);
}

static void hosts_connect_to_each_other_by_name(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_network *network = use((struct orr_network_options){ 0 });
    struct orr_network_host *db, *web;
    assert_int_equal(orr_network_host(network, "db", &db), 0);
    assert_int_equal(orr_network_host(network, "web", &web), 0);
    struct orr_listener *listener = listen_on(db, "0.0.0.0:5432");
    struct orr_stream *ends[2];
    assert_int_equal(connect_from(rt, web, look_up(web, "db", 5432), &ends[0]), 0);
    ends[1] = accept_from(rt, listener);
    expect_description(ends[0], ORR_PEER, "10.0.0.2:5432");
    expect_description(ends[1], ORR_LOCAL, "10.0.0.2:5432");
    expect_description(ends[0], ORR_LOCAL, "10.0.0.3:49152");
    expect_description(ends[1], ORR_PEER, "10.0.0.3:49152");
    assert_int_equal(io_write(rt, ends[1], "hi"), 0);
    expect_text(rt, ends[0], "hi");
    free_both(ends);
    orr_listener_free(listener);
    io_close(rt);
}

static void loopback_is_the_host_itself(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_network *network = use((struct orr_network_options){ 0 });
    struct orr_network_host *db, *web;
    assert_int_equal(orr_network_host(network, "db", &db), 0);
    assert_int_equal(orr_network_host(network, "web", &web), 0);
    struct orr_listener *listener = listen_on(db, "127.0.0.1:80"), *v6 = listen_on(db, "[::]:81");
    struct orr_stream *stream;
    assert_int_equal(connect_to(rt, db, "127.0.0.1:80", &stream), 0);
    orr_stream_free(stream);
    assert_int_equal(connect_to(rt, db, "0.0.0.0:80", &stream), 0);
    expect_description(stream, ORR_PEER, "127.0.0.1:80");
    orr_stream_free(stream);
    assert_int_equal(connect_to(rt, web, "127.0.0.1:80", &stream), -ECONNREFUSED);
    assert_int_equal(connect_to(rt, web, "10.0.0.2:80", &stream), -ECONNREFUSED);
    assert_int_equal(connect_to(rt, web, "10.0.0.2:81", &stream), 0); /* [::] is all */
    orr_stream_free(stream);
    assert_int_equal(connect_to(rt, web, "[fd00::2]:81", &stream), 0);
    orr_stream_free(stream);
    assert_int_equal(connect_to(rt, web, "10.0.0.9:81", &stream), -EHOSTUNREACH);
    assert_int_equal(connect_to(rt, web, "192.168.0.1:81", &stream), -EHOSTUNREACH);
    assert_int_equal(connect_to(rt, web, "[fd00:1::2]:81", &stream), -EHOSTUNREACH);
    orr_listener_free(listener);
    orr_listener_free(v6);
    io_close(rt);
}

static int try_listen(struct orr_network_host *host, const char *text, bool reuse_port)
{
    struct orr_listener *listener;
    struct orr_address address = io_address(text);
    struct orr_listen_options options = { .socket.open.host = host, .reuse_port = reuse_port };
    return orr_listen(&address, &options, &listener);
}

static void an_address_is_bound_once(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_network *network = use((struct orr_network_options){ 0 });
    struct orr_network_host *db, *web;
    assert_int_equal(orr_network_host(network, "db", &db), 0);
    assert_int_equal(orr_network_host(network, "web", &web), 0);
    assert_int_equal(try_listen(db, "127.0.0.1:80", false), 0);
    assert_int_equal(try_listen(db, "127.0.0.1:80", false), -EADDRINUSE);
    assert_int_equal(try_listen(db, "0.0.0.0:80", false), -EADDRINUSE);
    assert_int_equal(try_listen(db, "[::]:80", false), -EADDRINUSE);
    assert_int_equal(try_listen(db, "10.0.0.2:80", false), 0);
    assert_int_equal(try_listen(db, "10.0.0.3:80", false), -EADDRNOTAVAIL);
    assert_int_equal(try_listen(web, "127.0.0.1:80", false), 0);
    assert_int_equal(try_listen(db, "unix:/run/x", false), 0);
    assert_int_equal(try_listen(db, "unix:/run/x", false), -EADDRINUSE);
    assert_int_equal(try_listen(web, "unix:/run/x", false), 0);
    assert_int_equal(try_listen(db, "127.0.0.1:90", true), 0);
    assert_int_equal(try_listen(db, "127.0.0.1:90", true), 0);
    assert_int_equal(try_listen(db, "127.0.0.1:90", false), -EADDRINUSE);
    struct orr_listener *listener = listen_on(db, "127.0.0.1:0"), *other = listen_on(db, "127.0.0.1:0");
    struct orr_address first, second;
    assert_int_equal(orr_listener_address(listener, &first), 0);
    assert_int_equal(orr_listener_address(other, &second), 0);
    expect_address(&first, "127.0.0.1:49152");
    expect_address(&second, "127.0.0.1:49153");
    assert_int_equal(orr_listener_free(listener), 0);
    assert_int_equal(try_listen(db, "127.0.0.1:49152", false), 0); /* a closed one is free again */
    io_close(rt);
}

static void paths_are_not_made_in_the_file_system(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_network *network = use((struct orr_network_options){ .latency = 5 * MS });
    struct orr_network_host *db;
    assert_int_equal(orr_network_host(network, "db", &db), 0);
    struct orr_stream *ends[2], *stream;
    struct orr_listener *listener = listen_on(NULL, "unix:/no/such/folder/socket");
    assert_int_equal(connect_to(rt, NULL, "unix:/no/such/folder/socket", &ends[0]), 0);
    ends[1] = accept_from(rt, listener);
    assert_int_equal(io_write(rt, ends[0], "path"), 0);
    expect_text(rt, ends[1], "path");
    expect_description(ends[0], ORR_PEER, "unix:/no/such/folder/socket");
    expect_description(ends[1], ORR_PEER, "unix:");
    assert_int_equal(connect_to(rt, db, "unix:/no/such/folder/socket", &stream), -ENOENT);
    assert_int_equal(connect_to(rt, NULL, "unix:@nobody", &stream), -ECONNREFUSED);
    free_both(ends);
    orr_listener_free(listener);
    io_close(rt);
}

/* --- Time ------------------------------------------------------------------------------------- */

static void bytes_take_the_latency(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .latency = 50 * MS });
    uint64_t start = orr_runtime_now(rt);
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    assert_int_equal(orr_runtime_now(rt) - start, 100 * MS); /* there and back */
    assert_int_equal(io_write(rt, ends[0], "one"), 0);
    assert_int_equal(orr_runtime_now(rt) - start, 100 * MS); /* a write waits for nobody */
    expect_text(rt, ends[1], "one");
    assert_int_equal(orr_runtime_now(rt) - start, 150 * MS);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    expect_end(rt, ends[1]);
    assert_int_equal(orr_runtime_now(rt) - start, 200 * MS);
    free_both(ends);
    io_close(rt);
}

static void nobody_listens_is_heard_after_there_and_back(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .latency = 50 * MS });
    uint64_t start = orr_runtime_now(rt);
    struct orr_stream *stream;
    assert_int_equal(connect_to(rt, NULL, "127.0.0.1:80", &stream), -ECONNREFUSED);
    assert_int_equal(orr_runtime_now(rt) - start, 100 * MS);
    io_close(rt);
}

static void bandwidth_spreads_bytes_over_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .bandwidth = 1000, .latency = 1 * MS });
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    uint64_t start = orr_runtime_now(rt);
    assert_int_equal(io_write(rt, ends[0], "0123456789"), 0); /* 10 ms each */
    assert_int_equal(io_write(rt, ends[0], "abcdefghij"), 0);
    expect_text(rt, ends[1], "0123456789");
    assert_int_equal(orr_runtime_now(rt) - start, 11 * MS);
    expect_text(rt, ends[1], "abcdefghij");
    assert_int_equal(orr_runtime_now(rt) - start, 21 * MS);
    free_both(ends);
    io_close(rt);
}

static void jitter_delays_bytes_but_keeps_their_order(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .jitter = 100 * MS, .seed = 3 });
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    uint64_t start = orr_runtime_now(rt), last = start, moments = 0;
    for (char c = 'a'; c <= 'z'; c++)
        assert_int_equal(io_write(rt, ends[0], (char[]){ c, '\0' }), 0);
    for (char c = 'a'; c <= 'z'; c++) {
        expect_text(rt, ends[1], (char[]){ c, '\0' });
        moments += orr_runtime_now(rt) > last;
        last = orr_runtime_now(rt);
    }
    assert_true(moments > 2);
    assert_true(last - start <= 100 * MS);
    free_both(ends);
    io_close(rt);
}

/* --- Faults ----------------------------------------------------------------------------------- */

static void a_reset_breaks_both_ends_after_what_has_arrived(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ 0 });
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    struct io_task loss = { .operation = DO_LOSS, .stream = ends[1], .events = ORR_RESET };
    io_task_start(rt, &loss);
    assert_int_equal(io_write(rt, ends[0], "last"), 0);
    io_settle(rt);
    assert_false(loss.done);
    assert_int_equal(orr_network_reset(ends[0]), 0);
    io_turn_until(rt, &loss.done);
    assert_int_equal(loss.result, 0);
    io_task_end(&loss);
    expect_text(rt, ends[1], "last");
    for (int i = 0; i < 2; i++) {
        expect_error(rt, ends[i], -ECONNRESET);
        expect_error(rt, ends[i], -ECONNRESET);
        assert_int_equal(io_write(rt, ends[i], "x"), -ECONNRESET);
    }
    assert_int_equal(orr_stream_close(ends[0]), 0);
    assert_int_equal(orr_network_reset(ends[0]), -EBADF);
    assert_int_equal(orr_network_reset(NULL), -EINVAL);
    free_both(ends);
    assert_int_equal(orr_pair(&counted, ends), 0);
    assert_int_equal(orr_network_reset(ends[0]), -ENOTSUP);
    free_both(ends);
    io_close(rt);
}

/* A task of the test's own that ends. */
static int run(struct orr_runtime *rt, struct io_task task)
{
    return io_task_run(rt, &task);
}

static void each_direction_ends_by_itself(void **state)
{
    (void)state;
    for (int closer = 0; closer < 2; closer++) {
        struct orr_runtime *rt = open_virtual();
        use((struct orr_network_options){ .latency = 3 * MS });
        struct orr_stream *ends[2];
        pair_of_tcp(rt, ends);
        struct orr_stream *first = ends[closer], *second = ends[1 - closer];
        assert_int_equal(io_write(rt, first, "question"), 0);
        assert_int_equal(run(rt, (struct io_task){ .operation = DO_SHUTDOWN, .stream = first }), 0);
        assert_int_equal(io_write(rt, first, "more"), -EPIPE);
        expect_text(rt, second, "question");
        expect_end(rt, second);
        assert_int_equal(io_write(rt, second, "answer"), 0);
        expect_text(rt, first, "answer");
        assert_int_equal(run(rt, (struct io_task){ .operation = DO_SHUTDOWN, .stream = second }), 0);
        expect_end(rt, first);
        free_both(ends);
        io_close(rt);
    }
}

static void what_was_written_arrives_after_a_close(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .latency = 3 * MS });
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    assert_int_equal(io_write(rt, ends[1], "never read"), 0);
    assert_int_equal(io_write(rt, ends[0], "last words"), 0);
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_true(io_counted.bytes > 0); /* the receiver pays for them now */
    expect_text(rt, ends[1], "last words");
    expect_end(rt, ends[1]);
    /* Its own words came to nobody, and it has heard of that: */
    io_settle(rt);
    assert_int_equal(io_write(rt, ends[1], "x"), -EPIPE);
    assert_int_equal(orr_stream_free(ends[1]), 0);
    io_close(rt);
}

static void a_write_to_a_closed_peer_fails_when_that_is_heard(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .latency = 3 * MS });
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    assert_int_equal(io_write(rt, ends[1], "first"), 0);
    struct io_task loss = { .operation = DO_LOSS, .stream = ends[1], .events = ORR_RESET };
    uint64_t start = orr_runtime_now(rt);
    assert_int_equal(io_task_run(rt, &loss), 0);
    assert_int_equal(orr_runtime_now(rt) - start, 6 * MS);
    assert_int_equal(io_write(rt, ends[1], "second"), -EPIPE);
    expect_end(rt, ends[1]);
    free_both(ends);
    io_close(rt);
}

static void a_write_waits_when_the_window_is_full(void **state)
{
    (void)state;
    enum { WINDOW = 10000, MUCH = 100000 };
    for (int latency = 0; latency < 2; latency++) {
        struct orr_runtime *rt = open_virtual();
        use((struct orr_network_options){ .window = WINDOW, .latency = latency * MS });
        struct orr_stream *ends[2];
        pair_of_tcp(rt, ends);
        long long idle = io_counted.bytes;
        char *bytes = malloc(MUCH), *back = malloc(MUCH);
        for (int i = 0; i < MUCH; i++)
            bytes[i] = (char)(i * 31 + (i >> 8));
        struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = bytes, .size = MUCH };
        io_task_start(rt, &writer);
        io_settle(rt);
        assert_false(writer.done);
        assert_int_equal(writer.got, WINDOW);
        assert_true(io_counted.bytes - idle < 4 * WINDOW);
        size_t got, total = 0;
        while (total < MUCH) {
            assert_int_equal(io_read(rt, ends[1], back + total, MUCH - total, &got), 0);
            total += got;
            assert_true(io_counted.bytes - idle < 4 * WINDOW);
        }
        assert_memory_equal(bytes, back, MUCH);
        io_turn_until(rt, &writer.done);
        assert_int_equal(writer.result, 0);
        io_task_end(&writer);
        assert_int_equal(io_counted.bytes, idle); /* nothing is left of the buffers */
        free_both(ends);
        free(bytes);
        free(back);
        io_close(rt);
    }
}

static void buffers_that_users_set_bound_what_is_on_its_way(void **state)
{
    (void)state;
    enum { MUCH = 100000, RECEIVE = 8000, SEND = 5000, LESS = 6000 };
    struct orr_runtime *rt = open_virtual();
    struct orr_address address = io_address("127.0.0.1:80");
    struct orr_listener *listener;
    struct orr_listen_options options = { .socket = { .receive_buffer = RECEIVE, .send_buffer = SEND } };
    assert_int_equal(orr_listen(&address, &options, &listener), 0);
    struct orr_stream *ends[2];
    assert_int_equal(connect_from(rt, NULL, address, &ends[0]), 0);
    ends[1] = accept_from(rt, listener);
    char *bytes = calloc(1, MUCH);
    const size_t expected[3] = { RECEIVE, SEND, LESS };
    for (int i = 0; i < 3; i++) {
        struct io_task writer = { .operation = DO_WRITE, .stream = ends[i % 2], .bytes = bytes, .size = MUCH };
        if (i == 2) {
            free_both(ends);
            assert_int_equal(connect_from(rt, NULL, address, &ends[0]), 0);
            ends[1] = accept_from(rt, listener);
            writer.stream = ends[0];
            assert_int_equal(orr_stream_set(ends[0], ORR_SET_SEND_BUFFER, LESS), 0);
            assert_int_equal(orr_stream_set(ends[0], ORR_SET_KEEPALIVE, 40000), -EINVAL);
        }
        io_task_start(rt, &writer);
        io_settle(rt);
        assert_false(writer.done);
        assert_int_equal(writer.got, expected[i]);
        orr_task_cancel(writer.task, NULL);
        io_turn_until(rt, &writer.done);
        io_task_end(&writer);
    }
    free_both(ends);
    free(bytes);
    orr_listener_free(listener);
    io_close(rt);
}

static void an_account_that_refuses_bytes_fails_the_write(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_stream *ends[2];
    pair_of_tcp(rt, ends);
    io_counted.most = io_counted.bytes + 100;
    io_counted.error = -EDQUOT;
    assert_int_equal(io_write(rt, ends[0], "too much"), -EDQUOT);
    io_counted.most = 0;
    free_both(ends);
    io_close(rt);
}

/* The sender's account paid; the receiver's does not want to. */
static void an_account_that_refuses_bytes_of_a_closed_sender_resets_the_receiver(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_stream *ends[2];
    struct orr_listener *listener = listen_on(NULL, "127.0.0.1:80");
    struct io_task connecting = { .operation = DO_CONNECT, .address = io_address("127.0.0.1:80") };
    assert_int_equal(io_task_run(rt, &connecting), 0); /* on no account */
    ends[0] = connecting.stream;
    ends[1] = accept_from(rt, listener);
    assert_int_equal(io_write(rt, ends[0], "lost"), 0);
    io_counted.most = io_counted.bytes + 100;
    io_counted.error = -EDQUOT;
    assert_int_equal(orr_stream_close(ends[0]), 0);
    io_counted.most = 0;
    expect_error(rt, ends[1], -ECONNRESET);
    free_both(ends);
    orr_listener_free(listener);
    io_close(rt);
}

static void short_reads_and_writes_lose_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .short_reads = 0.7, .short_writes = 1, .seed = 11 });
    for (int kind = 0; kind < 3; kind++) {
        struct orr_stream *ends[2];
        if (kind == 0)
            pair_of_tcp(rt, ends);
        else if (kind == 1)
            assert_int_equal(orr_pair(&counted, ends), 0);
        else
            assert_int_equal(orr_pipe(&counted, &ends[1], &ends[0]), 0);
        char text[200], back[200];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)('a' + i % 26);
        struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = text, .size = sizeof text };
        io_task_start(rt, &writer);
        size_t got, total = 0;
        unsigned reads = 0;
        while (total < sizeof text) {
            assert_int_equal(io_read(rt, ends[1], back + total, sizeof text - total, &got), 0);
            total += got;
            reads++;
        }
        assert_true(reads > 1);
        assert_memory_equal(text, back, sizeof text);
        io_turn_until(rt, &writer.done);
        assert_true(writer.polls > 1); /* a short write makes the task wait */
        io_task_end(&writer);
        free_both(ends);
    }
    io_close(rt);
}

static void random_resets_break_connections(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .resets = 0.2, .seed = 5 });
    int broken = 0, whole = 0;
    for (int i = 0; i < 50; i++) {
        struct orr_stream *ends[2];
        pair_of_tcp(rt, ends);
        int result = io_write(rt, ends[0], "x");
        assert_true(result == 0 || result == -ECONNRESET);
        if (result)
            expect_error(rt, ends[1], -ECONNRESET);
        *(result ? &broken : &whole) += 1;
        free_both(ends);
    }
    assert_true(broken > 2 && whole > 20);
    struct orr_stream *ends[2];
    assert_int_equal(orr_pair(&counted, ends), 0); /* pairs do not break */
    for (int i = 0; i < 50; i++)
        assert_int_equal(io_write(rt, ends[0], "x"), 0);
    free_both(ends);
    io_close(rt);
}

/* --- Listening -------------------------------------------------------------------------------- */

static void a_connect_waits_while_the_backlog_is_full(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_address address = io_address("127.0.0.1:80");
    struct orr_listener *listener;
    struct orr_listen_options options = { .socket.open = counted, .backlog = 1 };
    assert_int_equal(orr_listen(&address, &options, &listener), 0);
    struct orr_stream *streams[4];
    for (int i = 0; i < 2; i++)
        assert_int_equal(connect_from(rt, NULL, address, &streams[i]), 0);
    struct io_task waiting[2];
    for (int i = 0; i < 2; i++) {
        waiting[i] = (struct io_task){ .operation = DO_CONNECT, .address = address, .open = &counted };
        io_task_start(rt, &waiting[i]);
        io_settle(rt);
        assert_false(waiting[i].done);
    }
    struct orr_stream *accepted = accept_from(rt, listener);
    io_turn_until(rt, &waiting[0].done); /* first come, first served */
    assert_int_equal(waiting[0].result, 0);
    assert_false(waiting[1].done);
    assert_int_equal(orr_listener_close(listener), 0);
    io_turn_until(rt, &waiting[1].done);
    assert_int_equal(waiting[1].result, -ECONNREFUSED);
    expect_error(rt, streams[1], -ECONNRESET); /* was in the backlog */
    expect_error(rt, waiting[0].stream, -ECONNRESET);
    assert_int_equal(io_write(rt, streams[0], "still good"), 0);
    expect_text(rt, accepted, "still good");
    orr_stream_free(waiting[0].stream);
    orr_stream_free(accepted);
    for (int i = 0; i < 2; i++) {
        orr_stream_free(streams[i]);
        io_task_end(&waiting[i]);
    }
    orr_listener_free(listener);
    io_close(rt);
}

static void listeners_that_share_an_address_share_its_connections(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    struct orr_address address = io_address("127.0.0.1:80");
    struct orr_listener *listeners[2];
    struct orr_stream *streams[4], *accepted[4];
    struct orr_listen_options options = { .socket.open = counted, .reuse_port = true };
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_listen(&address, &options, &listeners[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(connect_from(rt, NULL, address, &streams[i]), 0);
    for (int i = 0; i < 4; i++)
        accepted[i] = accept_from(rt, listeners[i % 2]);
    for (int i = 0; i < 4; i++) {
        orr_stream_free(streams[i]);
        orr_stream_free(accepted[i]);
    }
    for (int i = 0; i < 2; i++)
        orr_listener_free(listeners[i]);
    io_close(rt);
}

/* A connect that is cancelled before its answer is there leaves nothing to accept. */
static void a_connection_that_was_given_up_is_not_accepted(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .latency = 10 * MS });
    struct orr_listener *listener = listen_on(NULL, "127.0.0.1:80");
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listener, .open = &counted };
    for (int when = 0; when < 2; when++) {
        struct io_task connecting = { .operation = DO_CONNECT,
                                      .address = io_address("127.0.0.1:80"),
                                      .open = &counted };
        io_task_start(rt, &connecting);
        uint64_t start = orr_runtime_now(rt);
        while (orr_runtime_now(rt) - start < 10 * MS * (unsigned)when || !connecting.polls) {
            turn(rt);
        }
        assert_false(connecting.done);
        orr_task_cancel(connecting.task, NULL);
        io_turn_until(rt, &connecting.done);
        assert_int_equal(connecting.result, -ECANCELED);
        io_task_end(&connecting);
    }
    struct orr_stream *stream;
    io_settle(rt); /* the news has arrived */
    io_task_start(rt, &accepting);
    io_settle(rt);
    assert_false(accepting.done);
    assert_int_equal(connect_to(rt, NULL, "127.0.0.1:80", &stream), 0);
    io_turn_until(rt, &accepting.done);
    assert_int_equal(accepting.result, 0);
    io_task_end(&accepting);
    assert_int_equal(io_write(rt, stream, "whole"), 0);
    expect_text(rt, accepting.stream, "whole");
    orr_stream_free(stream);
    orr_stream_free(accepting.stream);
    orr_listener_free(listener);
    io_close(rt);
}

/* --- Partitions ------------------------------------------------------------------------------- */

struct two_hosts {
    struct orr_runtime *rt;
    struct orr_network *network;
    struct orr_network_host *web, *db;
    struct orr_listener *listener;
    struct orr_stream *ends[2];
};

static struct two_hosts open_two_hosts(struct orr_network_options options)
{
    struct two_hosts two = { .rt = open_virtual() };
    two.network = use(options);
    assert_int_equal(orr_network_host(two.network, "web", &two.web), 0);
    assert_int_equal(orr_network_host(two.network, "db", &two.db), 0);
    two.listener = listen_on(two.db, "0.0.0.0:80");
    assert_int_equal(connect_from(two.rt, two.web, look_up(two.web, "db", 80), &two.ends[0]), 0);
    two.ends[1] = accept_from(two.rt, two.listener);
    return two;
}

static void close_two_hosts(struct two_hosts *two)
{
    free_both(two->ends);
    orr_listener_free(two->listener);
    assert_int_equal(orr_network_free(two->network), 0);
    io_close(two->rt);
}

static void a_partition_holds_bytes_back_until_it_is_healed(void **state)
{
    (void)state;
    for (int latency = 0; latency < 2; latency++)
        for (int apart = 0; apart < 2; apart++) {
            struct two_hosts two = open_two_hosts((struct orr_network_options){ .latency = latency * 5 * MS });
            struct orr_runtime *rt = two.rt;
            assert_int_equal(io_write(rt, two.ends[0], "before "), 0);
            assert_int_equal(orr_network_partition(two.db, apart ? NULL : two.web), 0);
            assert_int_equal(orr_network_partition(two.web, two.db), 0); /* again does nothing */
            char bytes[64];
            struct io_task reader = { .operation = DO_READ, .stream = two.ends[1], .bytes = bytes, .size = 64 };
            if (!latency)
                expect_text(rt, two.ends[1], "before ");
            io_task_start(rt, &reader);
            assert_int_equal(io_write(rt, two.ends[0], "during "), 0);
            assert_int_equal(run(rt, (struct io_task){ .operation = DO_SHUTDOWN, .stream = two.ends[0] }), 0);
            io_settle(rt);
            assert_false(reader.done);
            uint64_t start = orr_runtime_now(rt);
            assert_int_equal(orr_network_heal(two.network), 0);
            io_turn_until(rt, &reader.done);
            assert_int_equal(orr_runtime_now(rt) - start, latency * 5 * MS);
            const char *expected = latency ? "before during " : "during ";
            assert_int_equal(reader.got, strlen(expected));
            assert_memory_equal(bytes, expected, reader.got);
            io_task_end(&reader);
            expect_end(rt, two.ends[1]);
            close_two_hosts(&two);
        }
}

static void a_connect_waits_for_the_end_of_a_partition(void **state)
{
    (void)state;
    for (int latency = 0; latency < 2; latency++) {
        struct two_hosts two = open_two_hosts((struct orr_network_options){ .latency = latency * 5 * MS });
        assert_int_equal(orr_network_partition(two.web, two.db), 0);
        struct orr_open open = { .account = &io_account, .host = two.web };
        struct io_task connecting = { .operation = DO_CONNECT, .open = &open, .address = look_up(two.web, "db", 80) };
        io_task_start(two.rt, &connecting);
        io_settle(two.rt);
        assert_false(connecting.done);
        assert_int_equal(orr_network_heal(two.network), 0);
        io_turn_until(two.rt, &connecting.done);
        assert_int_equal(connecting.result, 0);
        io_task_end(&connecting);
        orr_stream_free(connecting.stream);
        close_two_hosts(&two);
    }
}

static void a_partition_is_between_its_hosts_alone(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ 0 });
    struct orr_network_host *other;
    struct orr_network *network;
    struct orr_stream *stream;
    assert_int_equal(orr_network_host(two.network, "other", &other), 0);
    assert_int_equal(orr_network_partition(two.web, other), 0);
    assert_int_equal(io_write(two.rt, two.ends[0], "through"), 0);
    expect_text(two.rt, two.ends[1], "through");
    assert_int_equal(orr_network_partition(two.db, NULL), 0);
    assert_int_equal(connect_to(two.rt, two.db, "127.0.0.1:80", &stream), 0); /* to itself */
    orr_stream_free(stream);
    assert_int_equal(orr_network_partition(two.db, two.db), -EINVAL);
    assert_int_equal(orr_network_partition(NULL, two.db), -EINVAL);
    assert_int_equal(orr_network_new(NULL, &network), 0);
    struct orr_network_host *foreign;
    assert_int_equal(orr_network_host(network, "db", &foreign), 0);
    assert_int_equal(orr_network_partition(two.db, foreign), -EINVAL);
    close_two_hosts(&two);
}

/* --- Datagrams -------------------------------------------------------------------------------- */

static struct orr_datagram *open_datagram(struct orr_network_host *host, const char *local, const char *peer)
{
    struct orr_datagram *datagram;
    struct orr_address own, other;
    struct orr_datagram_options options = { .open = { .account = &io_account, .host = host }, .broadcast = true };
    if (local)
        own = io_address(local);
    if (peer)
        other = io_address(peer);
    options.local = local ? &own : NULL;
    options.peer = peer ? &other : NULL;
    options.reuse = true;
    assert_int_equal(orr_datagram_open(&options, &datagram), 0);
    return datagram;
}

static int send_text(struct orr_runtime *rt, struct orr_datagram *datagram, const char *text, const char *to)
{
    struct iovec part = { (char *)text, strlen(text) };
    struct orr_address address;
    if (to)
        address = io_address(to);
    struct io_task sender = { .operation = DO_SEND, .datagram = datagram };
    sender.message = (struct orr_message){ .parts = &part, .count = 1, .address = to ? &address : NULL };
    return io_task_run(rt, &sender);
}

/* The text of a message and, if it is not NULL, where it comes from. */
static void expect_message(struct orr_runtime *rt, struct orr_datagram *datagram, const char *text, const char *from)
{
    char bytes[64];
    struct iovec part = { bytes, sizeof bytes };
    struct orr_address address;
    struct io_task receiver = { .operation = DO_RECEIVE, .datagram = datagram };
    receiver.message = (struct orr_message){ .parts = &part, .count = 1, .address = &address };
    assert_int_equal(io_task_run(rt, &receiver), 0);
    assert_int_equal(receiver.message.size, strlen(text));
    assert_memory_equal(bytes, text, strlen(text));
    if (from)
        expect_address(&address, from);
}

/* Starts to receive, and expects that nothing comes. */
static void expect_silence(struct orr_runtime *rt, struct orr_datagram *datagram)
{
    char bytes[64];
    struct iovec part = { bytes, sizeof bytes };
    struct io_task receiver = { .operation = DO_RECEIVE, .datagram = datagram };
    receiver.message = (struct orr_message){ .parts = &part, .count = 1 };
    io_task_start(rt, &receiver);
    io_settle(rt);
    assert_false(receiver.done);
    orr_task_cancel(receiver.task, NULL);
    io_turn_until(rt, &receiver.done);
    io_task_end(&receiver);
}

static void datagrams_go_from_host_to_host(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ .latency = 2 * MS });
    struct orr_runtime *rt = two.rt;
    struct orr_datagram *db = open_datagram(two.db, "0.0.0.0:53", NULL);
    struct orr_datagram *web = open_datagram(two.web, NULL, "10.0.0.3:53");
    struct orr_address address;
    uint64_t start = orr_runtime_now(rt);
    assert_int_equal(send_text(rt, web, "question", NULL), 0);
    expect_message(rt, db, "question", "10.0.0.2:49153");
    assert_int_equal(orr_runtime_now(rt) - start, 2 * MS);
    assert_int_equal(send_text(rt, db, "answer", "10.0.0.2:49153"), 0);
    expect_message(rt, web, "answer", "10.0.0.3:53");
    assert_int_equal(orr_datagram_address(web, ORR_PEER, &address), 0);
    expect_address(&address, "10.0.0.3:53");
    assert_int_equal(orr_datagram_address(db, ORR_PEER, &address), -ENOTCONN);
    assert_int_equal(send_text(rt, db, "nobody", "192.0.2.1:1"), -EHOSTUNREACH);
    assert_int_equal(send_text(rt, db, "nobody", NULL), -EDESTADDRREQ);
    assert_int_equal(send_text(rt, db, "nobody", "10.0.0.2:7"), 0);
    /* Somebody else cannot reach a connected socket. */
    struct orr_datagram *other = open_datagram(two.db, "0.0.0.0:54", NULL);
    assert_int_equal(send_text(rt, other, "intruder", "10.0.0.2:49153"), 0);
    expect_silence(rt, web);
    orr_datagram_free(other);
    orr_datagram_free(db);
    /* Nobody listens any more: a connected socket hears of that, once. */
    assert_int_equal(send_text(rt, web, "lost", NULL), 0);
    char byte;
    struct iovec part = { &byte, 1 };
    struct io_task receiver = { .operation = DO_RECEIVE, .datagram = web };
    receiver.message = (struct orr_message){ .parts = &part, .count = 1 };
    assert_int_equal(io_task_run(rt, &receiver), -ECONNREFUSED);
    assert_int_equal(send_text(rt, web, "again", NULL), 0);
    orr_datagram_free(web);
    close_two_hosts(&two);
}

static void jitter_lets_datagrams_overtake(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ .jitter = 10 * MS, .seed = 4 });
    struct orr_datagram *db = open_datagram(two.db, "0.0.0.0:53", NULL);
    struct orr_datagram *web = open_datagram(two.web, NULL, "10.0.0.3:53");
    enum { COUNT = 20 };
    char bytes[4], order[COUNT + 1] = { 0 }, sent[COUNT + 1] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        sent[i] = (char)('a' + i);
        assert_int_equal(send_text(two.rt, web, (char[]){ sent[i], '\0' }, NULL), 0);
    }
    int seen[26] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        struct iovec part = { bytes, sizeof bytes };
        struct io_task receiver = { .operation = DO_RECEIVE, .datagram = db };
        receiver.message = (struct orr_message){ .parts = &part, .count = 1 };
        assert_int_equal(io_task_run(two.rt, &receiver), 0);
        order[i] = bytes[0];
        seen[bytes[0] - 'a']++;
    }
    assert_string_not_equal(order, sent);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], 1);
    orr_datagram_free(db);
    orr_datagram_free(web);
    close_two_hosts(&two);
}

static void datagrams_are_lost_by_chance_in_partitions_and_when_there_is_no_room(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ .loss = 0.5, .seed = 4 });
    struct orr_datagram *web = open_datagram(two.web, NULL, "10.0.0.3:53");
    struct orr_datagram *db;
    struct orr_address local = io_address("0.0.0.0:53");
    struct orr_datagram_options options = { .open = { .account = &io_account, .host = two.db }, .local = &local };
    options.receive_buffer = 2000;
    assert_int_equal(orr_datagram_open(&options, &db), 0);
    int arrived = 0;
    for (int i = 0; i < 40; i++) {
        char byte;
        struct iovec part = { &byte, 1 };
        struct io_task receiver = { .operation = DO_RECEIVE, .datagram = db };
        receiver.message = (struct orr_message){ .parts = &part, .count = 1 };
        assert_int_equal(send_text(two.rt, web, "x", NULL), 0);
        io_task_start(two.rt, &receiver);
        io_settle(two.rt);
        arrived += receiver.done;
        if (!receiver.done)
            orr_task_cancel(receiver.task, NULL);
        io_turn_until(two.rt, &receiver.done);
        io_task_end(&receiver);
    }
    assert_true(arrived > 5 && arrived < 35);
    long long idle = io_counted.bytes;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(send_text(two.rt, web, "flood", NULL), 0);
    assert_true(io_counted.bytes > idle);
    assert_true(io_counted.bytes - idle <= 2000);
    orr_datagram_free(db);
    assert_int_equal(orr_datagram_open(&options, &db), 0);
    assert_int_equal(orr_network_partition(two.web, two.db), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(send_text(two.rt, web, "x", NULL), 0);
    assert_int_equal(orr_network_heal(two.network), 0);
    expect_silence(two.rt, db);
    orr_datagram_free(db);
    orr_datagram_free(web);
    close_two_hosts(&two);
}

static void groups_and_broadcasts_reach_every_host(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ .latency = 1 * MS });
    struct orr_runtime *rt = two.rt;
    struct orr_datagram *web = open_datagram(two.web, "0.0.0.0:5353", NULL);
    struct orr_datagram *db = open_datagram(two.db, "0.0.0.0:5353", NULL);
    struct orr_address group = io_address("224.0.0.251:0"), local = io_address("0.0.0.0:0");
    assert_int_equal(send_text(rt, web, "all", "255.255.255.255:5353"), 0);
    expect_message(rt, web, "all", "10.0.0.2:5353");
    expect_message(rt, db, "all", "10.0.0.2:5353");
    assert_int_equal(orr_datagram_join(db, &group, 0), 0);
    assert_int_equal(orr_datagram_join(db, &group, 0), -EADDRINUSE);
    assert_int_equal(orr_datagram_join(db, &group, 7), -ENODEV);
    assert_int_equal(orr_datagram_join(db, &local, 0), -EINVAL);
    assert_int_equal(send_text(rt, web, "group", "224.0.0.251:5353"), 0);
    expect_message(rt, db, "group", "10.0.0.2:5353");
    expect_silence(rt, web);
    assert_int_equal(orr_datagram_join(web, &group, 0), 0);
    assert_int_equal(orr_datagram_set_multicast(web, 0, true), 0); /* stays on the host */
    assert_int_equal(send_text(rt, web, "here", "224.0.0.251:5353"), 0);
    expect_message(rt, web, "here", "10.0.0.2:5353");
    expect_silence(rt, db);
    assert_int_equal(orr_datagram_set_multicast(web, 1, false), 0);
    assert_int_equal(send_text(rt, web, "there", "224.0.0.251:5353"), 0);
    expect_message(rt, db, "there", NULL);
    expect_silence(rt, web);
    assert_int_equal(orr_datagram_leave(db, &group, 0), 0);
    assert_int_equal(orr_datagram_leave(db, &group, 0), -EADDRNOTAVAIL);
    assert_int_equal(send_text(rt, web, "gone", "224.0.0.251:5353"), 0);
    expect_silence(rt, db);
    struct orr_datagram *plain;
    struct orr_datagram_options options = { .open.host = two.web, .local = &local };
    assert_int_equal(orr_datagram_open(&options, &plain), 0);
    assert_int_equal(send_text(rt, plain, "all", "255.255.255.255:5353"), -EACCES);
    orr_datagram_free(plain);
    orr_datagram_free(db);
    orr_datagram_free(web);
    close_two_hosts(&two);
}

static void datagrams_to_paths_carry_descriptors_and_are_never_lost(void **state)
{
    (void)state;
    struct orr_runtime *rt = open_virtual();
    use((struct orr_network_options){ .loss = 1 });
    struct orr_address path = io_address("unix:/run/log");
    struct orr_datagram *log;
    struct orr_datagram_options options = { .open = counted, .local = &path, .receive_buffer = 4000 };
    assert_int_equal(orr_datagram_open(&options, &log), 0);
    struct orr_datagram *sender = open_datagram(NULL, NULL, "unix:/run/log");
    assert_int_equal(orr_network_use(NULL), 0);
    assert_int_equal(send_text(rt, sender, "first", NULL), 0);
    expect_message(rt, log, "first", NULL);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    unsigned before = harness_open_fds();
    struct iovec part = { "fd", 2 };
    struct io_task sending = { .operation = DO_SEND, .datagram = sender };
    sending.message =
        (struct orr_message){ .parts = &part, .count = 1, .descriptors = { fds[1] }, .descriptor_count = 1 };
    assert_int_equal(io_task_run(rt, &sending), 0);
    char bytes[64];
    struct iovec room = { bytes, sizeof bytes };
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = log };
    receiving.message = (struct orr_message){ .parts = &room, .count = 1, .descriptor_count = 1 };
    assert_int_equal(io_task_run(rt, &receiving), 0);
    assert_int_equal(receiving.message.descriptor_count, 1);
    assert_int_equal(write(receiving.message.descriptors[0], "y", 1), 1);
    assert_int_equal(read(fds[0], bytes, 1), 1);
    close(receiving.message.descriptors[0]);
    /* A message that nobody takes takes its descriptors along. */
    assert_int_equal(io_task_run(rt, &sending), 0);
    orr_datagram_free(log);
    assert_int_equal(harness_open_fds(), before);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(send_text(rt, sender, "x", NULL), -ENOENT);
    /* A sender waits while the queue is full. */
    orr_datagram_free(sender);
    assert_int_equal(orr_datagram_open(&options, &log), 0);
    sender = open_datagram(NULL, NULL, "unix:/run/log");
    struct iovec big = { bytes, sizeof bytes };
    struct io_task waiting = { .operation = DO_SEND, .datagram = sender };
    waiting.message = (struct orr_message){ .parts = &big, .count = 1 };
    unsigned sent = 0;
    for (;; sent++) {
        io_task_start(rt, &waiting);
        for (int i = 0; i < 5; i++)
            turn(rt);
        if (!waiting.done)
            break;
        io_task_end(&waiting);
    }
    assert_true(sent > 2);
    for (unsigned i = 0; i <= sent; i++) {
        receiving.datagram = log;
        receiving.message = (struct orr_message){ .parts = &room, .count = 1 };
        assert_int_equal(io_task_run(rt, &receiving), 0);
    }
    io_turn_until(rt, &waiting.done);
    assert_int_equal(waiting.result, 0);
    io_task_end(&waiting);
    orr_datagram_free(sender);
    orr_datagram_free(log);
    io_close(rt);
}

/* --- The end ---------------------------------------------------------------------------------- */

static void freeing_a_network_breaks_what_is_on_it(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ .latency = 1 * MS });
    struct orr_runtime *rt = two.rt;
    struct orr_datagram *datagram = open_datagram(two.db, "0.0.0.0:53", NULL);
    struct orr_open open = { .account = &io_account, .host = two.web };
    struct io_task connecting = { .operation = DO_CONNECT, .open = &open, .address = look_up(two.web, "db", 80) };
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = two.listener };
    io_task_start(rt, &accepting);
    io_task_start(rt, &connecting);
    assert_int_equal(io_write(rt, two.ends[0], "on its way"), 0);
    assert_int_equal(orr_network_free(two.network), 0);
    io_turn_until(rt, &connecting.done);
    io_turn_until(rt, &accepting.done);
    assert_int_equal(connecting.result, -ENETDOWN);
    assert_int_equal(accepting.result, -ENETDOWN);
    io_task_end(&connecting);
    io_task_end(&accepting);
    expect_error(rt, two.ends[0], -ECONNRESET);
    expect_error(rt, two.ends[1], -ECONNRESET);
    assert_int_equal(send_text(rt, datagram, "x", "10.0.0.2:9"), -ENETDOWN);
    orr_datagram_free(datagram);
    two.network = NULL;
    close_two_hosts(&two);
}

static void what_is_open_is_freed_with_the_runtime(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ .latency = 1 * MS });
    struct orr_datagram *db = open_datagram(two.db, "0.0.0.0:53", NULL);
    struct orr_datagram *web = open_datagram(two.web, NULL, "10.0.0.3:53");
    struct orr_stream *ends[2];
    assert_int_equal(orr_pair(&counted, ends), 0);
    assert_int_equal(io_write(two.rt, two.ends[0], "on its way"), 0);
    assert_int_equal(io_write(two.rt, ends[0], "unread"), 0);
    assert_int_equal(send_text(two.rt, web, "on its way", NULL), 0);
    assert_int_equal(orr_network_partition(two.web, two.db), 0);
    assert_non_null(db);
    io_close(two.rt); /* which finds that no byte is left */
}

static int count_open;

static void note_open(void *data, const struct orr_open_info *info)
{
    (void)data;
    assert_string_equal(info->kind, info->stream ? "tcp" : "tcp listener");
    count_open++;
}

static void networks_are_not_listed_among_what_is_open(void **state)
{
    (void)state;
    struct two_hosts two = open_two_hosts((struct orr_network_options){ 0 });
    count_open = 0;
    assert_int_equal(orr_open_visit(NULL, note_open, NULL), 3);
    assert_int_equal(count_open, 3);
    close_two_hosts(&two);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    struct orr_network *network;
    struct orr_network_host *host;
    assert_int_equal(orr_network_new(NULL, &network), -EPERM); /* no worker */
    struct orr_runtime *rt = open_virtual();
    assert_int_equal(orr_network_new(NULL, NULL), -EINVAL);
    assert_int_equal(orr_network_new(&(struct orr_network_options){ .resets = 1.5 }, &network), -EINVAL);
    assert_int_equal(orr_network_new(&(struct orr_network_options){ .short_reads = -0.1 }, &network), -EINVAL);
    assert_int_equal(orr_network_new(NULL, &network), 0);
    assert_int_equal(orr_network_host(network, "x", NULL), -EINVAL);
    assert_int_equal(orr_network_host(NULL, "x", &host), -EINVAL);
    assert_int_equal(orr_network_heal(NULL), -EINVAL);
    assert_int_equal(orr_network_place(NULL, NULL), -EINVAL);
    assert_int_equal(orr_network_here(NULL, NULL), -EINVAL);
    assert_null(orr_network_host_name(NULL));
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_network_free(network), -EPERM);
    assert_int_equal(orr_network_use(network), -EPERM);
    assert_int_equal(orr_network_heal(network), -EPERM);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_network_free(network), 0);
    assert_int_equal(orr_network_free(NULL), 0);
    io_close(rt);
}

/* --- Failing allocations ---------------------------------------------------------------------- */

/* A message from a host to itself; answers whether it came. */
static bool exchange_messages(struct orr_runtime *rt, struct orr_network_host *host)
{
    struct orr_address local = io_address("127.0.0.1:53");
    struct orr_datagram_options here = { .open = { .account = &io_account, .host = host }, .local = &local };
    struct orr_datagram_options there = { .open = { .account = &io_account, .host = host }, .peer = &local };
    struct orr_datagram *receiver = NULL, *sender = NULL;
    char byte = 'x';
    struct iovec part = { &byte, 1 };
    struct orr_message message = { .parts = &part, .count = 1 };
    bool good = !orr_datagram_open(&here, &receiver) && !orr_datagram_open(&there, &sender);
    struct io_task sending = { .operation = DO_SEND, .datagram = sender, .message = message };
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = receiver, .message = message };
    good = good && !io_task_run(rt, &sending) && !io_task_run(rt, &receiving);
    orr_datagram_free(receiver);
    orr_datagram_free(sender);
    return good;
}

/* A task that is placed; answers whether it was. */
struct placed {
    struct orr_network_host *host;
    int result;
    bool done;
};

static enum orr_poll poll_placed(struct orr_task *task, void *data)
{
    struct placed *self = data;
    self->result = orr_network_place(task, self->host);
    self->done = true;
    return ORR_DONE;
}

static bool place_once(struct orr_runtime *rt, struct orr_network_host *host)
{
    struct placed placed = { .host = host };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = poll_placed, .data = &placed }), 0);
    io_turn_until(rt, &placed.done);
    return placed.result == 0;
}

/* Does everything that allocates once; answers whether all of it succeeded. */
static bool use_everything(struct orr_runtime *rt)
{
    struct orr_stream *ends[2] = { NULL, NULL }, *pipe[2] = { NULL, NULL }, *client = NULL;
    struct orr_listener *listener = NULL;
    struct orr_network *network = NULL;
    struct orr_network_host *host = NULL, *far = NULL;
    struct orr_address any = io_address("0.0.0.0:80");
    struct orr_network_options options = { .open = counted, .latency = 1 * MS };
    bool good = !orr_network_new(&options, &network) && !orr_network_use(network) &&
                !orr_network_host(network, "far", &far) && !orr_network_host(network, "near", &host) &&
                !orr_network_partition(host, far) && !orr_network_heal(network);
    good = good && !orr_pair(&counted, ends) && !orr_pipe(&counted, &pipe[0], &pipe[1]);
    if (good) {
        struct orr_listen_options listen = { .socket.open = counted };
        listen.socket.open.host = far;
        good = !orr_listen(&any, &listen, &listener) && !connect_from(rt, host, look_up(host, "far", 80), &client);
    }
    if (good) {
        struct io_task accepting = { .operation = DO_ACCEPT, .open = &counted, .listener = listener };
        good = !io_task_run(rt, &accepting);
        if (good) {
            struct io_task filler = { .operation = DO_FILL, .stream = accepting.stream, .least = 4, .most = 4 };
            good = !io_write(rt, client, "abcd");
            good = good && !io_write(rt, ends[0], "abcd") && !io_write(rt, pipe[1], "abcd");
            good = good && !io_task_run(rt, &filler);
            orr_stream_free(accepting.stream);
        }
    }
    good = good && exchange_messages(rt, far) && place_once(rt, far);
    orr_stream_free(client);
    orr_listener_free(listener);
    orr_network_free(network);
    for (int i = 0; i < 2; i++) {
        orr_stream_free(ends[i]);
        orr_stream_free(pipe[i]);
    }
    return good;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool good = false;
    for (long at = 1; !good; at++) {
        struct orr_runtime *rt = open_with(failing_alloc);
        assert_true(use_everything(rt)); /* so that tasks have their memory */
        fail_at = at;
        good = use_everything(rt);
        good = good && fail_at; /* the failure was not reached */
        fail_at = 0;
        assert_int_equal(io_counted.bytes, 0);
        assert_true(use_everything(rt));
        io_close(rt);
        assert_true(at < 100);
    }
}

static const struct CMUnitTest simulated_tests[] = {
    cmocka_unit_test(on_a_virtual_clock_sockets_are_in_memory),
    cmocka_unit_test(real_sockets_are_had_by_asking),
    cmocka_unit_test(on_a_real_clock_a_network_is_had_by_asking),
    cmocka_unit_test(tasks_run_on_the_host_of_the_task_above_them),
    cmocka_unit_test(names_are_those_of_hosts),
    cmocka_unit_test(hosts_connect_to_each_other_by_name),
    cmocka_unit_test(loopback_is_the_host_itself),
    cmocka_unit_test(an_address_is_bound_once),
    cmocka_unit_test(paths_are_not_made_in_the_file_system),
    cmocka_unit_test(bytes_take_the_latency),
    cmocka_unit_test(nobody_listens_is_heard_after_there_and_back),
    cmocka_unit_test(bandwidth_spreads_bytes_over_time),
    cmocka_unit_test(jitter_delays_bytes_but_keeps_their_order),
    cmocka_unit_test(a_reset_breaks_both_ends_after_what_has_arrived),
    cmocka_unit_test(each_direction_ends_by_itself),
    cmocka_unit_test(what_was_written_arrives_after_a_close),
    cmocka_unit_test(a_write_to_a_closed_peer_fails_when_that_is_heard),
    cmocka_unit_test(a_write_waits_when_the_window_is_full),
    cmocka_unit_test(buffers_that_users_set_bound_what_is_on_its_way),
    cmocka_unit_test(an_account_that_refuses_bytes_fails_the_write),
    cmocka_unit_test(an_account_that_refuses_bytes_of_a_closed_sender_resets_the_receiver),
    cmocka_unit_test(short_reads_and_writes_lose_nothing),
    cmocka_unit_test(random_resets_break_connections),
    cmocka_unit_test(a_connect_waits_while_the_backlog_is_full),
    cmocka_unit_test(listeners_that_share_an_address_share_its_connections),
    cmocka_unit_test(a_connection_that_was_given_up_is_not_accepted),
    cmocka_unit_test(a_partition_holds_bytes_back_until_it_is_healed),
    cmocka_unit_test(a_connect_waits_for_the_end_of_a_partition),
    cmocka_unit_test(a_partition_is_between_its_hosts_alone),
    cmocka_unit_test(datagrams_go_from_host_to_host),
    cmocka_unit_test(jitter_lets_datagrams_overtake),
    cmocka_unit_test(datagrams_are_lost_by_chance_in_partitions_and_when_there_is_no_room),
    cmocka_unit_test(groups_and_broadcasts_reach_every_host),
    cmocka_unit_test(datagrams_to_paths_carry_descriptors_and_are_never_lost),
    cmocka_unit_test(freeing_a_network_breaks_what_is_on_it),
    cmocka_unit_test(what_is_open_is_freed_with_the_runtime),
    cmocka_unit_test(networks_are_not_listed_among_what_is_open),
    cmocka_unit_test(misuse_is_refused),
    cmocka_unit_test(every_allocation_may_fail),
};

HARNESS_MAIN(simulated_tests)
