/*
 * Streams: what every kind promises, on pairs, pipes and TCP, in the kernel and in a simulated
 * network; both reactors behave the same.
 */
#include "io_task.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

/* A pair of streams of one of three sorts; the second one writes to the first. */
enum sort { PAIR, PIPE, TCP, SORTS };

static void open_sort(struct orr_runtime *rt, enum sort sort, struct orr_stream *ends[2])
{
    struct orr_open open = { .account = &io_account, .label = "test" };
    if (sort == PAIR)
        assert_int_equal(orr_pair(&open, ends), 0);
    else if (sort == PIPE)
        assert_int_equal(orr_pipe(&open, &ends[0], &ends[1]), 0);
    else
        io_tcp_pair(rt, &open, ends);
}

static void free_both(struct orr_stream *ends[2])
{
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
}

enum { WINDOW = 64 * 1024 }; /* of the simulated network */

/* The kernel, and networks without and with a delay. */
enum world { KERNEL, SIMULATED, SLOW, WORLDS };

static void use_world(enum world world)
{
    struct orr_network *network;
    struct orr_network_options options = { .window = WINDOW, .latency = world == SLOW ? 5 * MS : 0 };
    if (world == KERNEL)
        return;
    assert_int_equal(orr_network_new(&options, &network), 0);
    assert_int_equal(orr_network_use(network), 0);
}

/* Runs a part of a test with each sort of stream in each world. */
static void each_sort(void (*part)(struct orr_runtime *rt, struct orr_stream *ends[2]))
{
    for (unsigned i = 0; i < SORTS * WORLDS; i++) {
        struct orr_runtime *rt = io_open_on(i / SORTS == SLOW ? ORR_CLOCK_VIRTUAL : ORR_CLOCK_MONOTONIC);
        struct orr_stream *ends[2];
        use_world(i / SORTS);
        open_sort(rt, i % SORTS, ends);
        part(rt, ends);
        free_both(ends);
        io_close(rt);
    }
}

static void check_read(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[16];
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = sizeof bytes };
    io_task_start(rt, &reader);
    io_settle(rt);
    assert_false(reader.done);
    assert_int_equal(io_write(rt, ends[1], "hello"), 0);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.result, 0);
    assert_int_equal(reader.got, 5);
    assert_memory_equal(bytes, "hello", 5);
    io_task_end(&reader);
}

static void a_read_waits_for_input(void **state)
{
    (void)state;
    each_sort(check_read);
}

static void check_end(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[16];
    size_t got;
    assert_int_equal(io_write(rt, ends[1], "last"), 0);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 4);
    for (int i = 0; i < 2; i++) { /* the end stays the end */
        assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0);
        assert_int_equal(got, 0);
    }
}

static void the_end_comes_after_what_was_written(void **state)
{
    (void)state;
    each_sort(check_end);
}

static void check_waiting_end(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[16];
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = sizeof bytes };
    io_task_start(rt, &reader);
    io_settle(rt);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.result, 0);
    assert_int_equal(reader.got, 0);
    io_task_end(&reader);
}

static void the_end_ends_a_waiting_read(void **state)
{
    (void)state;
    each_sort(check_waiting_end);
}

/* A peer that writes and ends at once raises one edge for both. */
static void check_short_read_then_end(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[64];
    size_t got;
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = sizeof bytes };
    io_task_start(rt, &reader);
    io_settle(rt);
    int fd = orr_stream_descriptor(ends[1]);
    if (fd >= 0)
        assert_int_equal(write(fd, "x", 1), 1);
    else
        assert_int_equal(io_write(rt, ends[1], "x"), 0);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.got, 1);
    assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    io_task_end(&reader);
}

static void an_end_that_comes_with_the_last_bytes_is_seen(void **state)
{
    (void)state;
    each_sort(check_short_read_then_end);
}

static void check_backpressure(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    size_t size = 8 << 20, total = 0;
    char *bytes = malloc(size), *back = malloc(IO_TASK_BYTES);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + (i >> 9));
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = bytes, .size = size };
    io_task_start(rt, &writer);
    io_settle(rt);
    assert_false(writer.done); /* nobody reads */
    while (total < size) {
        size_t got;
        assert_int_equal(io_read(rt, ends[0], back, IO_TASK_BYTES, &got), 0);
        assert_true(got > 0);
        assert_memory_equal(back, bytes + total, got);
        total += got;
    }
    io_turn_until(rt, &writer.done);
    assert_int_equal(writer.result, 0);
    assert_int_equal(writer.got, size);
    io_task_end(&writer);
    free(bytes);
    free(back);
}

static void a_write_waits_while_the_peer_does_not_read(void **state)
{
    (void)state;
    each_sort(check_backpressure);
}

static void check_busy(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[4], *much = calloc(1, 4 << 20);
    struct io_task first = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 4 };
    struct io_task second = first;
    io_task_start(rt, &first);
    io_settle(rt);
    assert_int_equal(io_task_run(rt, &second), -EBUSY);
    second = (struct io_task){ .operation = DO_FILL, .stream = ends[0], .least = 1, .most = 1 };
    assert_int_equal(io_task_run(rt, &second), -EBUSY);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = much, .size = 4 << 20 };
    io_task_start(rt, &writer);
    orr_task_cancel(first.task, NULL);
    io_settle(rt);
    assert_false(writer.done);
    assert_int_equal(io_write(rt, ends[1], "x"), -EBUSY);
    second = (struct io_task){ .operation = DO_SHUTDOWN, .stream = ends[1] };
    assert_int_equal(io_task_run(rt, &second), -EBUSY);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    io_turn_until(rt, &writer.done);
    io_task_end(&first);
    io_task_end(&writer);
    free(much);
}

