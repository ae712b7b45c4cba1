/*
 * What users of other runtimes complain of when they use sockets, as tests: none of it can happen
 * on streams.  Each test is named after what is promised instead.
 */
#include "io_task.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void free_both(struct orr_stream *ends[2])
{
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
}

static void put(struct orr_stream *stream, const char *text)
{
    assert_int_equal(write(orr_stream_descriptor(stream), text, strlen(text)), (ssize_t)strlen(text));
}

/* Lets the time limit of a task pass. */
static void time_out(struct orr_runtime *rt, struct io_task *task)
{
    io_task_start(rt, task);
    io_settle(rt);
    assert_false(task->done);
    assert_int_equal(orr_runtime_advance(rt, HOUR), 0);
    io_turn_until(rt, &task->done);
    io_task_end(task);
    assert_int_equal(task->result, -ETIMEDOUT);
}

/* "After a timeout, the part that had come was lost, and the next answer began in the middle." */
static void a_read_that_times_out_loses_no_bytes(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open_manual();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    struct io_task reader = { .operation = DO_FILL, .stream = ends[0], .least = 8, .most = 8, .time_limit = MINUTE };
    put(ends[1], "half");
    time_out(rt, &reader);
    put(ends[1], "half");
    char bytes[16];
    size_t got;
    assert_int_equal(io_read(rt, ends[0], bytes, 4, &got), 0);
    assert_int_equal(got, 4);
    struct io_task again = { .operation = DO_FILL, .stream = ends[0], .least = 4, .most = 4 };
    assert_int_equal(io_task_run(rt, &again), 0);
    assert_int_equal(orr_stream_peek(ends[0], NULL), 4);
    free_both(ends);
    io_close(rt);
}

/* "A timeout sticks to the socket: every later call fails with ETIMEDOUT, as if the kernel had." */
static void a_time_limit_is_no_error_of_the_socket(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open_manual();
    struct orr_stream *ends[2];
    char bytes[8];
    size_t got;
    io_tcp_pair(rt, NULL, ends);
    struct io_task reader = {
        .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 8, .time_limit = MINUTE
    };
    for (int i = 0; i < 3; i++)
        time_out(rt, &reader);
    assert_int_equal(io_write(rt, ends[0], "there"), 0);
    put(ends[1], "back");
    assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0); /* without a limit */
    assert_int_equal(got, 4);
    free_both(ends);
    io_close(rt);
}

/* "ECONNREFUSED is thrown." */
static void a_refused_connection_is_an_answer_with_its_code(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_listener *listener;
    struct io_task connecting = { .operation = DO_CONNECT };
    struct orr_address any = io_address("127.0.0.1:0");
    assert_int_equal(orr_listen(&any, NULL, &listener), 0);
    assert_int_equal(orr_listener_address(listener, &connecting.address), 0);
    assert_int_equal(orr_listener_free(listener), 0); /* nobody listens there any more */
    unsigned fds = harness_open_fds();
    assert_int_equal(io_task_run(rt, &connecting), -ECONNREFUSED);
    connecting.address = io_address("unix:/nowhere/at/all");
    assert_int_equal(io_task_run(rt, &connecting), -ENOENT);
    assert_int_equal(harness_open_fds(), fds);
    io_close(rt);
}

/* "Socket busy: it cannot be read while it is written to." */
static void a_stream_is_read_and_written_at_the_same_time(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    char bytes[8], *much = calloc(1, 4 << 20);
    io_tcp_pair(rt, NULL, ends);
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 8 }, second = reader;
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = much, .size = 4 << 20 };
    io_task_start(rt, &reader);
    io_task_start(rt, &writer);
    io_settle(rt);
    assert_false(reader.done || writer.done);
    assert_int_equal(io_task_run(rt, &second), -EBUSY); /* a second reader is refused at once */
    put(ends[1], "in");
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.got, 2);
    assert_false(writer.done);
    orr_task_cancel(writer.task, NULL);
    io_turn_until(rt, &writer.done);
    io_task_end(&reader);
    io_task_end(&writer);
    free(much);
    free_both(ends);
    io_close(rt);
}

/* "After a timeout, a stale waiter was woken for the next request, or kept the socket." */
static void a_task_that_timed_out_is_never_woken_for_the_stream_again(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open_manual();
    struct orr_stream *ends[2];
    char bytes[8], other[8];
    io_tcp_pair(rt, NULL, ends);
    struct io_task late = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 8, .time_limit = MINUTE };
    struct io_task next = { .operation = DO_READ, .stream = ends[0], .bytes = other, .size = 8 };
    memset(bytes, '.', sizeof bytes);
    time_out(rt, &late);
    unsigned polls = late.polls;
    io_task_start(rt, &next);
    io_settle(rt);
    put(ends[1], "mine");
    io_turn_until(rt, &next.done);
    assert_int_equal(next.got, 4);
    assert_int_equal(late.polls, polls);
    assert_memory_equal(bytes, "........", 8);
    io_task_end(&next);
    free_both(ends);
    io_close(rt);
}

