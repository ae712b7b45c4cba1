/*
 * The cancellation matrix.  Every operation that waits on a stream, listener or datagram socket is
 * interrupted before it begins, when it has yielded to other tasks, while it waits, when it has
 * become ready, and after its end; by a cancellation, by a deadline, and by the end of its task.
 * Whatever the moment, no descriptor, buffer, byte or message is lost, and the object goes on as if
 * the task had never come.
 *
 * The clock is a manual one, so a deadline passes exactly then.
 */
#include "failing.h"
#include "io_task.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum moment {
    BEFORE,   /* the task has not begun its operation, which would succeed at once */
    YIELDED,  /* the operation lets other tasks run first */
    DURING,   /* it waits */
    AT_READY, /* its wait was granted, and it has not been polled since */
    AFTER,    /* it has its result */
    MOMENTS,
};

enum way {
    CANCEL,
    DEADLINE,
    DROP, /* the body ends at once */
    WAYS,
};

static const char *const moments[] = { "before", "yielded", "during", "at ready", "after" };
static const char *const ways[] = { "cancelled", "deadline", "dropped" };

/* What an operation is made on. */
struct scene {
    struct orr_runtime *rt;
    struct orr_stream *ends[2], *more[2];
    struct orr_listener *listener;
    struct orr_datagram *datagrams[2];
    struct orr_address address, other_address;
    struct io_task subject;
    char bytes[64];
    char *much;
    size_t junk; /* bytes that were there before the subject's */
    int fds[2];
    struct iovec part;
};

static long fail_at; /* this allocation fails, counted from 1; 0: none */

static bool may_allocate(void)
{
    return !(fail_at && --fail_at == 0);
}

/* One operation: how to prepare it so that it waits, how to let it go on, how to check the end. */
struct row {
    enum operation operation;
    const char *name;
    void (*prepare)(struct scene *scene);
    void (*let)(struct scene *scene);
    /* `done`: the operation has ended with success. */
    void (*check)(struct scene *scene, bool done);
    bool goes_on;  /* it does not end, though it was let go on: it works until it is interrupted */
    bool has_sent; /* it has done a part by the time it waits */
};

static const struct orr_open counted = { .account = &io_account };

/* --- Reading ---------------------------------------------------------------------------------- */

static void use_first_end(struct scene *scene)
{
    scene->subject.stream = scene->ends[0];
    scene->subject.bytes = scene->bytes;
    scene->subject.size = sizeof scene->bytes;
    scene->subject.least = 3;
    scene->subject.most = 100;
    scene->subject.events = ORR_ENDED;
}

static void open_pair(struct scene *scene)
{
    assert_int_equal(orr_pair(&counted, scene->ends), 0);
    use_first_end(scene);
}

static void open_pipe(struct scene *scene)
{
    assert_int_equal(orr_pipe(&counted, &scene->ends[0], &scene->ends[1]), 0);
    use_first_end(scene);
}

static void open_tcp(struct scene *scene)
{
    io_tcp_pair(scene->rt, &counted, scene->ends);
    use_first_end(scene);
}

/* Streams of descriptors that somebody else has opened. */
static void open_foreign(struct scene *scene)
{
    int fds[2];
    struct orr_descriptor_options options = { .open = counted };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_stream_open_descriptor(fds[i], &options, &scene->ends[i]), 0);
    use_first_end(scene);
}

static void put_abc(struct scene *scene)
{
    assert_int_equal(write(orr_stream_descriptor(scene->ends[1]), "abc", 3), 3);
}

/* The three bytes are read once: by the subject, or by the next reader. */
static void check_read(struct scene *scene, bool done)
{
    size_t got = scene->subject.got;
    if (!done)
        assert_int_equal(io_read(scene->rt, scene->ends[0], scene->bytes, 64, &got), 0);
    assert_int_equal(got, 3);
    assert_memory_equal(scene->bytes, "abc", 3);
    assert_int_equal(orr_stream_peek(scene->ends[0], NULL), 0);
}

static void check_fill(struct scene *scene, bool done)
{
    size_t got;
    if (done)
        assert_int_equal(orr_stream_peek(scene->ends[0], NULL), 3);
    assert_int_equal(io_read(scene->rt, scene->ends[0], scene->bytes, 64, &got), 0);
    assert_int_equal(got, 3);
}