static void a_second_reader_or_writer_is_refused_at_once(void **state)
{
    (void)state;
    each_sort(check_busy);
}

static void check_close(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[4];
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 4 };
    size_t got;
    io_task_start(rt, &reader);
    io_settle(rt);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.result, -EBADF);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    assert_false(orr_stream_is_open(ends[0]));
    assert_int_equal(io_read(rt, ends[0], bytes, 4, &got), -EBADF);
    io_task_end(&reader);
}

static void closing_ends_a_waiting_read_and_is_idempotent(void **state)
{
    (void)state;
    each_sort(check_close);
}

static void check_free_under_wait(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    char bytes[4], *much = calloc(1, 4 << 20);
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 4 };
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = much, .size = 4 << 20 };
    io_task_start(rt, &reader);
    io_settle(rt);
    io_task_start(rt, &writer);
    orr_task_cancel(reader.task, NULL);
    io_settle(rt);
    assert_false(writer.done);
    io_task_end(&reader);
    reader = (struct io_task){ .operation = DO_LOSS, .stream = ends[0], .events = ORR_RESET };
    io_task_start(rt, &reader);
    io_settle(rt);
    free_both(ends);
    ends[0] = ends[1] = NULL;
    io_turn_until(rt, &reader.done);
    io_turn_until(rt, &writer.done);
    assert_int_equal(reader.result, -EBADF);
    assert_int_equal(writer.result, -EBADF);
    assert_true(writer.got > 0); /* how much had gone out */
    io_task_end(&reader);
    io_task_end(&writer);
    free(much);
}

static void a_stream_may_be_freed_while_tasks_wait_for_it(void **state)
{
    (void)state;
    each_sort(check_free_under_wait);
}

static void check_broken(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    enum { MUCH = 4 << 20 };
    char *much = calloc(1, MUCH);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = much, .size = MUCH };
    io_task_start(rt, &writer);
    io_settle(rt);
    assert_false(writer.done);
    assert_int_equal(orr_stream_written(ends[1]), 0);
    orr_task_cancel(writer.task, NULL);
    io_turn_until(rt, &writer.done);
    assert_int_equal(writer.result, -ECANCELED);
    size_t written = orr_stream_written(ends[1]), got, total = 0;
    assert_true(written > 0 && written < MUCH);
    assert_int_equal(io_write(rt, ends[1], "more"), -ECONNABORTED);
    struct io_task shutdown = { .operation = DO_SHUTDOWN, .stream = ends[1] };
    assert_int_equal(io_task_run(rt, &shutdown), -ECONNABORTED);
    assert_int_equal(orr_stream_written(ends[1]), written);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    do {
        assert_int_equal(io_read(rt, ends[0], much, MUCH, &got), 0);
        total += got;
    } while (got);
    assert_int_equal(total, written);
    io_task_end(&writer);
    free(much);
}

static void a_write_cancelled_in_the_middle_breaks_the_output_and_says_how_much_went_out(void **state)
{
    (void)state;
    each_sort(check_broken);
}

static void check_unbroken(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    enum { MUCH = 4 << 20 };
    char *much = calloc(1, MUCH);
    int fd = orr_stream_descriptor(ends[1]);
    while (fd >= 0 && write(fd, much, 4096) > 0) /* fills the kernel's buffers */
        continue;
    struct io_task filler = { .operation = DO_WRITE, .stream = ends[1], .bytes = much, .size = WINDOW };
    if (fd < 0)
        assert_int_equal(io_task_run(rt, &filler), 0);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = "x", .size = 1 };
    io_task_start(rt, &writer);
    io_settle(rt);
    assert_false(writer.done);
    orr_task_cancel(writer.task, NULL);
    io_turn_until(rt, &writer.done);
    assert_int_equal(writer.result, -ECANCELED);
    io_task_end(&writer);
    size_t got;
    writer = (struct io_task){ .operation = DO_WRITE, .stream = ends[1], .bytes = "y", .size = 1 };
    io_task_start(rt, &writer);
    while (!writer.done)
        assert_int_equal(io_read(rt, ends[0], much, MUCH, &got), 0);
    assert_int_equal(writer.result, 0);
    io_task_end(&writer);
    free(much);
}

static void a_cancelled_write_that_had_sent_nothing_leaves_the_stream_whole(void **state)
{
    (void)state;
    each_sort(check_unbroken);
}

static void check_fill(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    const void *bytes;
    long long before = io_counted.bytes;
    struct io_task filler = { .operation = DO_FILL, .stream = ends[0], .least = 5, .most = 100 };
    io_task_start(rt, &filler);
    assert_int_equal(io_write(rt, ends[1], "abc"), 0);
    io_settle(rt);
    assert_false(filler.done);
    assert_int_equal(orr_stream_peek(ends[0], &bytes), 3);
    assert_int_equal(io_write(rt, ends[1], "defgh"), 0);
    io_turn_until(rt, &filler.done);
    assert_int_equal(filler.result, 0);
    assert_int_equal(orr_stream_peek(ends[0], &bytes), 8);
    assert_memory_equal(bytes, "abcdefgh", 8);
    assert_true(io_counted.bytes > before); /* the buffer is on the account */
    assert_int_equal(orr_stream_consume(ends[0], 6), 0);
    char got[8];
    size_t count;
    assert_int_equal(io_read(rt, ends[0], got, 1, &count), 0);
    assert_int_equal(got[0], 'g');
    assert_int_equal(orr_stream_consume(ends[0], 2), -EINVAL);
    assert_int_equal(orr_stream_consume(ends[0], 1), 0);
    assert_int_equal(io_counted.bytes, before); /* and given back */
    io_task_end(&filler);
    assert_int_equal(io_write(rt, ends[1], "tail"), 0);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    filler = (struct io_task){ .operation = DO_FILL, .stream = ends[0], .least = 5, .most = 5 };
    assert_int_equal(io_task_run(rt, &filler), -ENODATA);
    assert_int_equal(orr_stream_peek(ends[0], &bytes), 4);
    filler.least = 4;
    assert_int_equal(io_task_run(rt, &filler), 0);
}

