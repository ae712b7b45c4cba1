#include "io_task.h"

#include "io/stream.h"

#include <poll.h>
#include <stdlib.h>

static int attempt(struct orr_task *task, struct io_task *self)
{
    struct iovec part = { .iov_base = self->bytes, .iov_len = self->size };
    switch (self->operation) {
    case DO_READ:
        return orr_stream_read(task, &self->wait, self->stream, self->bytes, self->size, &self->got);
    case DO_FILL:
        return orr_stream_fill(task, &self->wait, self->stream, self->least, self->most);
    case DO_WRITE:
        return orr_stream_write(task, &self->wait, self->stream, &part, 1, &self->got);
    case DO_SHUTDOWN:
        return orr_stream_shutdown(task, &self->wait, self->stream);
    case DO_LOSS:
        return orr_stream_await_loss(task, &self->wait, self->stream, self->events);
    case DO_ACCEPT:
        return orr_accept(task, &self->wait, self->listener, self->open, &self->stream);
    case DO_CONNECT:
        return orr_connect(task, &self->wait, &self->address,
                           &(struct orr_socket_options){ .open = self->open ? *self->open : (struct orr_open){ 0 } },
                           &self->stream);
    case DO_SEND:
        return orr_datagram_send(task, &self->wait, self->datagram, &self->message);
    case DO_RECEIVE:
        return orr_datagram_receive(task, &self->wait, self->datagram, &self->message);
    case DO_COPY:
        return orr_stream_copy(task, &self->copy, self->stream, self->to);
    case DO_FINISH:
        return orr_stream_finish(task, &self->wait, self->stream);
    case DO_SLEEP:
        return orr_sleep(task, &self->wait, MS);
    }
    return -ENOSYS;
}

/* The steps of a task. */
enum { BEGIN, NAP, OPERATE, LEAVE };

static int take_step(struct orr_task *task, struct io_task *self)
{
    switch (self->step) {
    case BEGIN:
        if (self->time_limit)
            orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .timeout_ns = self->time_limit });
        self->step = NAP;
        /* fall through */
    case NAP:
        if (self->naps && orr_sleep(task, &self->wait, YEAR) == -EAGAIN)
            return -EAGAIN;
        if (self->hasty)
            spree_spend(worker_current, 1 << 24);
        self->step = OPERATE;
        /* fall through */
    case OPERATE:
        self->result = attempt(task, self);
        if (self->result == -EAGAIN)
            return -EAGAIN;
        self->step = LEAVE;
        /* fall through */
    default:
        return self->time_limit ? orr_scope_leave(task, &self->wait, &self->scope, self->result) : self->result;
    }
}

static enum orr_poll poll_io_task(struct orr_task *task, void *data)
{
    struct io_task *self = data;
    self->polls++;
    int result = take_step(task, self);
    if (result == -EAGAIN)
        return ORR_PENDING;
    if (self->result)
        self->result = result; /* a success stays one, though the time was up by then */
    self->done = true;
    return ORR_DONE;
}

void io_task_start(struct orr_runtime *rt, struct io_task *self)
{
    self->done = false;
    self->step = BEGIN;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = poll_io_task, .data = self, .task = &self->task }), 0);
}

void io_task_end(struct io_task *self)
{
    orr_task_unref(self->task);
    self->task = NULL;
}

static bool on_manual_clock;

/* One turn; the calling thread has entered the runtime, before and after. */
static int turn(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    int more = orr_runtime_turn(rt, ORR_NEVER);
    assert_true(more >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    return more;
}

void io_turn_until(struct orr_runtime *rt, const bool *flag)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    int fd = orr_runtime_fd(rt);
    assert_true(fd >= 0);
    while (!*flag) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        if (orr_runtime_turn(rt, ORR_NEVER) != 0 || *flag)
            continue;
        if (on_manual_clock && poll(&ready, 1, 0) == 0)
            orr_runtime_advance(rt, MS / 4);
        else if (!on_manual_clock)
            poll(&ready, 1, 1000);
    }
    assert_int_equal(orr_runtime_enter(rt), 0);
}

void io_settle(struct orr_runtime *rt)
{
    enum { QUIET = 3 }; /* turns in a row without work */
    for (int quiet = 0; quiet < QUIET;)
        quiet = turn(rt) ? 0 : quiet + 1;
}