/* One byte is there, and the subject wants three: it has read ahead when it waits. */
static void open_started(struct scene *scene)
{
    open_tcp(scene);
    assert_int_equal(write(orr_stream_descriptor(scene->ends[1]), "a", 1), 1);
}

static void put_bc(struct scene *scene)
{
    assert_int_equal(write(orr_stream_descriptor(scene->ends[1]), "bc", 2), 2);
}

static void check_started(struct scene *scene, bool done)
{
    struct io_task filling = { .operation = DO_FILL, .stream = scene->ends[0], .least = 3, .most = 3 };
    const void *bytes;
    (void)done;
    assert_int_equal(io_task_run(scene->rt, &filling), 0);
    assert_int_equal(orr_stream_peek(scene->ends[0], &bytes), 3);
    assert_memory_equal(bytes, "abc", 3);
    assert_int_equal(orr_stream_consume(scene->ends[0], 3), 0);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static size_t fill_up(struct orr_stream *stream)
{
    char junk[4096] = { 0 };
    ssize_t sent;
    size_t total = 0;
    while ((sent = write(orr_stream_descriptor(stream), junk, sizeof junk)) > 0)
        total += (size_t)sent;
    return total;
}

static size_t take_all(struct orr_stream *stream)
{
    char junk[65536];
    ssize_t got;
    size_t total = 0;
    while ((got = recv(orr_stream_descriptor(stream), junk, sizeof junk, MSG_DONTWAIT)) > 0)
        total += (size_t)got;
    return total;
}

static void prepare_write(struct scene *scene)
{
    open_pair(scene);
    scene->junk = fill_up(scene->ends[0]);
    scene->subject.bytes = "xyz";
    scene->subject.size = 3;
}

static void make_room(struct scene *scene)
{
    scene->junk -= take_all(scene->ends[1]);
}

/* All of it has gone out, or nothing. */
static void check_write(struct scene *scene, bool done)
{
    assert_int_equal(take_all(scene->ends[1]), scene->junk + (done ? 3 : 0));
    assert_int_equal(orr_stream_written(scene->ends[0]), 0);
    assert_int_equal(scene->subject.got, done ? 3 : 0);
    assert_int_equal(io_write(scene->rt, scene->ends[0], "next"), 0);
}

enum { MUCH = 4 << 20 };

static void prepare_long_write(struct scene *scene)
{
    open_pair(scene);
    scene->subject.bytes = scene->much = calloc(1, MUCH);
    scene->subject.size = MUCH;
}

static void read_some(struct scene *scene)
{
    scene->junk += take_all(scene->ends[1]);
}

/* What has gone out is what the stream says, and nothing may follow a part. */
static void check_long_write(struct scene *scene, bool done)
{
    size_t arrived = scene->junk + take_all(scene->ends[1]), told = orr_stream_written(scene->ends[0]);
    assert_int_equal(arrived, done ? MUCH : told);
    int next = io_write(scene->rt, scene->ends[0], "next");
    assert_int_equal(next, told ? -ECONNABORTED : 0);
    if (!done && scene->subject.done)
        assert_int_equal(scene->subject.got, told);
}

/* --- Ending ----------------------------------------------------------------------------------- */

/* A stream of the test's own, whose end and output are held up by a gate. */
struct gate {
    bool open;
    unsigned wanted;
};

static ssize_t gate_read(struct orr_stream *stream, const struct iovec *parts, int count)
{
    (void)parts;
    (void)count;
    return ((struct gate *)orr_stream_data(stream))->open ? 0 : -EAGAIN;
}

static ssize_t gate_write(struct orr_stream *stream, const struct iovec *parts, int count)
{
    (void)count;
    return ((struct gate *)orr_stream_data(stream))->open ? (ssize_t)parts->iov_len : -EAGAIN;
}

static int gate_shutdown(struct orr_stream *stream)
{
    return ((struct gate *)orr_stream_data(stream))->open ? 0 : -EAGAIN;
}

static int gate_want(struct orr_stream *stream, unsigned events)
{
    ((struct gate *)orr_stream_data(stream))->wanted = events;
    return 0;
}

static void gate_close(struct orr_stream *stream)
{
    (void)stream;
}

static const struct orr_stream_kind gate_kind = {
    .name = "gate",
    .size = sizeof(struct gate),
    .read = gate_read,
    .write = gate_write,
    .want = gate_want,
    .shutdown = gate_shutdown,
    .close = gate_close,
};

static void prepare_gate(struct scene *scene)
{
    assert_int_equal(orr_stream_new(&gate_kind, &counted, &scene->ends[0]), 0);
    use_first_end(scene);
}

static void open_gate(struct scene *scene)
{
    ((struct gate *)orr_stream_data(scene->ends[0]))->open = true;
    orr_stream_ready(scene->ends[0], ORR_READABLE | ORR_WRITABLE);
}

/* Nobody waits for the stream any more; and it can still be ended. */
static void check_gate(struct scene *scene, bool done)
{
    struct io_task ending = { .operation = DO_SHUTDOWN, .stream = scene->ends[0] };
    assert_int_equal(((struct gate *)orr_stream_data(scene->ends[0]))->wanted & ~3u, 0);
    assert_int_equal(io_write(scene->rt, scene->ends[0], "x"), done ? -EPIPE : 0);
    assert_int_equal(io_task_run(scene->rt, &ending), 0);
}

static void end_input(struct scene *scene)
{
    assert_int_equal(shutdown(orr_stream_descriptor(scene->ends[1]), SHUT_WR), 0);
}

/* The output has ended, or the subject was never there. */
static void check_finish(struct scene *scene, bool done)
{
    struct io_task finishing = { .operation = DO_FINISH, .stream = scene->ends[0] };
    char bytes[8];
    size_t got;
    assert_int_equal(io_task_run(scene->rt, &finishing), 0);
    assert_int_equal(io_read(scene->rt, scene->ends[1], bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 0);
    (void)done;
}

static void check_loss(struct scene *scene, bool done)
{
    (void)done;
    struct io_task again = { .operation = DO_LOSS, .stream = scene->ends[0], .events = ORR_ENDED };
    assert_int_equal(io_task_run(scene->rt, &again), 0);
}

/* --- Connecting ------------------------------------------------------------------------------- */

static void prepare_accept(struct scene *scene)
{
    struct orr_address any = io_address("127.0.0.1:0");
    assert_int_equal(orr_listen(&any, &(struct orr_listen_options){ .socket.open = counted }, &scene->listener), 0);
    assert_int_equal(orr_listener_address(scene->listener, &scene->address), 0);
    scene->subject.listener = scene->listener;
    scene->subject.open = &counted;
}

static void come(struct scene *scene)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)scene->address.bytes, scene->address.length), 0);
    close(fd);
}