static void filling_keeps_bytes_readable_until_they_are_consumed(void **state)
{
    (void)state;
    each_sort(check_fill);
}

static void check_large_fill(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    enum { MUCH = 300 * 1000 };
    char *much = malloc(MUCH);
    memset(much, 'a', MUCH);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = much, .size = MUCH };
    struct io_task filler = { .operation = DO_FILL, .stream = ends[0], .least = MUCH - 5, .most = MUCH - 1 };
    io_task_start(rt, &writer);
    assert_int_equal(io_task_run(rt, &filler), 0);
    size_t held = orr_stream_peek(ends[0], NULL);
    assert_true(held >= MUCH - 5 && held <= MUCH - 1); /* nothing beyond what was asked for */
    io_turn_until(rt, &writer.done);
    io_task_end(&writer);
    free(much);
}

static void filling_reads_no_more_than_was_asked_for(void **state)
{
    (void)state;
    each_sort(check_large_fill);
}

static void the_account_can_refuse_a_stream_and_a_buffer(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open open = { .account = &io_account };
    struct orr_stream *ends[2];
    unsigned fds = harness_open_fds();
    io_counted.most = 10;
    io_counted.error = -EDQUOT;
    assert_int_equal(orr_pair(&open, ends), -EDQUOT);
    assert_int_equal(orr_pipe(&open, &ends[0], &ends[1]), -EDQUOT);
    assert_int_equal(harness_open_fds(), fds);
    io_counted.most = 0;
    assert_int_equal(orr_pair(&open, ends), 0);
    io_counted.most = io_counted.bytes + 100;
    struct io_task filler = { .operation = DO_FILL, .stream = ends[0], .least = 1, .most = 1000 };
    assert_int_equal(io_write(rt, ends[1], "kept"), 0);
    assert_int_equal(io_task_run(rt, &filler), -EDQUOT);
    io_counted.most = 0;
    assert_int_equal(io_task_run(rt, &filler), 0); /* nothing was lost */
    assert_int_equal(orr_stream_peek(ends[0], NULL), 4);
    free_both(ends);
    io_close(rt);
}

static void check_half_close(struct orr_runtime *rt, struct orr_stream *ends[2], int first)
{
    struct orr_stream *one = ends[first], *other = ends[!first];
    char bytes[8];
    size_t got;
    struct io_task shutdown = { .operation = DO_SHUTDOWN, .stream = one };
    assert_int_equal(io_write(rt, one, "q"), 0);
    assert_int_equal(io_task_run(rt, &shutdown), 0);
    assert_int_equal(io_task_run(rt, &shutdown), 0); /* again */
    assert_int_equal(io_write(rt, one, "x"), -EPIPE);
    assert_int_equal(io_read(rt, other, bytes, 8, &got), 0);
    assert_int_equal(got, 1);
    assert_int_equal(io_read(rt, other, bytes, 8, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(io_write(rt, other, "answer"), 0); /* its output goes on */
    assert_int_equal(io_read(rt, one, bytes, 8, &got), 0);
    assert_int_equal(got, 6);
}

static void each_direction_ends_by_itself(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct orr_runtime *rt = io_open();
        struct orr_stream *ends[2];
        open_sort(rt, i < 2 ? PAIR : TCP, ends);
        check_half_close(rt, ends, i % 2);
        free_both(ends);
        io_close(rt);
    }
}

/* Breaks a TCP connection: the peer gets a reset. */
static void reset(const struct orr_stream *stream)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    assert_int_equal(connect(orr_stream_descriptor(stream), &none, sizeof none), 0);
}

static void a_reset_is_an_error_that_stays(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    char bytes[8], peer[ORR_ADDRESS_TEXT];
    size_t got;
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 8 };
    struct io_task watcher = { .operation = DO_LOSS, .stream = ends[0], .events = ORR_RESET };
    io_task_start(rt, &reader);
    io_task_start(rt, &watcher);
    io_settle(rt);
    assert_false(watcher.done);
    reset(ends[1]);
    io_turn_until(rt, &reader.done);
    io_turn_until(rt, &watcher.done);
    assert_int_equal(reader.result, -ECONNRESET);
    assert_int_equal(watcher.result, 0);
    assert_int_equal(io_read(rt, ends[0], bytes, 8, &got), -ECONNRESET);
    assert_int_equal(io_write(rt, ends[0], "x"), -EPIPE);
    assert_true(orr_stream_describe(ends[0], ORR_PEER, peer, sizeof peer) > 0); /* still known */
    io_task_end(&reader);
    io_task_end(&watcher);
    assert_int_equal(io_task_run(rt, &watcher), 0); /* it stays lost */
    free_both(ends);
    io_close(rt);
}

