/*
 * Both ends of a connection do things at random: they read, write, wait for the end, shut down,
 * close and cancel.  A model of two queues of bytes says what each call must return.
 *
 * The same steps are made on sockets of the kernel and in simulated networks, with and without
 * delays, short reads and short writes.  What comes out must be the same, call by call.
 *
 * ORR_TEST_SEED=N repeats one run.
 */
#include "io_task.h"

#include <stdio.h>
#include <stdlib.h>

enum world {
    KERNEL,
    SIMULATED,
    DELAYED, /* with latency and jitter */
    CHOPPED, /* with delays, short reads and short writes */
    WORLDS,
};

enum sort { PAIR, TCP, SORTS };

enum {
    STEPS = 600,
    RUNS = 6,
    QUEUE_MOST = 16 * 1024, /* bytes that no kernel refuses to keep */
    WRITE_MOST = 3000,
    TRACE_MOST = 256 * 1024,
};

/* --- The model -------------------------------------------------------------------------------- */

/* One end.  Its input is what the other end has sent and it has not read. */
struct side {
    char input[QUEUE_MOST + WRITE_MOST];
    size_t length;
    bool closed, shut;
    bool deaf;       /* it knows that the other one is gone, because that has reset it */
    int write_error; /* kept */
};

struct two {
    struct orr_runtime *rt;
    enum sort sort;
    uint64_t random;
    struct orr_stream *streams[2];
    struct side sides[2];
    char *trace;
    size_t traced;
    uint64_t written; /* bytes so far: the next byte follows from this */
};

static unsigned choose(struct two *two, unsigned below)
{
    return (unsigned)(random_bits(&two->random) % below);
}

static void note(struct two *two, const char *what, int end, int result, size_t bytes)
{
    size_t room = TRACE_MOST - two->traced;
    int length = snprintf(two->trace + two->traced, room, "%s %d %d %zu\n", what, end, result, bytes);
    assert_true(length > 0 && (size_t)length < room);
    two->traced += (size_t)length;
}

/* What a write must return before it is made. */
static int expected_write(const struct two *two, int end)
{
    const struct side *self = &two->sides[end], *other = &two->sides[1 - end];
    if (self->closed)
        return -EBADF;
    if (self->write_error)
        return self->write_error;
    if (self->shut)
        return -EPIPE;
    return (two->sort == PAIR && other->closed) || self->deaf ? -EPIPE : 0;
}

/* --- Steps ------------------------------------------------------------------------------------ */

static void write_some(struct two *two, int end)
{
    struct side *self = &two->sides[end], *other = &two->sides[1 - end];
    char bytes[WRITE_MOST];
    size_t size = 1 + choose(two, choose(two, 4) ? 40 : WRITE_MOST);
    if (other->length + size > QUEUE_MOST)
        return;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((two->written + i) * 131 >> 3);
    struct io_task writer = { .operation = DO_WRITE, .stream = two->streams[end], .bytes = bytes, .size = size };
    int expected = expected_write(two, end), result = io_task_run(two->rt, &writer);
    assert_int_equal(result, expected);
    assert_int_equal(writer.got, expected ? 0 : size);
    note(two, "write", end, result, writer.got);
    if (expected && !self->closed && !self->shut)
        self->write_error = expected;
    if (expected)
        return;
    two->written += size;
    if (other->closed) { /* only TCP says nothing at once */
        self->deaf = true;
        return;
    }
    memcpy(other->input + other->length, bytes, size);
    other->length += size;
}

static void take(struct side *self, const char *bytes, size_t size)
{
    assert_true(size <= self->length);
    assert_memory_equal(bytes, self->input, size);
    self->length -= size;
    memmove(self->input, self->input + size, self->length);
}

/* Reads what must be there, in as many calls as it takes. */
static void read_there(struct two *two, int end, size_t size)
{
    char bytes[QUEUE_MOST];
    size_t total = 0;
    while (total < size) {
        size_t got;
        assert_int_equal(io_read(two->rt, two->streams[end], bytes, size - total, &got), 0);
        assert_true(got > 0);
        take(&two->sides[end], bytes, got);
        total += got;
    }
}