/* The one connection is accepted once. */
static void check_accept(struct scene *scene, bool done)
{
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = scene->listener };
    if (!done)
        assert_int_equal(io_task_run(scene->rt, &accepting), 0);
    assert_int_equal(orr_stream_free(done ? scene->subject.stream : accepting.stream), 0);
    io_task_start(scene->rt, &accepting);
    io_settle(scene->rt);
    assert_false(accepting.done);
    orr_task_cancel(accepting.task, NULL);
    io_turn_until(scene->rt, &accepting.done);
    io_task_end(&accepting);
}

/* A path whose backlog is full makes a connect wait for as long as the test likes. */
static void prepare_connect(struct scene *scene)
{
    char path[64];
    snprintf(path, sizeof path, "unix:@orrery-cancel-%d", (int)getpid());
    scene->address = scene->subject.address = io_address(path);
    struct orr_listen_options options = { .socket.open = counted, .backlog = 1 };
    assert_int_equal(orr_listen(&scene->address, &options, &scene->listener), 0);
    scene->subject.open = &counted;
    for (int i = 0; i < 2; i++) {
        struct io_task connecting = { .operation = DO_CONNECT, .address = scene->address };
        assert_int_equal(io_task_run(scene->rt, &connecting), 0);
        scene->more[i] = connecting.stream;
    }
}

static void accept_one(struct scene *scene)
{
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = scene->listener };
    assert_int_equal(io_task_run(scene->rt, &accepting), 0);
    assert_int_equal(orr_stream_free(accepting.stream), 0);
}

static void check_connect(struct scene *scene, bool done)
{
    if (done)
        assert_int_equal(orr_stream_free(scene->subject.stream), 0);
}

