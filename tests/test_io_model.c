/*
 * Random operations on streams and datagram sockets, checked against a model.  What is written in
 * one direction is a sequence of bytes that each position determines, so every read can be checked,
 * whatever was cancelled, split or put back before.  ORR_TEST_SEED repeats a run; ORR_TEST_SCALE
 * makes it longer.
 */
#include "io_task.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t random_state;

static size_t below(size_t bound)
{
    return (size_t)(random_bits(&random_state) % bound);
}

static unsigned scaled(unsigned count)
{
    const char *scale = getenv("ORR_TEST_SCALE");
    return (unsigned)WORK(count) * (scale ? (unsigned)atoi(scale) : 1);
}

/* --- Streams ---------------------------------------------------------------------------------- */

enum { WRITE_MOST = 300000, READ_MOST = 100000 };

static char byte_at(size_t position)
{
    return (char)((position * 2654435761u) >> 13);
}

/* One direction: a writer, perhaps a copy in the middle, and a reader. */
struct direction {
    struct orr_stream *writer, *from, *to, *reader; /* `from`, `to`: of the copy, or NULL */
    struct io_task writing, reading, copying;
    char out[WRITE_MOST], in[READ_MOST];
    size_t written; /* bytes that have gone out for certain */
    size_t read;
    bool broken, shut, ended;
};

static void begin_write(struct orr_runtime *rt, struct direction *self)
{
    size_t size = 1 + below(below(4) ? 200 : WRITE_MOST);
    for (size_t i = 0; i < size; i++)
        self->out[i] = byte_at(self->written + i);
    self->writing = (struct io_task){ .operation = DO_WRITE, .stream = self->writer, .bytes = self->out, .size = size };
    io_task_start(rt, &self->writing);
}

static void end_write(struct direction *self)
{
    struct io_task *task = &self->writing;
    self->written += task->got;
    if (task->result == 0) {
        assert_int_equal(task->got, task->size);
    } else {
        assert_int_equal(task->result, -ECANCELED);
        self->broken = task->got > 0;
        assert_int_equal(orr_stream_written(self->writer), task->got);
    }
    io_task_end(task);
}

static void begin_read(struct orr_runtime *rt, struct direction *self)
{
    size_t size = 1 + below(below(4) ? 100 : READ_MOST);
    self->reading = (struct io_task){
        .operation = below(2) ? DO_READ : DO_FILL,
        .stream = self->reader,
        .bytes = self->in,
        .size = size,
        .least = 1 + below(size),
        .most = size,
    };
    io_task_start(rt, &self->reading);
}

static void take(struct direction *self, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != byte_at(self->read + i))
            fail_msg("byte %zu of the stream is wrong", self->read + i);
    self->read += count;
}

/* Takes a random part of what a fill has put into the buffer. */
static void take_buffered(struct direction *self, bool all)
{
    const void *bytes;
    size_t there = orr_stream_peek(self->reader, &bytes);
    size_t count = all ? there : below(there + 1);
    take(self, bytes, count);
    assert_int_equal(orr_stream_consume(self->reader, count), 0);
}

static void end_read(struct direction *self)
{
    struct io_task *task = &self->reading;
    bool filled = task->operation == DO_FILL;
    if (task->result == 0 && !filled) {
        take(self, self->in, task->got);
        self->ended = !task->got;
    } else if (task->result == -ENODATA) {
        take_buffered(self, true);
        self->ended = true;
    } else if (task->result == 0) {
        assert_true(orr_stream_peek(self->reader, NULL) >= task->least);
        take_buffered(self, false);
    } else {
        assert_int_equal(task->result, -ECANCELED);
    }
    io_task_end(task);
}

static void begin_copy(struct orr_runtime *rt, struct direction *self)
{
    self->copying = (struct io_task){ .operation = DO_COPY, .stream = self->from, .to = self->to };
    io_task_start(rt, &self->copying);
}

/* A copy that came to the end ends the output behind it. */
static void end_copy(struct orr_runtime *rt, struct direction *self)
{
    struct io_task ending = { .operation = DO_SHUTDOWN, .stream = self->to };
    int result = self->copying.result;
    io_task_end(&self->copying);
    self->from = result ? self->from : NULL;
    if (result)
        assert_int_equal(result, -ECANCELED);
    else
        assert_int_equal(io_task_run(rt, &ending), 0);
}