/* A read that has to wait: it is cancelled, or the other end writes. */
static void read_later(struct two *two, int end)
{
    char bytes[QUEUE_MOST];
    struct io_task reader = { .operation = DO_READ, .stream = two->streams[end], .bytes = bytes, .size = sizeof bytes };
    io_task_start(two->rt, &reader);
    io_settle(two->rt);
    assert_false(reader.done);
    if (choose(two, 2))
        write_some(two, 1 - end);
    io_settle(two->rt);
    size_t came = two->sides[end].length;
    assert_int_equal(reader.done, came > 0);
    if (!came)
        orr_task_cancel(reader.task, NULL);
    io_turn_until(two->rt, &reader.done);
    assert_int_equal(reader.result, came ? 0 : -ECANCELED);
    io_task_end(&reader);
    if (came)
        take(&two->sides[end], bytes, reader.got);
    read_there(two, end, two->sides[end].length);
    note(two, "later", end, reader.result, came);
}

static void read_some(struct two *two, int end)
{
    struct side *self = &two->sides[end];
    const struct side *other = &two->sides[1 - end];
    size_t most = 1 + choose(two, choose(two, 2) ? 50 : 2 * WRITE_MOST), got = 0;
    char byte;
    if (!self->closed && self->length) {
        most = most < self->length ? most : self->length;
        read_there(two, end, most);
        note(two, "read", end, 0, most);
    } else if (self->closed || other->closed || other->shut) {
        int result = io_read(two->rt, two->streams[end], &byte, 1, &got);
        assert_int_equal(result, self->closed ? -EBADF : 0);
        assert_int_equal(got, 0);
        note(two, "end", end, result, got);
    } else {
        read_later(two, end);
    }
}

/* A fill for more than is there consumes nothing, whether it is cancelled or meets the end. */
static void fill_too_much(struct two *two, int end)
{
    struct side *self = &two->sides[end];
    const struct side *other = &two->sides[1 - end];
    struct io_task filler = { .operation = DO_FILL, .stream = two->streams[end] };
    filler.least = filler.most = self->length + 1;
    io_task_start(two->rt, &filler);
    io_settle(two->rt);
    bool ends = self->closed || other->closed || other->shut;
    assert_int_equal(filler.done, ends);
    if (!ends)
        orr_task_cancel(filler.task, NULL);
    io_turn_until(two->rt, &filler.done);
    assert_int_equal(filler.result, self->closed ? -EBADF : ends ? -ENODATA : -ECANCELED);
    io_task_end(&filler);
    assert_int_equal(orr_stream_peek(two->streams[end], NULL), self->closed ? 0 : self->length);
    note(two, "fill", end, filler.result, self->closed ? 0 : self->length);
}

static void await_loss(struct two *two, int end, unsigned events)
{
    const struct side *self = &two->sides[end], *other = &two->sides[1 - end];
    struct io_task loss = { .operation = DO_LOSS, .stream = two->streams[end], .events = events };
    io_task_start(two->rt, &loss);
    io_settle(two->rt);
    bool lost = events == ORR_ENDED ? other->closed || other->shut : self->deaf || self->write_error;
    assert_int_equal(loss.done, self->closed || lost);
    if (!loss.done)
        orr_task_cancel(loss.task, NULL);
    io_turn_until(two->rt, &loss.done);
    assert_int_equal(loss.result, self->closed ? -EBADF : lost ? 0 : -ECANCELED);
    io_task_end(&loss);
    note(two, "loss", end, loss.result, events);
}