/* A listener whose backlog is full takes no connection before one is accepted. */
static void prepare_tcp_connect(struct scene *scene)
{
    struct orr_address any = io_address("127.0.0.1:0");
    struct orr_listen_options options = { .socket.open = counted, .backlog = 1 };
    assert_int_equal(orr_listen(&any, &options, &scene->listener), 0);
    assert_int_equal(orr_listener_address(scene->listener, &scene->address), 0);
    scene->subject.address = scene->address;
    scene->subject.open = &counted;
    come(scene);
    come(scene);
}

static void accept_two(struct scene *scene)
{
    accept_one(scene);
    accept_one(scene);
}

/* --- Messages --------------------------------------------------------------------------------- */

static void open_datagrams(struct scene *scene, const char *first, const char *second)
{
    struct orr_address addresses[2] = { io_address(first), io_address(second) };
    for (int i = 0; i < 2; i++) {
        struct orr_datagram_options options = { .open = counted, .local = &addresses[i] };
        assert_int_equal(orr_datagram_open(&options, &scene->datagrams[i]), 0);
    }
    assert_int_equal(orr_datagram_address(scene->datagrams[0], ORR_LOCAL, &scene->address), 0);
    assert_int_equal(orr_datagram_address(scene->datagrams[1], ORR_LOCAL, &scene->other_address), 0);
    scene->part = (struct iovec){ scene->bytes, sizeof scene->bytes };
    scene->subject.datagram = scene->datagrams[0];
    scene->subject.message = (struct orr_message){ .parts = &scene->part, .count = 1 };
}

static void open_path_datagrams(struct scene *scene)
{
    char names[2][64];
    for (int i = 0; i < 2; i++)
        snprintf(names[i], sizeof names[i], "unix:@orrery-cancel-%d-%d", (int)getpid(), i);
    open_datagrams(scene, names[0], names[1]);
}

static void prepare_receive(struct scene *scene)
{
    open_datagrams(scene, "127.0.0.1:0", "127.0.0.1:0");
}

static void send_one(struct scene *scene)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(sendto(fd, "abc", 3, 0, (struct sockaddr *)scene->address.bytes, scene->address.length), 3);
    close(fd);
}

static void check_receive(struct scene *scene, bool done)
{
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = scene->datagrams[0] };
    receiving.message = (struct orr_message){ .parts = &scene->part, .count = 1 };
    if (!done)
        assert_int_equal(io_task_run(scene->rt, &receiving), 0);
    assert_int_equal(done ? scene->subject.message.size : receiving.message.size, 3);
}

static void prepare_receive_descriptors(struct scene *scene)
{
    open_path_datagrams(scene);
    scene->subject.message.descriptor_count = ORR_DESCRIPTORS_MAX;
}

static void send_descriptors(struct scene *scene)
{
    struct iovec part = { "abc", 3 };
    struct io_task sending = { .operation = DO_SEND, .datagram = scene->datagrams[1] };
    sending.message = (struct orr_message){ .parts = &part, .count = 1, .address = &scene->address };
    sending.message.descriptors[0] = sending.message.descriptors[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
    sending.message.descriptor_count = 2;
    struct msghdr head = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_name = scene->address.bytes, .msg_namelen = scene->address.length
    };
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = { .head = {
                      .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int)) } };
    memcpy(CMSG_DATA(&control.head), sending.message.descriptors, 2 * sizeof(int));
    head.msg_control = control.bytes;
    head.msg_controllen = sizeof control.bytes;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* no turn of the runtime is made */
    assert_int_equal(sendmsg(fd, &head, MSG_DONTWAIT), 3);
    close(fd);
    close(sending.message.descriptors[0]);
}

static void check_receive_descriptors(struct scene *scene, bool done)
{
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = scene->datagrams[0] };
    receiving.message = (struct orr_message){ .parts = &scene->part, .count = 1, .descriptor_count = 2 };
    if (!done)
        assert_int_equal(io_task_run(scene->rt, &receiving), 0);
    const struct orr_message *message = done ? &scene->subject.message : &receiving.message;
    assert_int_equal(message->descriptor_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fcntl(message->descriptors[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(close(message->descriptors[i]), 0);
    }
}

/* Fills the queue of the second socket, from outside. */
static void fill_queue(struct scene *scene)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr *to = (struct sockaddr *)scene->other_address.bytes;
    while (sendto(fd, "j", 1, MSG_DONTWAIT, to, scene->other_address.length) == 1)
        scene->junk++;
    close(fd);
    assert_true(scene->junk > 0);
}