static void shut(struct orr_runtime *rt, struct direction *self)
{
    struct io_task ending = { .operation = DO_SHUTDOWN, .stream = self->writer };
    int result = io_task_run(rt, &ending);
    assert_int_equal(result, self->broken ? -ECONNABORTED : 0);
    if (self->broken) /* the model goes on to the end of what has gone out */
        assert_int_equal(shutdown(orr_stream_descriptor(self->writer), SHUT_WR), 0);
    self->shut = true;
}

static void cancel_sometimes(struct io_task *task, bool calm)
{
    if (!calm && !below(8))
        orr_task_cancel(task->task, NULL);
}

/* One random step.  `calm`: nothing is cancelled any more, and the end is near. */
static void step(struct orr_runtime *rt, struct direction *self, bool calm)
{
    if (self->writing.task && self->writing.done)
        end_write(self);
    else if (self->writing.task)
        cancel_sometimes(&self->writing, calm || below(4));
    else if (!self->shut && (self->broken || calm))
        shut(rt, self);
    else if (!self->shut && below(2))
        begin_write(rt, self);
    if (self->reading.task && self->reading.done)
        end_read(self);
    else if (self->reading.task)
        cancel_sometimes(&self->reading, calm);
    else if (!self->ended && (calm || below(2)))
        begin_read(rt, self);
    if (self->copying.task && self->copying.done)
        end_copy(rt, self);
    else if (self->copying.task)
        cancel_sometimes(&self->copying, calm);
    else if (self->from && (calm || below(2)))
        begin_copy(rt, self);
}

static bool is_over(const struct direction *self)
{
    return self->ended && self->shut && !self->writing.task && !self->reading.task && !self->copying.task;
}

static void turn(struct orr_runtime *rt)
{
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
}

static void open_ends(struct orr_runtime *rt, struct orr_stream *ends[2])
{
    struct orr_open open = { .account = &io_account };
    if (below(2))
        io_tcp_pair(rt, &open, ends);
    else
        assert_int_equal(orr_pair(&open, ends), 0);
}

/* Two peers, with or without a proxy between them. */
static void try_streams(void)
{
    struct orr_runtime *rt = io_open();
    struct orr_stream *left[2], *right[2] = { NULL, NULL };
    struct direction *directions = calloc(2, sizeof *directions);
    bool proxied = below(2);
    unsigned fds = harness_open_fds();
    open_ends(rt, left);
    if (proxied)
        open_ends(rt, right);
    struct orr_stream *peers[2] = { left[0], proxied ? right[1] : left[1] };
    for (int i = 0; i < 2; i++) {
        directions[i].writer = peers[i];
        directions[i].reader = peers[1 - i];
        directions[i].from = proxied ? (i ? right[0] : left[1]) : NULL;
        directions[i].to = proxied ? (i ? left[1] : right[0]) : NULL;
    }
    size_t steps = 50 + below(300);
    for (size_t i = 0; !is_over(&directions[0]) || !is_over(&directions[1]); i++) {
        for (int which = 0; which < 2; which++)
            step(rt, &directions[which], i >= steps);
        turn(rt);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(directions[i].read, directions[i].written);
        assert_int_equal(orr_stream_free(left[i]), 0);
        assert_int_equal(orr_stream_free(right[i]), 0);
    }
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(io_counted.bytes, 0);
    free(directions);
    io_close(rt);
}

static void streams_carry_every_byte_in_order_whatever_is_cancelled(void **state)
{
    (void)state;
    random_state = harness_seed(2020);
    for (unsigned i = 0, count = scaled(60); i < count; i++)
        try_streams();
}

/* --- Messages --------------------------------------------------------------------------------- */

enum { SENT_MOST = 24, BYTES_MOST = 300 };

/* Sends a message from outside, with descriptors and sometimes with credentials. */
static void send_raw(int fd, const struct orr_address *to, const char *bytes, size_t size, const int *fds, size_t count)
{
    struct iovec part = { (void *)bytes, size };
    struct ucred self = { .pid = getpid(), .uid = getuid(), .gid = getgid() };
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(SENT_MOST * sizeof(int)) + CMSG_SPACE(sizeof self)];
    } control = { 0 };
    struct msghdr head = { .msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_name = (void *)to->bytes,
                           .msg_namelen = to->length,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes };
    size_t used = 0;
    struct cmsghdr *item = CMSG_FIRSTHDR(&head);
    if (count) {
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(item), fds, count * sizeof(int));
        used = CMSG_SPACE(count * sizeof(int));
        item = (struct cmsghdr *)(control.bytes + used);
    }
    if (below(3) == 0) {
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_CREDENTIALS;
        item->cmsg_len = CMSG_LEN(sizeof self);
        memcpy(CMSG_DATA(item), &self, sizeof self);
        used += CMSG_SPACE(sizeof self);
    }
    head.msg_controllen = used;
    head.msg_control = used ? control.bytes : NULL;
    assert_int_equal(sendmsg(fd, &head, 0), (ssize_t)size);
}