static void shut_down(struct two *two, int end)
{
    struct side *self = &two->sides[end];
    struct io_task ending = { .operation = DO_SHUTDOWN, .stream = two->streams[end] };
    int expected = self->closed        ? -EBADF
                   : self->shut        ? 0
                   : self->write_error ? self->write_error
                   : self->deaf        ? -ENOTCONN
                                       : 0;
    int result = io_task_run(two->rt, &ending);
    assert_int_equal(result, expected);
    self->shut = self->shut || !expected;
    if (expected && !self->closed)
        self->write_error = expected;
    note(two, "shutdown", end, result, 0);
}

static void close_one(struct two *two, int end)
{
    assert_int_equal(orr_stream_close(two->streams[end]), 0);
    two->sides[end].closed = true;
    two->sides[end].length = 0;
    io_settle(two->rt);
    note(two, "close", end, 0, 0);
}

/* --- A run ------------------------------------------------------------------------------------ */

static void connect_both(struct two *two)
{
    struct orr_open open = { .account = &io_account };
    two->sides[0] = two->sides[1] = (struct side){ 0 };
    if (two->sort == PAIR)
        assert_int_equal(orr_pair(&open, two->streams), 0);
    else
        io_tcp_pair(two->rt, &open, two->streams);
}

static void free_both(struct two *two)
{
    assert_int_equal(orr_stream_free(two->streams[0]), 0);
    assert_int_equal(orr_stream_free(two->streams[1]), 0);
    assert_int_equal(io_counted.bytes, 0);
}

static void step(struct two *two)
{
    int end = (int)choose(two, 2);
    switch (choose(two, 16)) {
    default:
        write_some(two, end);
        break;
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        read_some(two, end);
        break;
    case 6:
        fill_too_much(two, end);
        break;
    case 7:
        await_loss(two, end, choose(two, 2) ? ORR_ENDED : ORR_RESET);
        break;
    case 8:
        if (!choose(two, 3))
            shut_down(two, end);
        break;
    case 9:
        if (!choose(two, 3))
            close_one(two, end);
        break;
    }
    io_settle(two->rt);
    if (two->sides[0].closed && two->sides[1].closed && !choose(two, 4)) {
        free_both(two);
        connect_both(two);
    }
}

static void use_world(enum world world, uint64_t seed)
{
    struct orr_network *network;
    struct orr_network_options options = { .seed = seed };
    if (world == KERNEL)
        return;
    if (world >= DELAYED) {
        options.latency = 3 * MS;
        options.jitter = 2 * MS;
        options.bandwidth = 1000 * 1000;
    }
    if (world == CHOPPED)
        options.short_reads = options.short_writes = 0.5;
    assert_int_equal(orr_network_new(&options, &network), 0);
    assert_int_equal(orr_network_use(network), 0);
}

/* Makes the steps of a seed, and answers what came out; the caller frees it. */
static char *run(enum world world, enum sort sort, uint64_t seed)
{
    struct two two = { .sort = sort, .random = seed };
    two.rt = io_open_on(world == KERNEL ? ORR_CLOCK_MONOTONIC : ORR_CLOCK_VIRTUAL);
    two.trace = malloc(TRACE_MOST);
    use_world(world, seed);
    connect_both(&two);
    for (int i = 0; i < WORK(STEPS) + 60; i++)
        step(&two);
    free_both(&two);
    io_close(two.rt);
    return two.trace;
}

static void expect_same(const char *kernel, const char *simulated)
{
    size_t same = 0, line = 0;
    while (kernel[same] && kernel[same] == simulated[same]) {
        if (kernel[same++] == '\n')
            line = same;
    }
    if (kernel[same] != simulated[same])
        fail_msg("the kernel: %.40s\nsimulated: %.40s", kernel + line, simulated + line);
}

static void both_ends_do_what_the_model_says_in_every_world(void **state)
{
    (void)state;
    uint64_t seed = harness_seed(1);
    for (uint64_t i = 0; i < RUNS; i++)
        for (enum sort sort = 0; sort < SORTS; sort++) {
            uint64_t start = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
            char *kernel = run(KERNEL, sort, start);
            for (enum world world = SIMULATED; world < WORLDS; world++) {
                char *simulated = run(world, sort, start);
                expect_same(kernel, simulated);
                free(simulated);
            }
            free(kernel);
        }
}