static void prepare_send(struct scene *scene)
{
    open_path_datagrams(scene);
    fill_queue(scene);
    scene->part = (struct iovec){ "subject", 7 };
    scene->subject.message.address = &scene->other_address;
}

static void prepare_connected_send(struct scene *scene)
{
    prepare_send(scene);
    assert_int_equal(orr_datagram_free(scene->datagrams[0]), 0);
    struct orr_datagram_options options = { .open = counted, .local = &scene->address, .peer = &scene->other_address };
    assert_int_equal(orr_datagram_open(&options, &scene->datagrams[0]), 0);
    scene->subject.datagram = scene->datagrams[0];
    scene->subject.message.address = NULL;
}

static size_t receive_one(struct scene *scene)
{
    char bytes[16];
    struct iovec room = { bytes, sizeof bytes };
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = scene->datagrams[1] };
    receiving.message = (struct orr_message){ .parts = &room, .count = 1 };
    assert_int_equal(io_task_run(scene->rt, &receiving), 0);
    return receiving.message.size;
}

static void receive_some(struct scene *scene)
{
    for (int i = 0; i < 4; i++, scene->junk--)
        assert_int_equal(receive_one(scene), 1);
}

/* The message was sent once, or not at all; then others can be sent. */
static void check_send(struct scene *scene, bool done)
{
    struct iovec part = { "next!", 5 };
    struct io_task sending = { .operation = DO_SEND, .datagram = scene->datagrams[0] };
    sending.message = (struct orr_message){ .parts = &part, .count = 1, .address = scene->subject.message.address };
    for (; scene->junk; scene->junk--)
        assert_int_equal(receive_one(scene), 1);
    if (done)
        assert_int_equal(receive_one(scene), 7);
    assert_int_equal(io_task_run(scene->rt, &sending), 0);
    assert_int_equal(receive_one(scene), 5);
}

/* --- Copies ----------------------------------------------------------------------------------- */

static void prepare_copy(struct scene *scene)
{
    open_pair(scene);
    assert_int_equal(orr_pair(&counted, scene->more), 0);
    scene->subject.to = scene->more[0];
}

/* These cannot be spliced. */
static void prepare_plain_copy(struct scene *scene)
{
    open_foreign(scene);
    assert_int_equal(orr_pair(&counted, scene->more), 0);
    scene->subject.to = scene->more[0];
}

/* The three bytes went through, or are still in the source; both streams are whole. */
static void check_copy(struct scene *scene, bool done)
{
    size_t got, through = scene->subject.copy.bytes;
    (void)done;
    assert_true(through == 0 || through == 3);
    struct orr_stream *where = through ? scene->more[1] : scene->ends[0];
    scene->junk -= take_all(scene->more[1]) - through;
    assert_int_equal(scene->junk, 0);
    if (!through) {
        assert_int_equal(io_read(scene->rt, where, scene->bytes, 64, &got), 0);
        assert_int_equal(got, 3);
        assert_memory_equal(scene->bytes, "abc", 3);
    }
    assert_int_equal(io_write(scene->rt, scene->more[0], "whole"), 0);
    assert_int_equal(take_all(scene->more[1]), 5);
}

static void wait_for_room(struct scene *scene)
{
    scene->junk = fill_up(scene->more[0]);
    put_abc(scene);
}

static void prepare_copy_to(struct scene *scene)
{
    prepare_copy(scene);
    wait_for_room(scene);
}

static void prepare_plain_copy_to(struct scene *scene)
{
    prepare_plain_copy(scene);
    wait_for_room(scene);
}

static void make_room_for_copy(struct scene *scene)
{
    scene->junk -= take_all(scene->more[1]);
}

static void end_copy(struct scene *scene)
{
    put_abc(scene);
    end_input(scene);
}

