/*
 * Moments at which streams, listeners and sockets are easily wrong: a task that is cancelled
 * between its grant and its poll, an object that is freed under a task, news of the kernel that
 * another call has taken, signals in place of answers.
 */
#include "io_task.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- Calls that a signal interrupts: poll(2) and read(2) are wrapped -------------------------- */

static int interrupt_polls;    /* so many polls of one descriptor answer EINTR */
static int watched_fd = -1;    /* reads of this descriptor are counted, and find nothing */
static unsigned reads_unasked; /* reads of it that came before a poll had said that it is ready */
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (interrupt_polls && count == 1 && timeout == 0) {
        interrupt_polls--;
        errno = EINTR;
        return -1;
    }
    return __real_poll(fds, count, timeout);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    if (watched_fd < 0 || fd < watched_fd || __real_poll(&ready, 1, 0) > 0)
        return __real_read(fd, bytes, size);
    reads_unasked++; /* it would block */
    errno = EAGAIN;
    return -1;
}

static int open_master(int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master));
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(*slave >= 0);
    return master;
}

static void a_signal_in_place_of_an_answer_never_makes_a_read_block(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int slave, master = open_master(&slave);
    struct orr_stream *stream;
    char bytes[8];
    assert_int_equal(orr_stream_open_descriptor(master, NULL, &stream), 0);
    struct io_task reader = { .operation = DO_READ, .stream = stream, .bytes = bytes, .size = sizeof bytes };
    watched_fd = master;
    reads_unasked = 0;
    interrupt_polls = 2;
    io_task_start(rt, &reader);
    io_settle(rt);
    assert_false(reader.done);
    assert_int_equal(reads_unasked, 0);
    assert_int_equal(interrupt_polls, 0);
    assert_int_equal(write(slave, "x", 1), 1);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.got, 1);
    watched_fd = -1;
    io_task_end(&reader);
    assert_int_equal(orr_stream_free(stream), 0);
    close(slave);
    io_close(rt);
}

/* The same for plain operations of the reactor. */
struct plain_read {
    int fd;
    struct orr_io io;
    char bytes[8];
    bool started, done;
};

static enum orr_poll poll_plain_read(struct orr_task *task, void *data)
{
    struct plain_read *self = data;
    if (!self->started)
        assert_int_equal(orr_io_read(task, &self->io, self->fd, self->bytes, sizeof self->bytes), 0);
    self->started = true;
    if (orr_io_await(task, &self->io) == -EAGAIN)
        return ORR_PENDING;
    self->done = true;
    return ORR_DONE;
}

static void nor_does_it_make_a_plain_operation_block(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int slave;
    struct plain_read reading = { .fd = open_master(&slave) };
    watched_fd = reading.fd;
    reads_unasked = 0;
    interrupt_polls = harness_reactor == ORR_REACTOR_EPOLL ? 2 : 0;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = poll_plain_read, .data = &reading }), 0);
    io_settle(rt);
    assert_false(reading.done);
    assert_int_equal(reads_unasked, 0);
    assert_int_equal(interrupt_polls, 0);
    assert_int_equal(write(slave, "x", 1), 1);
    io_turn_until(rt, &reading.done);
    watched_fd = -1;
    close(slave);
    close(reading.fd);
    io_close(rt);
}

/* --- Descriptors of others -------------------------------------------------------------------- */