/* --- More than a connection holds ------------------------------------------------------------- */

enum { FLOOD_MOST = 1 << 20 };

static char flood_byte(uint64_t at)
{
    return (char)(at * 31 + (at >> 11));
}

/* Reads at random until `most` bytes have come or nothing is there. */
static void swallow(struct two *two, uint64_t *read, size_t most, const bool *until)
{
    static char bytes[IO_TASK_BYTES];
    while (most) {
        size_t size = 1 + choose(two, sizeof bytes);
        struct io_task reader = { .operation = DO_READ, .stream = two->streams[1], .bytes = bytes };
        reader.size = size < most ? size : most;
        io_task_start(two->rt, &reader);
        io_settle(two->rt);
        bool came = reader.done;
        if (!came)
            orr_task_cancel(reader.task, NULL);
        io_turn_until(two->rt, &reader.done);
        io_task_end(&reader);
        for (size_t i = 0; i < reader.got; i++)
            assert_int_equal(bytes[i], flood_byte(*read + i));
        *read += reader.got;
        most -= reader.got;
        if (!came || !reader.got || *until)
            return;
    }
}

/* Writes more than fits, cancels it at random; what has come is what the writer was told. */
static void flood(struct two *two, char *bytes)
{
    uint64_t sent = 0, received = 0;
    connect_both(two);
    for (int i = 0; i < 4; i++) {
        size_t size = 1 + choose(two, FLOOD_MOST);
        for (size_t at = 0; at < size; at++)
            bytes[at] = flood_byte(sent + at);
        struct io_task writer = { .operation = DO_WRITE, .stream = two->streams[0], .bytes = bytes, .size = size };
        io_task_start(two->rt, &writer);
        bool cancels = !choose(two, 4);
        swallow(two, &received, cancels ? choose(two, FLOOD_MOST) : SIZE_MAX, &writer.done);
        if (cancels && !writer.done)
            orr_task_cancel(writer.task, NULL);
        io_turn_until(two->rt, &writer.done);
        io_task_end(&writer);
        sent += writer.got;
        if (writer.result == 0)
            assert_int_equal(writer.got, size);
        else
            assert_int_equal(writer.result, -ECANCELED);
        if (writer.result && writer.got) { /* nothing may follow a part */
            assert_int_equal(orr_stream_written(two->streams[0]), writer.got);
            assert_int_equal(io_write(two->rt, two->streams[0], "x"), -ECONNABORTED);
            break;
        }
    }
    assert_int_equal(orr_stream_close(two->streams[0]), 0);
    const bool never = false;
    swallow(two, &received, SIZE_MAX, &never);
    assert_int_equal(received, sent);
    char byte;
    size_t got;
    assert_int_equal(io_read(two->rt, two->streams[1], &byte, 1, &got), 0);
    assert_int_equal(got, 0);
    free_both(two);
}

static void what_arrives_is_what_the_writer_was_told(void **state)
{
    (void)state;
    uint64_t seed = harness_seed(1);
    char *bytes = malloc(FLOOD_MOST + 1);
    for (enum world world = 0; world < WORLDS; world++)
        for (enum sort sort = 0; sort < SORTS; sort++) {
            struct two two = { .sort = sort, .random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1 };
            two.rt = io_open_on(world == KERNEL ? ORR_CLOCK_MONOTONIC : ORR_CLOCK_VIRTUAL);
            use_world(world, seed);
            for (int i = 0; i < WORK(10) + 1; i++)
                flood(&two, bytes);
            io_close(two.rt);
        }
    free(bytes);
}

static const struct CMUnitTest two_sides_tests[] = {
    cmocka_unit_test(both_ends_do_what_the_model_says_in_every_world),
    cmocka_unit_test(what_arrives_is_what_the_writer_was_told),
};

HARNESS_MAIN(two_sides_tests)