/* "A receive cannot be interrupted when the server shuts down." */
static void a_waiting_receive_ends_with_the_runtime(void **state)
{
    (void)state;
    static const enum operation operations[] = { DO_READ, DO_FILL, DO_LOSS, DO_FINISH, DO_ACCEPT, DO_RECEIVE };
    struct orr_runtime *rt = harness_runtime(1);
    struct orr_address any = io_address("127.0.0.1:0");
    struct io_task tasks[LENGTH(operations)];
    struct orr_stream *ends[2];
    char bytes[8];
    struct iovec room = { bytes, sizeof bytes };
    assert_int_equal(orr_runtime_enter(rt), 0);
    for (size_t i = 0; i < LENGTH(operations); i++) {
        struct io_task *task = &tasks[i];
        *task = (struct io_task){ .operation = operations[i], .bytes = bytes, .size = 8, .least = 1, .most = 1 };
        task->events = ORR_RESET;
        assert_int_equal(orr_pair(NULL, ends), 0);
        task->stream = ends[0];
        task->message = (struct orr_message){ .parts = &room, .count = 1 };
        assert_int_equal(orr_listen(&any, NULL, &task->listener), 0);
        assert_int_equal(orr_datagram_open(&(struct orr_datagram_options){ .local = &any }, &task->datagram), 0);
        io_task_start(rt, task);
    }
    io_settle(rt);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_stop(rt), 0);
    /* Nothing here comes to its end by itself: the runtime's end ends all of it. */
    assert_int_equal(orr_runtime_free(rt), 0);
    for (size_t i = 0; i < LENGTH(operations); i++)
        assert_int_equal(tasks[i].done ? tasks[i].result : -ECANCELED, -ECANCELED);
}

/* "connect() cannot be aborted." */
static void a_connect_can_be_aborted(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open_manual();
    struct orr_listener *listener;
    struct orr_address any = io_address("127.0.0.1:0"), address;
    assert_int_equal(orr_listen(&any, &(struct orr_listen_options){ .backlog = 1 }, &listener), 0);
    assert_int_equal(orr_listener_address(listener, &address), 0);
    int full[2];
    for (int i = 0; i < 2; i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(full[i], (struct sockaddr *)address.bytes, address.length), 0);
    }
    unsigned fds = harness_open_fds();
    struct io_task connecting = { .operation = DO_CONNECT, .address = address, .time_limit = MINUTE };
    time_out(rt, &connecting); /* the backlog is full: nobody answers */
    connecting = (struct io_task){ .operation = DO_CONNECT, .address = address };
    io_task_start(rt, &connecting);
    io_settle(rt);
    assert_false(connecting.done);
    orr_task_cancel(connecting.task, NULL);
    io_turn_until(rt, &connecting.done);
    assert_int_equal(connecting.result, -ECANCELED);
    io_task_end(&connecting);
    assert_int_equal(harness_open_fds(), fds);
    for (int i = 0; i < 2; i++)
        close(full[i]);
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

/* "There are no reads of exact numbers of bytes, and none that put something back." */
static void an_exact_number_of_bytes_can_be_read(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    const void *bytes;
    io_tcp_pair(rt, NULL, ends);
    struct io_task header = { .operation = DO_FILL, .stream = ends[0], .least = 5, .most = 5 };
    io_task_start(rt, &header);
    for (int i = 0; i < 7; i++) { /* byte by byte */
        put(ends[1], (const char *[]){ "h", "e", "l", "l", "o", "x", "y" }[i]);
        io_settle(rt);
        assert_int_equal(header.done, i >= 4);
    }
    io_task_end(&header);
    assert_int_equal(orr_stream_peek(ends[0], &bytes), 5); /* not one more */
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(orr_stream_consume(ends[0], 5), 0);
    struct io_task too_many = { .operation = DO_FILL, .stream = ends[0], .least = 3, .most = 3 };
    assert_int_equal(orr_stream_close(ends[1]), 0);
    assert_int_equal(io_task_run(rt, &too_many), -ENODATA);
    assert_int_equal(orr_stream_peek(ends[0], &bytes), 2); /* what came stays readable */
    assert_memory_equal(bytes, "xy", 2);
    free_both(ends);
    io_close(rt);
}

/* "A write was cancelled: how much of it went out?" */
static void a_write_that_times_out_says_how_much_went_out(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open_manual();
    struct orr_stream *ends[2];
    size_t size = 4 << 20, arrived = 0;
    char *much = calloc(1, size);
    ssize_t got;
    assert_int_equal(orr_pair(NULL, ends), 0);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = much, .size = size };
    writer.time_limit = MINUTE;
    time_out(rt, &writer);
    while ((got = recv(orr_stream_descriptor(ends[1]), much, size, MSG_DONTWAIT)) > 0)
        arrived += (size_t)got;
    assert_true(arrived > 0 && arrived < size);
    assert_int_equal(writer.got, arrived);
    assert_int_equal(orr_stream_written(ends[0]), arrived);
    assert_int_equal(io_write(rt, ends[0], "more"), -ECONNABORTED); /* not in the middle of it */
    free(much);
    free_both(ends);
    io_close(rt);
}