static const struct row rows[] = {
    { DO_READ, "read from a pair", open_pair, put_abc, check_read, false, false },
    { DO_READ, "read from a pipe", open_pipe, put_abc, check_read, false, false },
    { DO_READ, "read by TCP", open_tcp, put_abc, check_read, false, false },
    { DO_READ, "read from a descriptor of others", open_foreign, put_abc, check_read, false, false },
    { DO_FILL, "fill", open_pair, put_abc, check_fill, false, false },
    { DO_FILL, "fill that has read a part", open_started, put_bc, check_started, false, false },
    { DO_WRITE, "write", prepare_write, make_room, check_write, false, false },
    { DO_WRITE, "long write", prepare_long_write, read_some, check_long_write, false, true },
    { DO_SHUTDOWN, "shutdown", prepare_gate, open_gate, check_gate, false, false },
    { DO_FINISH, "finish that waits for the output", prepare_gate, open_gate, check_gate, false, false },
    { DO_FINISH, "finish", open_tcp, end_input, check_finish, false, true },
    { DO_LOSS, "loss", open_pair, end_input, check_loss, false, false },
    { DO_LOSS, "loss by TCP", open_tcp, end_input, check_loss, false, false },
    { DO_ACCEPT, "accept", prepare_accept, come, check_accept, false, false },
    { DO_CONNECT, "connect to a path", prepare_connect, accept_one, check_connect, false, false },
    { DO_CONNECT, "connect by TCP", prepare_tcp_connect, accept_two, check_connect, false, false },
    { DO_RECEIVE, "receive", prepare_receive, send_one, check_receive, false, false },
    { DO_RECEIVE, "receive descriptors", prepare_receive_descriptors, send_descriptors, check_receive_descriptors,
      false, false },
    { DO_SEND, "send to a path", prepare_send, receive_some, check_send, false, false },
    { DO_SEND, "send to the peer", prepare_connected_send, receive_some, check_send, false, false },
    { DO_COPY, "copy from", prepare_copy, put_abc, check_copy, true, false },
    { DO_COPY, "copy to", prepare_copy_to, make_room_for_copy, check_copy, true, false },
    { DO_COPY, "copy from, in user space", prepare_plain_copy, put_abc, check_copy, true, false },
    { DO_COPY, "copy to, in user space", prepare_plain_copy_to, make_room_for_copy, check_copy, true, false },
    { DO_COPY, "copy to the end", prepare_copy, end_copy, check_copy, false, false },
};

/* --- Trials ----------------------------------------------------------------------------------- */

static void free_scene(struct scene *scene)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(scene->ends[i]), 0);
        assert_int_equal(orr_stream_free(scene->more[i]), 0);
        assert_int_equal(orr_datagram_free(scene->datagrams[i]), 0);
    }
    assert_int_equal(orr_listener_free(scene->listener), 0);
    free(scene->much);
}

static void interrupt(struct scene *scene, enum way way)
{
    struct io_task *subject = &scene->subject;
    if (subject->done)
        return;
    if (way == DEADLINE)
        assert_int_equal(orr_runtime_advance(scene->rt, HOUR), 0);
    else if (way == DROP)
        orr_task_drop(orr_task_waker(subject->task));
    else
        orr_task_cancel(subject->task, NULL);
}

/* A task that interrupts another before that one is polled. */
struct interrupter {
    struct scene *scene;
    enum way way;
    bool done;
};

static enum orr_poll interrupt_it(struct orr_task *task, void *data)
{
    struct interrupter *self = data;
    (void)task;
    interrupt(self->scene, self->way);
    self->done = true;
    return ORR_DONE;
}

static void interrupt_in_turn(struct scene *scene, enum way way)
{
    struct interrupter interrupter = { .scene = scene, .way = way };
    assert_int_equal(orr_spawn(scene->rt, &(struct orr_spawn){ .poll = interrupt_it, .data = &interrupter }), 0);
    io_turn_until(scene->rt, &interrupter.done);
}

/*
 * The subject's wait is granted by the turn that also interrupts it.  A turn asks the reactor
 * first, then fires timers, then polls; the interrupter is in the run queue before the subject.
 */
static void interrupt_when_granted(struct scene *scene, enum way way)
{
    if (way == DEADLINE)
        interrupt(scene, way);
    else
        interrupt_in_turn(scene, way);
}

static void reach(const struct row *row, struct scene *scene, enum moment moment, enum way way)
{
    if (moment == BEFORE)
        row->let(scene);
    io_task_start(scene->rt, &scene->subject);
    if (moment == YIELDED) {
        interrupt_in_turn(scene, way); /* it comes after the subject's first poll */
        return;
    }
    if (moment != BEFORE || scene->subject.naps)
        io_settle(scene->rt);
    if (moment == AT_READY || moment == AFTER)
        row->let(scene);
    while (moment == AFTER && row->operation == DO_WRITE && !scene->subject.done) {
        row->let(scene);
        io_settle(scene->rt);
    }
    if (moment == AFTER && !row->goes_on)
        io_turn_until(scene->rt, &scene->subject.done);
    else if (moment == AFTER)
        io_settle(scene->rt);
    if (moment == AT_READY)
        interrupt_when_granted(scene, way);
    else
        interrupt(scene, way);
}