static void an_end_of_input_is_no_reset(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    struct io_task reset = { .operation = DO_LOSS, .stream = ends[0], .events = ORR_RESET };
    struct io_task shutdown = { .operation = DO_SHUTDOWN, .stream = ends[1] };
    io_task_start(rt, &reset);
    assert_int_equal(io_write(rt, ends[1], "q"), 0);
    assert_int_equal(io_task_run(rt, &shutdown), 0);
    io_settle(rt);
    assert_false(reset.done);
    orr_task_cancel(reset.task, NULL);
    io_turn_until(rt, &reset.done);
    assert_int_equal(reset.result, -ECANCELED);
    io_task_end(&reset);
    reset.events = ORR_ENDED;
    assert_int_equal(io_task_run(rt, &reset), 0); /* and nothing was read */
    char bytes[8];
    size_t got;
    assert_int_equal(io_read(rt, ends[0], bytes, 8, &got), 0);
    assert_int_equal(got, 1);
    free_both(ends);
    io_close(rt);
}

static volatile sig_atomic_t pipe_signals;

static void count_signal(int number)
{
    (void)number;
    pipe_signals++;
}

static void check_no_signal(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    struct sigaction before, count = { .sa_handler = count_signal };
    sigaction(SIGPIPE, &count, &before);
    pipe_signals = 0;
    assert_int_equal(orr_stream_close(ends[0]), 0);
    int result;
    while ((result = io_write(rt, ends[1], "x")) == 0)
        continue;
    assert_true(result == -EPIPE || result == -ECONNRESET);
    sigset_t pending;
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    assert_int_equal(pipe_signals, 0);
    raise(SIGPIPE); /* the host's own handler is still there, and not blocked */
    assert_int_equal(pipe_signals, 1);
    sigaction(SIGPIPE, &before, NULL);
}

static void writing_without_a_reader_raises_no_signal(void **state)
{
    (void)state;
    each_sort(check_no_signal);
}

static void what_was_written_arrives_though_the_writer_has_not_read_its_input(void **state)
{
    (void)state;
    enum { MUCH = 1 << 20 };
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    char *much = calloc(1, MUCH);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[1], .bytes = much, .size = MUCH };
    assert_int_equal(io_write(rt, ends[0], "a question that nobody reads"), 0);
    io_task_start(rt, &writer);
    size_t total = 0, got;
    while (!writer.done) {
        assert_int_equal(io_read(rt, ends[0], much, 4096, &got), 0);
        total += got;
    }
    assert_int_equal(orr_stream_close(ends[1]), 0); /* without having read */
    do {
        assert_int_equal(io_read(rt, ends[0], much, MUCH, &got), 0);
        total += got;
    } while (got);
    assert_int_equal(total, MUCH);
    io_task_end(&writer);
    free_both(ends);
    free(much);
    io_close(rt);
}

static void finishing_lets_the_output_arrive_while_the_peer_goes_on_sending(void **state)
{
    (void)state;
    enum { MUCH = 8 << 20 };
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    char *much = calloc(1, MUCH), *in = malloc(MUCH);
    struct io_task talking = { .operation = DO_WRITE, .stream = ends[0], .bytes = much, .size = MUCH };
    struct io_task shutdown = { .operation = DO_SHUTDOWN, .stream = ends[0] };
    struct io_task finishing = { .operation = DO_FINISH, .stream = ends[1] };
    assert_int_equal(io_write(rt, ends[1], "an early answer"), 0);
    io_task_start(rt, &talking);
    io_task_start(rt, &finishing);
    io_turn_until(rt, &talking.done);
    assert_int_equal(talking.result, 0);
    io_settle(rt);
    assert_false(finishing.done);
    assert_int_equal(io_task_run(rt, &shutdown), 0);
    io_turn_until(rt, &finishing.done);
    assert_int_equal(finishing.result, 0);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    size_t got;
    assert_int_equal(io_read(rt, ends[0], in, MUCH, &got), 0);
    assert_int_equal(got, 15);
    assert_int_equal(io_read(rt, ends[0], in, MUCH, &got), 0);
    assert_int_equal(got, 0);
    io_task_end(&talking);
    io_task_end(&finishing);
    free_both(ends);
    free(much);
    free(in);
    io_close(rt);
}

struct leaks {
    int count;
    char text[256];
};

static void note_leak(void *data, const struct orr_open_info *info)
{
    struct leaks *leaks = data;
    size_t length = strlen(leaks->text);
    snprintf(leaks->text + length, sizeof leaks->text - length, "%s@%s ", info->kind, info->label);
    leaks->count++;
    if (info->stream)
        orr_stream_free(info->stream);
}

static void what_is_open_is_listed_with_where_it_was_opened(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open here = { .account = &io_account, .label = "a.lua:1" }, there = { .label = "b.lua:2" };
    struct orr_stream *ends[2], *reader, *writer;
    struct orr_listener *listener;
    struct orr_address any = io_address("127.0.0.1:0");
    assert_int_equal(orr_pair(&here, ends), 0);
    assert_int_equal(orr_pipe(&there, &reader, &writer), 0);
    assert_int_equal(orr_listen(&any, &(struct orr_listen_options){ .socket.open = here }, &listener), 0);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    struct leaks leaks = { 0 };
    assert_int_equal(orr_open_visit(&io_account, note_leak, &leaks), 2);
    assert_string_equal(leaks.text, "unix@a.lua:1 tcp listener@a.lua:1 ");
    leaks = (struct leaks){ 0 };
    assert_int_equal(orr_open_visit(NULL, note_leak, &leaks), 3);
    assert_string_equal(leaks.text, "pipe@b.lua:2 pipe@b.lua:2 tcp listener@a.lua:1 ");
    assert_int_equal(orr_stream_free(ends[1]), 0);
    io_close(rt); /* closes the listener */
}