/* "When the client has sent its end, the server cannot answer any more": echo q | nc -N. */
static void the_end_of_the_input_leaves_the_output_open(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    char bytes[16];
    size_t got;
    io_tcp_pair(rt, NULL, ends);
    struct io_task watcher = { .operation = DO_LOSS, .stream = ends[0], .events = ORR_RESET };
    io_task_start(rt, &watcher);
    assert_int_equal(io_write(rt, ends[1], "question"), 0);
    struct io_task ending = { .operation = DO_SHUTDOWN, .stream = ends[1] };
    assert_int_equal(io_task_run(rt, &ending), 0);
    assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 8);
    assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(io_write(rt, ends[0], "answer"), 0);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    assert_int_equal(io_read(rt, ends[1], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 6);
    assert_int_equal(io_read(rt, ends[1], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    io_turn_until(rt, &watcher.done);
    assert_int_equal(watcher.result, -EBADF); /* closed here; the peer was never lost */
    io_task_end(&watcher);
    free_both(ends);
    io_close(rt);
}

/* "Memory grows while the peer does not read", and while nobody reads here. */
static void neither_a_slow_reader_nor_a_fast_writer_costs_memory(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open open = { .account = &io_account };
    struct orr_stream *ends[2];
    char *much = calloc(1, 16 << 20);
    io_tcp_pair(rt, &open, ends);
    long long idle = io_counted.bytes;
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = much, .size = 16 << 20 };
    io_task_start(rt, &writer);
    long long before = allocated_bytes;
    for (int i = 0; i < 20; i++)
        io_settle(rt);
    assert_false(writer.done);                /* it waits; nothing is queued in between */
    assert_int_equal(io_counted.bytes, idle); /* and nothing was read that nobody asked for */
    assert_int_equal(allocated_bytes, before);
    orr_task_cancel(writer.task, NULL);
    io_turn_until(rt, &writer.done);
    io_task_end(&writer);
    free(much);
    free_both(ends);
    io_close(rt);
}

/* "A client's disconnect goes unnoticed while the handler works." */
static void a_disconnect_is_noticed_though_nobody_reads(void **state)
{
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        struct orr_runtime *rt = io_open();
        struct orr_stream *ends[2];
        struct orr_listener *listener;
        struct orr_address any = io_address("127.0.0.1:0"), address;
        assert_int_equal(orr_listen(&any, NULL, &listener), 0);
        assert_int_equal(orr_listener_address(listener, &address), 0);
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client, (struct sockaddr *)address.bytes, address.length), 0);
        struct io_task accepting = { .operation = DO_ACCEPT, .listener = listener };
        assert_int_equal(io_task_run(rt, &accepting), 0);
        ends[0] = accepting.stream;
        assert_int_equal(send(client, "unread", 6, 0), 6);
        struct io_task watcher = { .operation = DO_LOSS, .stream = ends[0], .events = reset ? ORR_RESET : ORR_ENDED };
        io_task_start(rt, &watcher);
        io_settle(rt);
        assert_false(watcher.done);
        struct linger at_once = { .l_onoff = 1 };
        if (reset)
            assert_int_equal(setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(client);
        io_turn_until(rt, &watcher.done);
        assert_int_equal(watcher.result, 0);
        io_task_end(&watcher);
        assert_int_equal(orr_stream_free(ends[0]), 0);
        assert_int_equal(orr_listener_free(listener), 0);
        io_close(rt);
    }
}

static const struct CMUnitTest complaint_tests[] = {
    cmocka_unit_test(a_read_that_times_out_loses_no_bytes),
    cmocka_unit_test(a_time_limit_is_no_error_of_the_socket),
    cmocka_unit_test(a_refused_connection_is_an_answer_with_its_code),
    cmocka_unit_test(a_stream_is_read_and_written_at_the_same_time),
    cmocka_unit_test(a_task_that_timed_out_is_never_woken_for_the_stream_again),
    cmocka_unit_test(a_waiting_receive_ends_with_the_runtime),
    cmocka_unit_test(a_connect_can_be_aborted),
    cmocka_unit_test(an_exact_number_of_bytes_can_be_read),
    cmocka_unit_test(a_write_that_times_out_says_how_much_went_out),
    cmocka_unit_test(the_end_of_the_input_leaves_the_output_open),
    cmocka_unit_test(neither_a_slow_reader_nor_a_fast_writer_costs_memory),
    cmocka_unit_test(a_disconnect_is_noticed_though_nobody_reads),
};

HARNESS_MAIN(complaint_tests)