static void the_master_of_a_pseudo_terminal_is_itself(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int slave, master = open_master(&slave);
    struct orr_stream *stream;
    char bytes[16];
    size_t got;
    assert_int_equal(orr_stream_open_descriptor(master, NULL, &stream), 0);
    assert_int_equal(write(slave, "shown", 5), 5);
    assert_int_equal(io_read(rt, stream, bytes, sizeof bytes, &got), 0);
    assert_int_equal(got, 5);
    assert_memory_equal(bytes, "shown", 5);
    assert_int_equal(io_write(rt, stream, "typed\n"), 0);
    assert_int_equal(read(slave, bytes, sizeof bytes), 6);
    assert_memory_equal(bytes, "typed\n", 6);
    assert_int_equal(fcntl(master, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(orr_stream_free(stream), 0);
    close(slave);
    io_close(rt);
}

static void a_kept_socket_stays_connected_when_its_stream_is_closed(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    int fds[2];
    char bytes[16];
    struct orr_stream *stream;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(orr_stream_open_descriptor(fds[0], &(struct orr_descriptor_options){ .keep = true }, &stream), 0);
    assert_int_equal(write(fds[1], "unread", 6), 6);
    assert_int_equal(orr_stream_free(stream), 0);
    assert_int_equal(recv(fds[0], bytes, sizeof bytes, MSG_DONTWAIT), 6); /* nobody has taken it */
    assert_int_equal(send(fds[0], "still here", 10, MSG_NOSIGNAL), 10);
    assert_int_equal(recv(fds[1], bytes, sizeof bytes, MSG_DONTWAIT), 10);
    assert_int_equal(recv(fds[1], bytes, sizeof bytes, MSG_DONTWAIT), -1); /* not at its end */
    close(fds[0]);
    close(fds[1]);
    io_close(rt);
}

/* --- Closing ---------------------------------------------------------------------------------- */

static size_t fill_up(struct orr_stream *stream)
{
    char junk[4096] = { 0 };
    ssize_t sent;
    size_t total = 0;
    while ((sent = send(orr_stream_descriptor(stream), junk, sizeof junk, MSG_DONTWAIT)) > 0)
        total += (size_t)sent;
    return total;
}

/* The reactor has not told of the last input when the stream is closed. */
static void what_was_written_arrives_though_input_came_unseen(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    char *bytes = malloc(IO_TASK_BYTES);
    size_t got, total = 0;
    io_tcp_pair(rt, NULL, ends);
    assert_int_equal(send(orr_stream_descriptor(ends[1]), "request", 7, 0), 7);
    assert_int_equal(io_read(rt, ends[0], bytes, IO_TASK_BYTES, &got), 0); /* there is no more */
    size_t sent = fill_up(ends[0]);
    assert_int_equal(send(orr_stream_descriptor(ends[1]), "unseen", 6, 0), 6);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    do {
        assert_int_equal(io_read(rt, ends[1], bytes, IO_TASK_BYTES, &got), 0);
        total += got;
    } while (got);
    assert_int_equal(total, sent);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_stream_free(ends[i]), 0);
    free(bytes);
    io_close(rt);
}

/* --- Losses ----------------------------------------------------------------------------------- */

/* A stream would end its output first: so its descriptor is replaced, which closes the socket. */
static void reset(struct orr_stream *stream)
{
    struct linger at_once = { .l_onoff = 1 };
    int fd = orr_stream_descriptor(stream), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    assert_int_equal(dup3(null, fd, O_CLOEXEC), fd);
    close(null);
}

/* In one poll, the peer resets the connection and a write takes the kernel's news of it. */
struct late_writer {
    struct orr_stream *stream, *peer;
    struct orr_wait wait;
    int result;
    bool done;
};

static enum orr_poll reset_and_write(struct orr_task *task, void *data)
{
    struct late_writer *self = data;
    struct iovec part = { "x", 1 };
    reset(self->peer);
    self->result = orr_stream_write(task, &self->wait, self->stream, &part, 1, NULL);
    self->done = true;
    return ORR_DONE;
}

static void a_reset_that_a_write_hears_of_first_is_a_loss_too(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) { /* the task begins to wait before the reset, or after */
        struct orr_runtime *rt = io_open();
        struct orr_stream *ends[2];
        io_tcp_pair(rt, NULL, ends);
        struct io_task watcher = { .operation = DO_LOSS, .stream = ends[0], .events = ORR_RESET };
        struct late_writer writer = { .stream = ends[0], .peer = ends[1] };
        if (!late) {
            io_task_start(rt, &watcher);
            io_settle(rt);
        }
        assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = reset_and_write, .data = &writer }), 0);
        io_turn_until(rt, &writer.done);
        assert_int_equal(writer.result, -ECONNRESET);
        if (late)
            io_task_start(rt, &watcher);
        io_settle(rt);
        assert_true(watcher.done);
        assert_int_equal(watcher.result, 0);
        io_task_end(&watcher);
        for (int i = 0; i < 2; i++)
            assert_int_equal(orr_stream_free(ends[i]), 0);
        io_close(rt);
    }
}