static void try_row(const struct row *row, enum moment moment, enum way way, bool hasty)
{
    struct scene scene = { .rt = io_open_manual(), .subject.operation = row->operation };
    unsigned fds = harness_open_fds();
    row->prepare(&scene);
    scene.subject.hasty = hasty;
    scene.subject.naps = moment == BEFORE && way == DEADLINE;
    scene.subject.time_limit = way == DEADLINE ? HOUR : 0;
    reach(row, &scene, moment, way);
    io_settle(scene.rt);
    if (way != DROP && !scene.subject.done) { /* one that was ready has gone on to its next wait */
        if (row->goes_on || row->has_sent || row->operation == DO_CONNECT || row->operation == DO_SEND)
            interrupt(&scene, way);
        io_turn_until(scene.rt, &scene.subject.done);
    }
    io_task_end(&scene.subject);
    bool done = scene.subject.done && scene.subject.result == 0;
    if (scene.subject.done && !done)
        assert_int_equal(scene.subject.result, way == DEADLINE ? -ETIMEDOUT : -ECANCELED);
    if (moment == BEFORE)
        assert_false(done);
    if (moment == AFTER && !row->goes_on)
        assert_true(done);
    if ((moment == DURING || moment == YIELDED) && !row->has_sent)
        row->let(&scene);
    else if (row->operation == DO_FINISH && moment != BEFORE && moment != AFTER && moment != AT_READY)
        row->let(&scene);
    row->check(&scene, done);
    free_scene(&scene);
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(io_counted.bytes, 0);
    io_close(scene.rt);
}

static void try_all(const struct row *row, enum way way)
{
    const char *only = getenv("ORR_TEST_ONLY");
    if (only && strcmp(only, row->name) != 0)
        return;
    for (enum moment moment = BEFORE; moment < MOMENTS; moment++)
        for (int hasty = 0; hasty < 2; hasty++) {
            if (moment == YIELDED && (!hasty || way == DEADLINE))
                continue;
            if (moment == AFTER && hasty && row->operation == DO_CONNECT)
                continue; /* the kernel takes a second */
            if (only)
                print_message("%s: %s, %s, hasty %d\n", row->name, ways[way], moments[moment], hasty);
            try_row(row, moment, way, hasty);
        }
}

static void nothing_is_lost_whenever_an_operation_is_cancelled(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++)
        try_all(&rows[i], CANCEL);
}

static void nothing_is_lost_whenever_the_deadline_of_an_operation_passes(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++)
        try_all(&rows[i], DEADLINE);
}

static void nothing_is_lost_whenever_the_task_of_an_operation_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(rows); i++)
        try_all(&rows[i], DROP);
}

/* --- Failing allocations ---------------------------------------------------------------------- */

/* Has a message wait for room in a full queue.  Answers whether it was sent. */
static bool send_late(struct orr_runtime *rt)
{
    struct scene scene = { .rt = rt, .subject.operation = DO_SEND };
    char names[2][64];
    bool good = true;
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof names[i], "unix:@orrery-late-%d-%d", (int)getpid(), i);
        struct orr_address local = io_address(names[i]);
        struct orr_datagram_options options = { .open = counted, .local = &local };
        good = good && !orr_datagram_open(&options, &scene.datagrams[i]);
    }
    if (good) {
        scene.other_address = io_address(names[1]);
        fill_queue(&scene);
        scene.part = (struct iovec){ "late", 4 };
        scene.subject.datagram = scene.datagrams[0];
        scene.subject.message =
            (struct orr_message){ .parts = &scene.part, .count = 1, .address = &scene.other_address };
        io_task_start(rt, &scene.subject);
        io_settle(rt);
        if (!scene.subject.done)
            receive_some(&scene);
        io_turn_until(rt, &scene.subject.done);
        io_task_end(&scene.subject);
        assert_true(scene.subject.result == 0 || scene.subject.result == -ENOMEM);
        good = scene.subject.result == 0;
    }
    for (int i = 0; i < 2; i++)
        orr_datagram_free(scene.datagrams[i]);
    return good;
}