static void what_is_open_is_closed_with_the_runtime(void **state)
{
    (void)state;
    unsigned fds = harness_open_fds();
    struct orr_runtime *rt = io_open();
    struct orr_open open = { .account = &io_account };
    struct orr_stream *ends[2], *more[2];
    assert_int_equal(orr_pair(&open, ends), 0);
    io_tcp_pair(rt, &open, more);
    char bytes[4];
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 4 };
    io_task_start(rt, &reader);
    io_settle(rt);
    io_task_end(&reader);
    io_close(rt);
    assert_true(harness_open_fds() <= fds + 1); /* the process keeps one for each worker */
    assert_true(reader.done);
    assert_int_equal(reader.result, -ECANCELED);
}

static void keep_line(void *data, const char *text)
{
    snprintf(data, 256, "%s", text);
}

static void the_tree_says_which_stream_a_task_waits_for(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    char bytes[4], line[256], peer[ORR_ADDRESS_TEXT], expected[600];
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 4 };
    io_task_start(rt, &reader);
    io_settle(rt);
    assert_true(orr_stream_describe(ends[0], ORR_PEER, peer, sizeof peer) > 0);
    snprintf(expected, sizeof expected, "(unnamed): waiting for a read from tcp %s, ", peer);
    assert_int_equal(orr_tree_print(NULL, keep_line, line), 1);
    assert_memory_equal(line, expected, strlen(expected));
    orr_task_cancel(reader.task, NULL);
    io_turn_until(rt, &reader.done);
    io_task_end(&reader);
    free_both(ends);
    io_close(rt);
}

/* A task that reads for as long as there is anything, and one that counts its own turns. */
struct glutton {
    struct orr_stream *from;
    struct orr_wait wait;
    size_t total;
    bool done;
};

static enum orr_poll gobble(struct orr_task *task, void *data)
{
    struct glutton *self = data;
    char byte;
    size_t got;
    int error;
    while (!(error = orr_stream_read(task, &self->wait, self->from, &byte, 1, &got)) && got)
        self->total += got;
    self->done = error != -EAGAIN;
    return self->done ? ORR_DONE : ORR_PENDING;
}

static void a_task_whose_reads_never_wait_lets_others_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    open_sort(rt, PAIR, ends);
    char *much = calloc(1, 10001);
    memset(much, 'x', 10000);
    struct glutton glutton = { .from = ends[0] };
    assert_int_equal(io_write(rt, ends[1], much), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = gobble, .data = &glutton }), 0);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_turn(rt, ORR_NEVER), 1); /* it has yielded, and is ready */
    assert_true(glutton.total > 0 && glutton.total < 10000);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_stream_close(ends[1]), 0);
    io_turn_until(rt, &glutton.done);
    assert_int_equal(glutton.total, 10000);
    free(much);
    free_both(ends);
    io_close(rt);
}