/* Broken by a cancelled write, which says nothing of the peer. */
static void a_broken_output_is_no_loss_of_the_peer(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    char *much = calloc(1, 4 << 20);
    assert_int_equal(orr_pair(NULL, ends), 0);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = much, .size = 4 << 20 };
    struct io_task watcher = { .operation = DO_LOSS, .stream = ends[0], .events = ORR_RESET };
    io_task_start(rt, &writer);
    io_settle(rt);
    orr_task_cancel(writer.task, NULL);
    io_turn_until(rt, &writer.done);
    io_task_end(&writer);
    assert_true(orr_stream_written(ends[0]) > 0);
    io_task_start(rt, &watcher);
    io_settle(rt);
    assert_false(watcher.done);
    orr_task_cancel(watcher.task, NULL);
    io_turn_until(rt, &watcher.done);
    io_task_end(&watcher);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_stream_free(ends[i]), 0);
    free(much);
    io_close(rt);
}

/* A task that sleeps for ever, and is to hear of the loss of a stream that it does not use. */
static void a_lost_peer_cancels_the_task_that_depends_on_it(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) { /* the stream learns of the task before, or after */
        struct orr_runtime *rt = io_open();
        struct orr_stream *ends[2];
        size_t got;
        char byte;
        io_tcp_pair(rt, NULL, ends);
        struct io_task sleeper = { .operation = DO_SHUTDOWN, .stream = ends[0], .naps = true };
        io_task_start(rt, &sleeper);
        if (!late)
            assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, ORR_RESET), 0);
        io_settle(rt);
        assert_false(sleeper.done);
        reset(ends[1]);
        if (late) {
            assert_int_equal(io_read(rt, ends[0], &byte, 1, &got), -ECONNRESET);
            assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, ORR_RESET), 0);
        }
        io_turn_until(rt, &sleeper.done);
        assert_int_equal(sleeper.result, -ECANCELED);
        io_task_end(&sleeper);
        for (int i = 0; i < 2; i++)
            assert_int_equal(orr_stream_free(ends[i]), 0);
        io_close(rt);
    }
}

static void the_end_of_input_cancels_only_if_it_was_asked_for(void **state)
{
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        struct orr_runtime *rt = io_open();
        struct orr_stream *ends[2];
        io_tcp_pair(rt, NULL, ends);
        struct io_task sleeper = { .operation = DO_SHUTDOWN, .stream = ends[0], .naps = true };
        io_task_start(rt, &sleeper);
        unsigned events = ORR_RESET | (asked ? ORR_ENDED : 0u);
        assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, events), 0);
        assert_int_equal(orr_stream_close(ends[1]), 0);
        io_settle(rt);
        assert_int_equal(sleeper.done, asked);
        if (!asked)
            orr_task_cancel(sleeper.task, NULL);
        io_turn_until(rt, &sleeper.done);
        io_task_end(&sleeper);
        for (int i = 0; i < 2; i++)
            assert_int_equal(orr_stream_free(ends[i]), 0);
        io_close(rt);
    }
}