int io_task_run(struct orr_runtime *rt, struct io_task *self)
{
    io_task_start(rt, self);
    io_turn_until(rt, &self->done);
    io_task_end(self);
    return self->result;
}

int io_read(struct orr_runtime *rt, struct orr_stream *stream, void *bytes, size_t size, size_t *got)
{
    struct io_task reader = { .operation = DO_READ, .stream = stream, .bytes = bytes, .size = size };
    int result = io_task_run(rt, &reader);
    *got = reader.got;
    return result;
}

int io_write(struct orr_runtime *rt, struct orr_stream *stream, const char *text)
{
    struct io_task writer = { .operation = DO_WRITE, .stream = stream, .bytes = (char *)text, .size = strlen(text) };
    return io_task_run(rt, &writer);
}

struct orr_address io_address(const char *text)
{
    struct orr_address address;
    assert_int_equal(orr_address_parse(text, strlen(text), &address), 0);
    return address;
}

/*
 * Fixes how much the kernel holds. By itself it takes up to net.ipv4.tcp_wmem and tcp_rmem, on some
 * machines tens of megabytes, and a test cannot know what is too much. Networks in memory have no
 * such buffers.
 */
static void bound_buffers(struct orr_stream *stream)
{
    if (orr_stream_descriptor(stream) < 0)
        return;
    assert_int_equal(orr_stream_set(stream, ORR_SET_SEND_BUFFER, IO_TASK_KERNEL_BUFFER), 0);
    assert_int_equal(orr_stream_set(stream, ORR_SET_RECEIVE_BUFFER, IO_TASK_KERNEL_BUFFER), 0);
}

void io_tcp_pair(struct orr_runtime *rt, const struct orr_open *open, struct orr_stream *ends[2])
{
    struct orr_address any = io_address("127.0.0.1:0");
    struct io_task accepting = { .operation = DO_ACCEPT, .open = open };
    struct io_task connecting = { .operation = DO_CONNECT, .open = open };
    assert_int_equal(orr_listen(&any, NULL, &accepting.listener), 0);
    assert_int_equal(orr_listener_address(accepting.listener, &connecting.address), 0);
    io_task_start(rt, &accepting);
    assert_int_equal(io_task_run(rt, &connecting), 0);
    io_turn_until(rt, &accepting.done);
    io_task_end(&accepting);
    assert_int_equal(accepting.result, 0);
    assert_int_equal(orr_listener_free(accepting.listener), 0);
    ends[0] = connecting.stream;
    ends[1] = accepting.stream;
    bound_buffers(ends[0]);
    bound_buffers(ends[1]);
}

struct io_account io_counted;

static int charge(void *data, size_t bytes)
{
    struct io_account *account = data;
    if (account->most && account->bytes + (long long)bytes > account->most)
        return account->error;
    account->bytes += (long long)bytes;
    return 0;
}

static void uncharge(void *data, size_t bytes)
{
    struct io_account *account = data;
    account->bytes -= (long long)bytes;
}

const struct orr_account io_account = { .charge = charge, .uncharge = uncharge, .data = &io_counted };

struct orr_runtime *io_open_on(enum orr_clock clock)
{
    struct orr_options options = { .workers = 1, .alloc = counting_alloc, .clock = clock };
    io_counted = (struct io_account){ 0 };
    allocated_bytes = 0;
    on_manual_clock = clock == ORR_CLOCK_MANUAL;
    struct orr_runtime *rt = harness_runtime_with(options);
    assert_non_null(rt);
    assert_int_equal(orr_runtime_enter(rt), 0);
    struct io_task sleeper = { .operation = DO_SLEEP };
    struct orr_stream *ends[2]; /* so that the reactor has all the descriptors that it needs */
    io_tcp_pair(rt, NULL, ends);
    assert_int_equal(io_task_run(rt, &sleeper), 0);
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
    return rt;
}

struct orr_runtime *io_open(void)
{
    return io_open_on(ORR_CLOCK_MONOTONIC);
}

struct orr_runtime *io_open_manual(void)
{
    return io_open_on(ORR_CLOCK_MANUAL);
}

void io_close(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
    assert_int_equal(io_counted.bytes, 0);
    assert_int_equal(allocated_bytes, 0);
}