/* Cancels a copy with bytes in its pipe.  Answers whether they were put back; else the source says
 * that it is broken. */
static bool cancel_copy(struct orr_runtime *rt)
{
    struct scene scene = { .rt = rt, .subject.operation = DO_COPY };
    bool good = !orr_pair(&counted, scene.ends) && !orr_pair(&counted, scene.more);
    if (good) {
        size_t got;
        scene.subject.stream = scene.ends[0];
        scene.subject.to = scene.more[0];
        wait_for_room(&scene);
        io_task_start(rt, &scene.subject);
        io_settle(rt);
        orr_task_cancel(scene.subject.task, NULL);
        io_turn_until(rt, &scene.subject.done);
        io_task_end(&scene.subject);
        int result = io_read(rt, scene.ends[0], scene.bytes, sizeof scene.bytes, &got);
        assert_true(result == -ENOMEM || (result == 0 && got == 3));
        good = result == 0;
    }
    for (int i = 0; i < 2; i++) {
        orr_stream_free(scene.ends[i]);
        orr_stream_free(scene.more[i]);
    }
    return good;
}

/* Does everything that allocates once; answers whether all of it succeeded. */
static bool use_everything(struct orr_runtime *rt)
{
    struct orr_open open = { .account = &io_account };
    struct orr_stream *ends[2] = { NULL, NULL }, *pipe[2] = { NULL, NULL };
    struct orr_listener *listener = NULL;
    struct orr_datagram *datagram = NULL;
    struct orr_address any = io_address("127.0.0.1:0");
    struct orr_listen_options options = { .socket.open = open };
    bool good = !orr_pair(&open, ends) && !orr_pipe(&open, &pipe[0], &pipe[1]) &&
                !orr_listen(&any, &options, &listener);
    good = good && !orr_datagram_open(&(struct orr_datagram_options){ .open = open, .local = &any }, &datagram);
    if (good) {
        assert_int_equal(write(orr_stream_descriptor(ends[1]), "0123456789", 10), 10);
        struct io_task filler = { .operation = DO_FILL, .stream = ends[0], .least = 10, .most = 8192 };
        struct io_task connecting = { .operation = DO_CONNECT, .open = &open };
        struct io_task accepting = { .operation = DO_ACCEPT, .open = &open, .listener = listener };
        int result = io_task_run(rt, &filler);
        assert_true(result == 0 || result == -ENOMEM);
        assert_int_equal(orr_listener_address(listener, &connecting.address), 0);
        good = !result && !io_task_run(rt, &connecting);
        good = good && !io_task_run(rt, &accepting);
        orr_stream_free(connecting.stream);
        orr_stream_free(accepting.stream);
    }
    for (int i = 0; i < 2; i++) {
        orr_stream_free(ends[i]);
        orr_stream_free(pipe[i]);
    }
    orr_listener_free(listener);
    orr_datagram_free(datagram);
    return good && send_late(rt) && cancel_copy(rt);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool good = false;
    for (long at = 1; !good; at++) {
        io_counted = (struct io_account){ 0 };
        allocated_bytes = 0;
        struct orr_runtime *rt = harness_runtime_with((struct orr_options){ .workers = 1, .alloc = failing_alloc });
        assert_non_null(rt);
        assert_int_equal(orr_runtime_enter(rt), 0);
        assert_true(use_everything(rt)); /* so that tasks and the reactor have their memory */
        unsigned fds = harness_open_fds();
        fail_at = at;
        good = use_everything(rt);
        good = good && fail_at; /* the failure was not reached */
        fail_at = 0;
        assert_int_equal(harness_open_fds(), fds);
        assert_int_equal(io_counted.bytes, 0);
        assert_true(use_everything(rt));
        assert_int_equal(orr_runtime_leave(rt), 0);
        assert_int_equal(orr_runtime_free(rt), 0);
        assert_int_equal(allocated_bytes, 0);
        assert_true(at < 100);
    }
}

static const struct CMUnitTest io_cancel_tests[] = {
    cmocka_unit_test(nothing_is_lost_whenever_an_operation_is_cancelled),
    cmocka_unit_test(nothing_is_lost_whenever_the_deadline_of_an_operation_passes),
    cmocka_unit_test(nothing_is_lost_whenever_the_task_of_an_operation_ends),
    cmocka_unit_test(every_allocation_may_fail),
};

HARNESS_MAIN(io_cancel_tests)