static void check_descriptors(const struct orr_message *message, const struct stat *sent)
{
    for (unsigned i = 0; i < message->descriptor_count; i++) {
        struct stat came;
        assert_int_equal(fcntl(message->descriptors[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(fstat(message->descriptors[i], &came), 0);
        assert_int_equal(came.st_ino, sent[i].st_ino);
        assert_int_equal(close(message->descriptors[i]), 0);
    }
}

/* One message of random size with a random number of descriptors, into random room. */
static void try_message(struct orr_runtime *rt, struct orr_datagram *datagram, int sender,
                        const struct orr_address *own, const int *fds, const struct stat *about)
{
    struct orr_address to, from;
    char out[BYTES_MOST], in[BYTES_MOST];
    size_t size = below(BYTES_MOST), room = below(BYTES_MOST), first = below(room + 1), count = below(SENT_MOST);
    count = below(2) ? count : 0;
    unsigned asked = (unsigned)below(ORR_DESCRIPTORS_MAX + 1);
    for (size_t i = 0; i < size; i++)
        out[i] = (char)random_bits(&random_state);
    assert_int_equal(orr_datagram_address(datagram, ORR_LOCAL, &to), 0);
    unsigned open_before = harness_open_fds();
    struct iovec parts[2] = { { in, first }, { in + first, room - first } };
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = datagram };
    receiving.message = (struct orr_message){ .parts = parts, .count = 2, .descriptor_count = asked };
    receiving.message.address = below(2) ? &from : NULL;
    bool early = below(2); /* the task waits, or finds the message */
    if (early) {
        io_task_start(rt, &receiving);
        io_settle(rt);
        send_raw(sender, &to, out, size, fds, count);
        io_turn_until(rt, &receiving.done);
        io_task_end(&receiving);
    } else {
        send_raw(sender, &to, out, size, fds, count);
        io_task_run(rt, &receiving);
    }
    const struct orr_message *message = &receiving.message;
    assert_int_equal(receiving.result, 0);
    assert_int_equal(message->size, size);
    assert_memory_equal(in, out, size < room ? size : room);
    assert_int_equal(message->descriptor_count, count < asked ? count : asked);
    assert_int_equal(message->cut, size > room || count > asked);
    if (message->address) {
        assert_int_equal(from.length, own->length);
        assert_memory_equal(from.bytes, own->bytes, own->length);
    }
    check_descriptors(message, about);
    assert_int_equal(harness_open_fds(), open_before);
}

static void every_message_arrives_once_with_its_descriptors(void **state)
{
    (void)state;
    random_state = harness_seed(1975);
    struct orr_runtime *rt = io_open();
    char name[64], own_name[80];
    snprintf(name, sizeof name, "unix:@orrery-model-%d", (int)getpid());
    snprintf(own_name, sizeof own_name, "%s-own", name);
    struct orr_address local = io_address(name), own = io_address(own_name);
    struct orr_datagram *datagram;
    assert_int_equal(orr_datagram_open(&(struct orr_datagram_options){ .local = &local }, &datagram), 0);
    int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sender, (struct sockaddr *)own.bytes, own.length), 0);
    int fds[SENT_MOST];
    struct stat about[SENT_MOST];
    for (int i = 0; i < SENT_MOST; i++) { /* each has an inode of its own */
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        close(ends[1]);
        fds[i] = ends[0];
        assert_int_equal(fstat(fds[i], &about[i]), 0);
    }
    for (unsigned i = 0, count = scaled(1000); i < count; i++)
        try_message(rt, datagram, sender, &own, fds, about);
    for (int i = 0; i < SENT_MOST; i++)
        close(fds[i]);
    close(sender);
    assert_int_equal(orr_datagram_free(datagram), 0);
    io_close(rt);
}

static const struct CMUnitTest io_model_tests[] = {
    cmocka_unit_test(streams_carry_every_byte_in_order_whatever_is_cancelled),
    cmocka_unit_test(every_message_arrives_once_with_its_descriptors),
};

HARNESS_MAIN(io_model_tests)