static void a_stream_forgets_the_task_that_depended_on_it(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    io_tcp_pair(rt, NULL, ends);
    struct io_task sleeper = { .operation = DO_SHUTDOWN, .stream = ends[0], .naps = true };
    io_task_start(rt, &sleeper);
    assert_int_equal(orr_stream_cancel_on_loss(NULL, sleeper.task, ORR_RESET), -EINVAL);
    assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, 0), -EINVAL);
    assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, ORR_READABLE), -EINVAL);
    assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, ORR_RESET), 0);
    assert_int_equal(orr_stream_cancel_on_loss(ends[0], NULL, 0), 0);
    reset(ends[1]);
    io_settle(rt);
    assert_false(sleeper.done);
    assert_int_equal(orr_stream_close(ends[0]), 0);
    assert_int_equal(orr_stream_cancel_on_loss(ends[0], sleeper.task, ORR_RESET), -EBADF);
    orr_task_cancel(sleeper.task, NULL);
    io_turn_until(rt, &sleeper.done);
    io_task_end(&sleeper);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_stream_free(ends[i]), 0);
    io_close(rt);
}

/* --- Accepting -------------------------------------------------------------------------------- */

static struct orr_listener *listen_at(const char *text, struct orr_address *address)
{
    struct orr_listener *listener;
    struct orr_address any = io_address(text);
    assert_int_equal(orr_listen(&any, NULL, &listener), 0);
    assert_int_equal(orr_listener_address(listener, address), 0);
    return listener;
}

static int connect_to(const struct orr_address *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address->bytes, address->length), 0);
    return fd;
}

/* The only descriptor of this program that listens. */
static int listening_fd(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        int listens = 0;
        socklen_t size = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens)
            return fd;
    }
    return -1;
}

struct thief {
    struct io_task *victim;
    bool done;
};

/* Somebody else accepts the connection, and the task that was to have it is cancelled. */
static enum orr_poll steal(struct orr_task *task, void *data)
{
    struct thief *self = data;
    (void)task;
    int stolen = accept4(listening_fd(), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(stolen >= 0);
    close(stolen);
    orr_task_cancel(self->victim->task, NULL);
    self->done = true;
    return ORR_DONE;
}

static void a_cancelled_task_that_tried_to_accept_in_vain_passes_its_turn_on(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_address address;
    struct orr_listener *listener = listen_at("127.0.0.1:0", &address);
    struct io_task first = { .operation = DO_ACCEPT, .listener = listener }, second = first;
    io_task_start(rt, &first);
    io_task_start(rt, &second);
    io_settle(rt);
    int stolen = connect_to(&address);
    struct thief thief = { .victim = &first };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = steal, .data = &thief }), 0);
    io_turn_until(rt, &first.done);
    assert_int_equal(first.result, -ECANCELED);
    int next = connect_to(&address);
    io_settle(rt);
    assert_true(second.done);
    assert_int_equal(second.result, 0);
    io_task_end(&first);
    io_task_end(&second);
    close(stolen);
    close(next);
    assert_int_equal(orr_stream_free(second.stream), 0);
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