static void inherited_descriptors_keep_their_mode(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int fds[2], sockets[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    int all[] = { fds[0], fds[1], sockets[0], sockets[1] };
    struct orr_stream *streams[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(orr_stream_open_descriptor(all[i], NULL, &streams[i]), 0);
    for (int i = 0; i < 4; i += 2) {
        char bytes[8], *much = calloc(1, 4 << 20);
        size_t got;
        struct io_task reader = { .operation = DO_READ, .stream = streams[i], .bytes = bytes, .size = 8 };
        io_task_start(rt, &reader);
        io_settle(rt); /* does not block */
        assert_false(reader.done);
        assert_int_equal(io_write(rt, streams[i + 1], "text"), 0);
        io_turn_until(rt, &reader.done);
        assert_int_equal(reader.got, 4);
        io_task_end(&reader);
        struct io_task writer = { .operation = DO_WRITE, .stream = streams[i + 1], .bytes = much, .size = 4 << 20 };
        io_task_start(rt, &writer);
        io_settle(rt); /* nor does a write to a full pipe */
        assert_false(writer.done);
        while (!writer.done)
            assert_int_equal(io_read(rt, streams[i], much, 4 << 20, &got), 0);
        assert_int_equal(writer.result, 0);
        io_task_end(&writer);
        free(much);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fcntl(all[i], F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(orr_stream_free(streams[i]), 0);
        assert_int_equal(fcntl(all[i], F_GETFD), -1); /* closed with the stream */
    }
    io_close(rt);
}

static void standard_streams_are_those_of_c_alone(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *stream;
    struct orr_descriptor_options standard = { .keep = true, .standard = true };
    int path = open("/", O_PATH | O_CLOEXEC);
    assert_int_equal(orr_stream_open_descriptor(3, &standard, &stream), -EINVAL);
    assert_int_equal(orr_stream_open_descriptor(-1, &standard, &stream), -EINVAL);
    assert_int_equal(orr_stream_open_descriptor(path, NULL, &stream), -EBADF);
    close(path);
    io_close(rt);
}

/* What C has buffered for its stdout goes out before a write, in one piece, and once. */
static void a_write_to_standard_output_comes_after_what_c_has_buffered(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int ends[2], before = dup(STDOUT_FILENO);
    char bytes[64] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    struct orr_stream *out;
    struct orr_descriptor_options standard = { .keep = true, .standard = true };
    int error = orr_stream_open_descriptor(STDOUT_FILENO, &standard, &out);
    fputs("first ", stdout);
    error = error ? error : io_write(rt, out, "second ");
    fputs("third ", stdout);
    error = error ? error : io_write(rt, out, "fourth");
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    assert_int_equal(error, 0);
    assert_true(read(ends[0], bytes, sizeof bytes - 1) > 0);
    assert_string_equal(bytes, "first second third fourth");
    assert_int_equal(orr_stream_free(out), 0);
    close(ends[0]);
    close(ends[1]);
    io_close(rt);
}

static void files_and_devices_are_streams_too(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char path[] = "/tmp/orrery-test-XXXXXX", bytes[16];
    size_t got;
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(path);
    struct orr_stream *file, *null;
    struct orr_descriptor_options keep = { .keep = true };
    assert_int_equal(orr_stream_open_descriptor(fd, &keep, &file), 0);
    assert_int_equal(io_write(rt, file, "in a file"), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(io_read(rt, file, bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 9);
    assert_int_equal(io_read(rt, file, bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(orr_stream_free(file), 0);
    assert_true(fcntl(fd, F_GETFD) >= 0); /* kept */
    close(fd);
    assert_int_equal(orr_stream_open_descriptor(open("/dev/null", O_RDWR | O_CLOEXEC), NULL, &null), 0);
    assert_int_equal(io_write(rt, null, "gone"), 0);
    assert_int_equal(io_read(rt, null, bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(orr_stream_free(null), 0);
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(orr_stream_open_descriptor(folder, NULL, &null), -EINVAL);
    close(folder);
    assert_int_equal(orr_stream_open_descriptor(-1, NULL, &null), -EBADF);
    io_close(rt);
}

static void enter_settle_leave(void *data)
{
    assert_int_equal(orr_runtime_enter(data), 0);
    io_settle(data);
    assert_int_equal(orr_runtime_leave(data), 0);
}

static void a_wait_goes_on_when_turns_move_to_another_thread(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct orr_stream *ends[2];
    char bytes[8];
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_pair(NULL, ends), 0);
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = 8 };
    io_task_start(rt, &reader);
    assert_int_equal(orr_runtime_leave(rt), 0);
    harness_on_thread(enter_settle_leave, rt); /* the thread that has armed the watch is gone */
    assert_int_equal(orr_runtime_enter(rt), 0);
    io_settle(rt);
    assert_false(reader.done);
    assert_int_equal(write(orr_stream_descriptor(ends[1]), "moved", 5), 5);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.got, 5);
    io_task_end(&reader);
    io_task_start(rt, &reader); /* the first event ends the request of the thread that is gone */
    io_settle(rt);
    assert_false(reader.done);
    assert_int_equal(write(orr_stream_descriptor(ends[1]), "again", 5), 5);
    io_turn_until(rt, &reader.done);
    io_task_end(&reader);
    free_both(ends);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void check_one_byte_writes(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    const void *bytes;
    struct io_task filler = { .operation = DO_FILL, .stream = ends[0], .least = 100, .most = 100 };
    io_task_start(rt, &filler);
    for (int i = 0; i < 100; i++) {
        assert_false(filler.done);
        assert_int_equal(io_write(rt, ends[1], "1"), 0);
        if (i % 3)
            io_settle(rt);
    }
    io_turn_until(rt, &filler.done);
    assert_int_equal(filler.result, 0);
    assert_int_equal(orr_stream_peek(ends[0], &bytes), 100);
    io_task_end(&filler);
}

static void many_writes_of_one_byte_all_arrive(void **state)
{
    (void)state;
    each_sort(check_one_byte_writes);
}

static void ten_thousand_idle_connections_hold_no_buffer(void **state)
{
    (void)state;
    struct rlimit before, many;
    getrlimit(RLIMIT_NOFILE, &before);
    many = before;
    many.rlim_cur = before.rlim_max < 10300 ? before.rlim_max : 10300;
    setrlimit(RLIMIT_NOFILE, &many);
    unsigned count = WORK(10000) + 100; /* fewer under sanitizers */
    count = count < many.rlim_cur - 200 ? count : (unsigned)many.rlim_cur - 200;
    count -= count % 2;
    struct orr_runtime *rt = io_open();
    struct orr_stream **streams = calloc(count, sizeof(void *));
    struct io_task *readers = calloc(count, sizeof *readers);
    struct orr_open open = { .account = &io_account };
    for (unsigned i = 0; i < count; i += 2)
        assert_int_equal(orr_pair(&open, streams + i), 0);
    long long idle = io_counted.bytes;
    for (unsigned i = 0; i < count; i++) {
        readers[i] = (struct io_task){ .operation = DO_FILL, .stream = streams[i], .least = 1, .most = 4096 };
        io_task_start(rt, &readers[i]);
    }
    io_settle(rt);
    assert_int_equal(io_counted.bytes, idle); /* all of them wait */
    assert_true(idle / count < 512);
    for (unsigned i = 0; i < count; i += 2) /* more events at once than the reactor takes */
        assert_int_equal(write(orr_stream_descriptor(streams[i]), "x", 1), 1);
    for (unsigned i = 0; i < count; i++) {
        if (i % 2)
            io_turn_until(rt, &readers[i].done);
        else
            assert_false(readers[i].done);
        orr_task_cancel(readers[i].task, NULL);
        io_task_end(&readers[i]);
    }
    io_settle(rt);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(orr_stream_free(streams[i]), 0);
    free(streams);
    free(readers);
    io_close(rt);
    setrlimit(RLIMIT_NOFILE, &before);
}

static void a_terminal_keeps_its_mode(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master));
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct termios before, after;
    assert_int_equal(tcgetattr(slave, &before), 0);
    struct orr_stream *terminal;
    assert_int_equal(orr_stream_open_descriptor(slave, &(struct orr_descriptor_options){ .keep = true }, &terminal), 0);
    assert_string_equal(orr_stream_kind(terminal)->name, "terminal");
    char bytes[16], *much = malloc(1 << 20);
    memset(much, 'm', 1 << 20);
    struct io_task reader = { .operation = DO_READ, .stream = terminal, .bytes = bytes, .size = sizeof bytes };
    struct io_task writer = { .operation = DO_WRITE, .stream = terminal, .bytes = much, .size = 1 << 20 };
    io_task_start(rt, &reader);
    io_settle(rt);
    assert_false(reader.done); /* and the loop was not blocked */
    assert_int_equal(write(master, "line\n", 5), 5);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.got, 5);
    io_task_end(&reader);
    io_task_start(rt, &writer);
    io_settle(rt);
    assert_false(writer.done); /* nobody reads what is shown */
    orr_task_cancel(writer.task, NULL);
    io_turn_until(rt, &writer.done);
    io_task_end(&writer);
    assert_int_equal(write(master, "\4", 1), 1); /* Ctrl-D */
    size_t got;
    assert_int_equal(io_read(rt, terminal, bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(tcgetattr(slave, &after), 0);
    assert_int_equal(after.c_lflag, before.c_lflag);
    assert_int_equal(orr_stream_free(terminal), 0);
    close(slave);
    close(master);
    free(much);
    io_close(rt);
}

static void signals_in_the_middle_of_calls_do_no_harm(void **state)
{
    (void)state;
    struct sigaction before, interrupt = { .sa_handler = count_signal }; /* without SA_RESTART */
    sigaction(SIGALRM, &interrupt, &before);
    struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { 0 };
    setitimer(ITIMER_REAL, &often, NULL);
    each_sort(check_backpressure);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
}

/* A task that reads from whichever of two streams has something first, until both have ended. */
struct chooser {
    struct orr_stream *from[2];
    struct orr_wait waits[2];
    struct orr_group group;
    char text[16];
    size_t length, ended;
    bool begun, done;
};

/* Reads what there is, then waits in the group for more. */
static void choose(struct orr_task *task, struct chooser *self, int which)
{
    struct orr_wait *wait = &self->waits[which];
    size_t got = 1;
    int error = 0;
    for (bool grouped = false; !error && got;) {
        error = orr_stream_read(task, wait, self->from[which], self->text + self->length, 1, &got);
        self->length += error ? 0 : got;
        if (error != -EAGAIN || grouped)
            continue;
        orr_wait_withdraw(wait); /* an ordinary wait of the task: back into the group */
        orr_group_add(&self->group, wait);
        grouped = true;
        error = 0;
        got = 1;
    }
    self->ended += !error;
    assert_true(!error || error == -EAGAIN);
}

static enum orr_poll read_either(struct orr_task *task, void *data)
{
    struct chooser *self = data;
    for (int i = 0; i < 2 && !self->begun; i++)
        choose(task, self, i);
    self->begun = true;
    while (self->ended < 2) {
        struct orr_wait *next;
        int error = orr_group_next(task, &self->group, &next);
        if (error == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(error, 0);
        assert_non_null(next);
        choose(task, self, next == &self->waits[1]);
    }
    self->done = true;
    return ORR_DONE;
}

static void a_read_that_a_group_hands_out_in_vain_can_join_it_again(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *one[2], *other[2];
    open_sort(rt, PAIR, one);
    open_sort(rt, PIPE, other);
    struct chooser chooser = { .from = { one[0], other[0] } };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = read_either, .data = &chooser }), 0);
    io_settle(rt);
    for (int i = 0; i < 3; i++) {
        orr_stream_ready(one[0], ORR_READABLE); /* there is nothing */
        io_settle(rt);
        assert_int_equal(chooser.length, i);
        assert_int_equal(write(orr_stream_descriptor(i % 2 ? other[1] : one[1]), &"abc"[i], 1), 1);
        io_settle(rt);
        assert_int_equal(chooser.length, i + 1);
    }
    assert_memory_equal(chooser.text, "abc", 3);
    assert_int_equal(orr_stream_close(one[1]), 0);
    assert_int_equal(orr_stream_close(other[1]), 0);
    io_turn_until(rt, &chooser.done);
    free_both(one);
    free_both(other);
    io_close(rt);
}

/* A task that sends a byte through a pair of its own worker, again and again. */
struct juggler {
    struct orr_stream *ends[2];
    struct orr_wait wait;
    unsigned left;
    bool reads;
    _Atomic unsigned drops;
};

static enum orr_poll juggle(struct orr_task *task, void *data)
{
    struct juggler *self = data;
    char byte = 'x';
    size_t moved;
    struct iovec part = { &byte, 1 };
    if (!self->ends[0])
        assert_int_equal(orr_pair(NULL, self->ends), 0);
    while (self->left) {
        int error = self->reads ? orr_stream_read(task, &self->wait, self->ends[1], &byte, 1, &moved)
                                : orr_stream_write(task, &self->wait, self->ends[0], &part, 1, &moved);
        if (error == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(error, 0);
        assert_int_equal(moved, 1);
        self->left -= self->reads;
        self->reads = !self->reads;
    }
    orr_stream_free(self->ends[0]);
    orr_stream_free(self->ends[1]);
    return ORR_DONE;
}

static void juggler_drop(void *data)
{
    atomic_fetch_add(&((struct juggler *)data)->drops, 1);
}

static void each_worker_has_streams_of_its_own(void **state)
{
    (void)state;
    enum { WORKERS = 3, EACH = 4 };
    struct orr_runtime *rt = harness_runtime(WORKERS);
    struct juggler jugglers[WORKERS * EACH];
    for (unsigned i = 0; i < LENGTH(jugglers); i++) {
        jugglers[i] = (struct juggler){ .left = WORK(5000) + 10 };
        struct orr_spawn spawn = { .poll = juggle, .data = &jugglers[i], .drop = juggler_drop };
        spawn.worker = 1 + i % WORKERS;
        assert_int_equal(orr_spawn(rt, &spawn), 0);
    }
    assert_int_equal(orr_runtime_run(rt), 0);
    for (unsigned i = 0; i < LENGTH(jugglers); i++)
        assert_int_equal(jugglers[i].drops, 1);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2], *pair[2], *none;
    static const struct orr_stream_kind empty = { .name = "empty" };
    open_sort(rt, PAIR, ends);
    assert_int_equal(orr_stream_new(&empty, NULL, &none), -EINVAL);
    assert_int_equal(orr_stream_new(NULL, NULL, &none), -EINVAL);
    assert_int_equal(orr_stream_close(NULL), -EINVAL);
    assert_int_equal(orr_stream_free(NULL), 0);
    assert_int_equal(orr_pair(NULL, NULL), -EINVAL);
    assert_int_equal(orr_stream_set(ends[0], ORR_SET_DELAY, 1), -ENOTSUP);
    assert_int_equal(orr_stream_set(ends[0], ORR_SET_SEND_BUFFER, -1), -EINVAL);
    struct io_task filler = { .operation = DO_FILL, .stream = ends[0], .least = 2, .most = 1 };
    assert_int_equal(io_task_run(rt, &filler), -EINVAL);
    filler.least = 0;
    assert_int_equal(io_task_run(rt, &filler), -EINVAL);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_stream_close(ends[0]), -EPERM); /* not the worker's thread */
    assert_int_equal(orr_pair(NULL, pair), -EPERM);
    assert_int_equal(orr_runtime_enter(rt), 0);
    free_both(ends);
    io_close(rt);
}

static const struct CMUnitTest stream_tests[] = {
    cmocka_unit_test(a_read_waits_for_input),
    cmocka_unit_test(the_end_comes_after_what_was_written),
    cmocka_unit_test(the_end_ends_a_waiting_read),
    cmocka_unit_test(an_end_that_comes_with_the_last_bytes_is_seen),
    cmocka_unit_test(a_write_waits_while_the_peer_does_not_read),
    cmocka_unit_test(a_second_reader_or_writer_is_refused_at_once),
    cmocka_unit_test(closing_ends_a_waiting_read_and_is_idempotent),
    cmocka_unit_test(a_stream_may_be_freed_while_tasks_wait_for_it),
    cmocka_unit_test(a_write_cancelled_in_the_middle_breaks_the_output_and_says_how_much_went_out),
    cmocka_unit_test(a_cancelled_write_that_had_sent_nothing_leaves_the_stream_whole),
    cmocka_unit_test(filling_keeps_bytes_readable_until_they_are_consumed),
    cmocka_unit_test(filling_reads_no_more_than_was_asked_for),
    cmocka_unit_test(the_account_can_refuse_a_stream_and_a_buffer),
    cmocka_unit_test(each_direction_ends_by_itself),
    cmocka_unit_test(a_reset_is_an_error_that_stays),
    cmocka_unit_test(an_end_of_input_is_no_reset),
    cmocka_unit_test(writing_without_a_reader_raises_no_signal),
    cmocka_unit_test(what_was_written_arrives_though_the_writer_has_not_read_its_input),
    cmocka_unit_test(finishing_lets_the_output_arrive_while_the_peer_goes_on_sending),
    cmocka_unit_test(what_is_open_is_listed_with_where_it_was_opened),
    cmocka_unit_test(what_is_open_is_closed_with_the_runtime),
    cmocka_unit_test(the_tree_says_which_stream_a_task_waits_for),
    cmocka_unit_test(a_task_whose_reads_never_wait_lets_others_run),
    cmocka_unit_test(inherited_descriptors_keep_their_mode),
    cmocka_unit_test(standard_streams_are_those_of_c_alone),
    cmocka_unit_test(a_write_to_standard_output_comes_after_what_c_has_buffered),
    cmocka_unit_test(files_and_devices_are_streams_too),
    cmocka_unit_test(a_wait_goes_on_when_turns_move_to_another_thread),
    cmocka_unit_test(many_writes_of_one_byte_all_arrive),
    cmocka_unit_test(ten_thousand_idle_connections_hold_no_buffer),
    cmocka_unit_test(a_terminal_keeps_its_mode),
    cmocka_unit_test(signals_in_the_middle_of_calls_do_no_harm),
    cmocka_unit_test(a_read_that_a_group_hands_out_in_vain_can_join_it_again),
    cmocka_unit_test(each_worker_has_streams_of_its_own),
    cmocka_unit_test(misuse_is_refused),
};

HARNESS_MAIN(stream_tests)