/* Tasks come and go while connections come: each connection is accepted once. */
static void a_storm_of_connections_and_cancellations_loses_none(void **state)
{
    (void)state;
    enum { TASKS = 40, CONNECTIONS = 200 };
    uint64_t random = harness_seed(20);
    struct orr_runtime *rt = io_open();
    struct orr_address address;
    struct orr_listener *listener = listen_at("127.0.0.1:0", &address);
    struct io_task tasks[TASKS] = { 0 };
    int peers[CONNECTIONS];
    unsigned came = 0, accepted = 0;
    unsigned fds = harness_open_fds();
    while (accepted < CONNECTIONS) {
        for (int i = 0; i < TASKS; i++) {
            struct io_task *task = &tasks[i];
            uint64_t dice = random_bits(&random) % 8;
            if (task->task && task->done) {
                accepted += task->result == 0;
                if (task->result == 0)
                    assert_int_equal(orr_stream_free(task->stream), 0);
                else
                    assert_int_equal(task->result, -ECANCELED);
                io_task_end(task);
            } else if (!task->task) {
                *task = (struct io_task){ .operation = DO_ACCEPT, .listener = listener };
                io_task_start(rt, task);
            } else if (dice == 0) {
                orr_task_cancel(task->task, NULL);
            }
            if (dice > 4 && came < CONNECTIONS)
                peers[came++] = connect_to(&address);
        }
        assert_int_equal(orr_runtime_leave(rt), 0);
        assert_true(orr_runtime_turn(rt, ORR_NEVER) >= 0);
        assert_int_equal(orr_runtime_enter(rt), 0);
    }
    for (int i = 0; i < TASKS; i++) {
        if (!tasks[i].task)
            continue;
        orr_task_cancel(tasks[i].task, NULL);
        io_turn_until(rt, &tasks[i].done);
        assert_int_equal(tasks[i].result, -ECANCELED);
        io_task_end(&tasks[i]);
    }
    assert_int_equal(accepted, CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        close(peers[i]);
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

/* --- Copies ----------------------------------------------------------------------------------- */

/* A copy that has taken three bytes from ends[0] and waits for room in more[0]. */
static void open_full_copy(struct orr_runtime *rt, struct orr_stream *ends[2], struct orr_stream *more[2],
                           struct io_task *copying)
{
    struct orr_open open = { .account = &io_account };
    assert_int_equal(orr_pair(&open, ends), 0);
    assert_int_equal(orr_pair(&open, more), 0);
    fill_up(more[0]);
    assert_int_equal(write(orr_stream_descriptor(ends[1]), "abc", 3), 3);
    *copying = (struct io_task){ .operation = DO_COPY, .stream = ends[0], .to = more[0] };
    io_task_start(rt, copying);
    io_settle(rt);
    assert_false(copying->done);
}

static void a_copy_ends_when_a_stream_is_freed_under_it(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct orr_runtime *rt = io_open();
        struct orr_stream *ends[2], *more[2];
        struct io_task copying;
        open_full_copy(rt, ends, more, &copying);
        assert_int_equal(orr_stream_free(which ? more[0] : ends[0]), 0);
        io_turn_until(rt, &copying.done);
        assert_int_equal(copying.result, -EBADF);
        io_task_end(&copying);
        if (which) {
            char bytes[8];
            size_t got;
            assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0); /* not lost */
            assert_int_equal(got, 3);
        }
        assert_int_equal(orr_stream_free(which ? ends[0] : more[0]), 0);
        assert_int_equal(orr_stream_free(ends[1]), 0);
        assert_int_equal(orr_stream_free(more[1]), 0);
        io_close(rt);
    }
}

/* Cancels a copy that has become ready, and reads from its source before the copy knows. */
struct meddler {
    struct io_task *copying;
    struct orr_wait wait;
    char bytes[8];
    size_t got;
    int result;
    bool done;
};

static enum orr_poll meddle(struct orr_task *task, void *data)
{
    struct meddler *self = data;
    orr_task_cancel(self->copying->task, NULL);
    struct orr_stream *from = self->copying->stream;
    self->result = orr_stream_read(task, &self->wait, from, self->bytes, sizeof self->bytes, &self->got);
    self->done = true;
    return ORR_DONE;
}

static void nobody_reads_past_the_bytes_of_a_cancelled_copy(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2], *more[2];
    struct io_task copying;
    open_full_copy(rt, ends, more, &copying);
    assert_int_equal(write(orr_stream_descriptor(ends[1]), "def", 3), 3);
    struct meddler meddler = { .copying = &copying };
    char junk[65536];
    while (recv(orr_stream_descriptor(more[1]), junk, sizeof junk, MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = meddle, .data = &meddler }), 0);
    io_turn_until(rt, &copying.done);
    assert_int_equal(meddler.result, -EBUSY);
    uint64_t through = copying.copy.bytes;
    io_task_end(&copying);
    char bytes[8];
    size_t got, total = 0;
    while (through + total < 6) {
        assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0);
        assert_memory_equal(bytes, "abcdef" + through + total, got);
        total += got;
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(ends[i]), 0);
        assert_int_equal(orr_stream_free(more[i]), 0);
    }
    io_close(rt);
}

/* --- Freed under a cancelled task ------------------------------------------------------------- */

/* A task that was cancelled calls its function once more; by then the object is gone. */
static void check_freed(struct orr_runtime *rt, struct io_task *task, void (*give_up)(void *data), void *data)
{
    io_task_start(rt, task);
    io_settle(rt);
    assert_false(task->done);
    orr_task_cancel(task->task, NULL);
    give_up(data);
    io_turn_until(rt, &task->done);
    assert_int_equal(task->result, -ECANCELED);
    io_task_end(task);
}

static void free_stream(void *stream)
{
    assert_int_equal(orr_stream_free(stream), 0);
}

static void free_listener(void *listener)
{
    assert_int_equal(orr_listener_free(listener), 0);
}

static void free_datagram(void *datagram)
{
    assert_int_equal(orr_datagram_free(datagram), 0);
}

static void a_cancelled_task_may_find_its_object_gone(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    char bytes[8];
    static const enum operation operations[] = { DO_READ, DO_FILL, DO_WRITE, DO_LOSS, DO_FINISH };
    for (size_t i = 0; i < LENGTH(operations); i++) {
        struct orr_stream *ends[2];
        assert_int_equal(orr_pair(NULL, ends), 0);
        fill_up(ends[0]);
        struct io_task task = { .operation = operations[i], .stream = ends[0], .bytes = bytes, .size = 8 };
        task.least = task.most = 8;
        task.events = ORR_RESET | ORR_ENDED;
        check_freed(rt, &task, free_stream, ends[0]);
        assert_int_equal(orr_stream_free(ends[1]), 0);
    }
    for (int i = 0; i < 4; i++) { /* a copy that waits for input or room, and each stream of it */
        struct orr_stream *ends[2], *more[2];
        assert_int_equal(orr_pair(NULL, ends), 0);
        assert_int_equal(orr_pair(NULL, more), 0);
        if (i & 1) {
            fill_up(more[0]);
            assert_int_equal(write(orr_stream_descriptor(ends[1]), "abc", 3), 3);
        }
        struct io_task task = { .operation = DO_COPY, .stream = ends[0], .to = more[0] };
        check_freed(rt, &task, free_stream, i & 2 ? ends[0] : more[0]);
        assert_int_equal(orr_stream_free(i & 2 ? more[0] : ends[0]), 0);
        assert_int_equal(orr_stream_free(ends[1]), 0);
        assert_int_equal(orr_stream_free(more[1]), 0);
    }
    struct orr_address address, any = io_address("127.0.0.1:0");
    struct orr_listener *listener = listen_at("127.0.0.1:0", &address);
    struct io_task accepting = { .operation = DO_ACCEPT, .listener = listener };
    check_freed(rt, &accepting, free_listener, listener);
    struct orr_datagram *datagram;
    assert_int_equal(orr_datagram_open(&(struct orr_datagram_options){ .local = &any }, &datagram), 0);
    struct iovec room = { bytes, sizeof bytes };
    struct io_task receiving = { .operation = DO_RECEIVE, .datagram = datagram };
    receiving.message = (struct orr_message){ .parts = &room, .count = 1 };
    check_freed(rt, &receiving, free_datagram, datagram);
    io_close(rt);
}

/* --- Messages to a full queue ----------------------------------------------------------------- */

struct full_queue {
    struct orr_datagram *one, *other;
    struct orr_address address;
    struct iovec part;
    unsigned sent;
};

static struct io_task sender(struct full_queue *queue)
{
    return (struct io_task){ .operation = DO_SEND,
                             .datagram = queue->one,
                             .message = { .parts = &queue->part, .count = 1, .address = &queue->address } };
}

/* Two datagram sockets of paths; the queue of the second is full. */
static void open_full_queue(struct orr_runtime *rt, struct full_queue *queue)
{
    char names[2][64];
    struct orr_address own;
    for (int i = 0; i < 2; i++)
        snprintf(names[i], sizeof names[i], "unix:@orrery-edges-%d-%d", (int)getpid(), i);
    *queue = (struct full_queue){ .address = io_address(names[1]), .part = { "m", 1 } };
    own = io_address(names[0]);
    struct orr_open open = { .account = &io_account };
    assert_int_equal(orr_datagram_open(&(struct orr_datagram_options){ .open = open, .local = &own }, &queue->one), 0);
    assert_int_equal(
        orr_datagram_open(&(struct orr_datagram_options){ .open = open, .local = &queue->address }, &queue->other), 0);
    for (;;) {
        struct io_task sending = sender(queue);
        io_task_start(rt, &sending);
        io_settle(rt);
        queue->sent += sending.done;
        bool full = !sending.done;
        orr_task_cancel(sending.task, NULL);
        io_turn_until(rt, &sending.done);
        io_task_end(&sending);
        if (full)
            return;
    }
}

static void a_datagram_socket_may_be_freed_while_a_task_waits_for_room(void **state)
{
    (void)state;
    for (int freed = 0; freed < 2; freed++) {
        struct orr_runtime *rt = io_open();
        struct full_queue queue;
        open_full_queue(rt, &queue);
        struct io_task first = sender(&queue), second = first;
        io_task_start(rt, &first);
        io_settle(rt);
        assert_false(first.done);
        assert_int_equal(io_task_run(rt, &second), -EBUSY);
        assert_int_equal(freed ? orr_datagram_free(queue.one) : orr_datagram_close(queue.one), 0);
        io_turn_until(rt, &first.done);
        assert_int_equal(first.result, -EBADF);
        io_task_end(&first);
        if (!freed)
            assert_int_equal(orr_datagram_free(queue.one), 0);
        assert_int_equal(orr_datagram_free(queue.other), 0);
        io_close(rt);
    }
}

/* --- Loops that never wait -------------------------------------------------------------------- */

enum { TRIES = 2000 };

struct stubborn {
    struct orr_address address;
    struct orr_wait wait;
    unsigned tries, polls;
    bool done;
};

static enum orr_poll connect_in_vain(struct orr_task *task, void *data)
{
    struct stubborn *self = data;
    struct orr_stream *stream;
    self->polls++;
    while (self->tries < TRIES) {
        int result = orr_connect(task, &self->wait, &self->address, NULL, &stream);
        if (result == -EAGAIN)
            return ORR_PENDING;
        assert_int_equal(result, -ECONNREFUSED);
        self->tries++;
    }
    self->done = true;
    return ORR_DONE;
}

static void a_task_whose_connects_fail_at_once_lets_others_run(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct stubborn stubborn = { .address = io_address("unix:@orrery-edges-nobody") };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = connect_in_vain, .data = &stubborn }), 0);
    io_turn_until(rt, &stubborn.done);
    assert_true(stubborn.polls > 4);
    io_close(rt);
}

/* --- The host's descriptor -------------------------------------------------------------------- */

static void input_that_nobody_waits_for_does_not_wake_the_host_over_and_over(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    char bytes[8];
    size_t got;
    assert_int_equal(orr_pair(NULL, ends), 0);
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = sizeof bytes };
    io_task_start(rt, &reader); /* so that the reactor watches the stream */
    io_settle(rt);
    orr_task_cancel(reader.task, NULL);
    io_turn_until(rt, &reader.done);
    io_task_end(&reader);
    assert_int_equal(write(orr_stream_descriptor(ends[1]), "x", 1), 1);
    io_settle(rt);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_false(harness_readable(orr_runtime_fd(rt)));
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(io_read(rt, ends[0], bytes, sizeof bytes, &got), 0); /* it is still there */
    assert_int_equal(got, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_stream_free(ends[i]), 0);
    io_close(rt);
}

/* --- Many parts ------------------------------------------------------------------------------- */

struct part_writer {
    struct orr_stream *stream;
    struct iovec *parts;
    int count;
    struct orr_wait wait;
    size_t written;
    int result;
    bool done;
};

static enum orr_poll write_parts(struct orr_task *task, void *data)
{
    struct part_writer *self = data;
    self->result = orr_stream_write(task, &self->wait, self->stream, self->parts, self->count, &self->written);
    if (self->result == -EAGAIN)
        return ORR_PENDING;
    self->done = true;
    return ORR_DONE;
}

/* Parts of all lengths, empty ones among them, arrive in order though no call takes all of them. */
static void a_write_of_very_many_parts_arrives_in_order(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    assert_int_equal(orr_pair(NULL, ends), 0);
    int count = (int)WORK(100000);
    uint64_t random = harness_seed(7);
    char *source = malloc(16), *back = malloc(IO_TASK_BYTES);
    memcpy(source, "0123456789abcdef", 16);
    struct iovec *parts = calloc((size_t)count, sizeof *parts);
    size_t total = 0, part = 0, offset = 0, seen = 0;
    for (int i = 0; i < count; i++) {
        uint64_t dice = random_bits(&random);
        parts[i] = (struct iovec){ source + dice % 8, dice / 8 % 9 };
        total += parts[i].iov_len;
    }
    struct part_writer writer = { .stream = ends[0], .parts = parts, .count = count };
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = write_parts, .data = &writer }), 0);
    while (seen < total) {
        size_t got;
        assert_int_equal(io_read(rt, ends[1], back, IO_TASK_BYTES, &got), 0);
        for (size_t i = 0; i < got; i++) {
            while (offset == parts[part].iov_len) {
                part++;
                offset = 0;
            }
            if (back[i] != ((char *)parts[part].iov_base)[offset++])
                fail_msg("byte %zu is wrong", seen + i);
        }
        seen += got;
    }
    io_turn_until(rt, &writer.done);
    assert_int_equal(writer.result, 0);
    assert_int_equal(writer.written, total);
    for (int i = 0; i < 2; i++)
        assert_int_equal(orr_stream_free(ends[i]), 0);
    free(parts);
    free(source);
    free(back);
    io_close(rt);
}

static const struct CMUnitTest io_edge_tests[] = {
    cmocka_unit_test(a_signal_in_place_of_an_answer_never_makes_a_read_block),
    cmocka_unit_test(nor_does_it_make_a_plain_operation_block),
    cmocka_unit_test(the_master_of_a_pseudo_terminal_is_itself),
    cmocka_unit_test(a_kept_socket_stays_connected_when_its_stream_is_closed),
    cmocka_unit_test(what_was_written_arrives_though_input_came_unseen),
    cmocka_unit_test(a_reset_that_a_write_hears_of_first_is_a_loss_too),
    cmocka_unit_test(a_broken_output_is_no_loss_of_the_peer),
    cmocka_unit_test(a_lost_peer_cancels_the_task_that_depends_on_it),
    cmocka_unit_test(the_end_of_input_cancels_only_if_it_was_asked_for),
    cmocka_unit_test(a_stream_forgets_the_task_that_depended_on_it),
    cmocka_unit_test(a_cancelled_task_that_tried_to_accept_in_vain_passes_its_turn_on),
    cmocka_unit_test(a_storm_of_connections_and_cancellations_loses_none),
    cmocka_unit_test(a_copy_ends_when_a_stream_is_freed_under_it),
    cmocka_unit_test(nobody_reads_past_the_bytes_of_a_cancelled_copy),
    cmocka_unit_test(a_cancelled_task_may_find_its_object_gone),
    cmocka_unit_test(a_datagram_socket_may_be_freed_while_a_task_waits_for_room),
    cmocka_unit_test(a_task_whose_connects_fail_at_once_lets_others_run),
    cmocka_unit_test(input_that_nobody_waits_for_does_not_wake_the_host_over_and_over),
    cmocka_unit_test(a_write_of_very_many_parts_arrives_in_order),
};

HARNESS_MAIN(io_edge_tests)
