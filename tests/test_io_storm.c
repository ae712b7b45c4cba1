/*
 * Streams and sockets under pressure: more connections than descriptors, signals that rain on the
 * thread, peers that are slow, turns that move between threads, a terminal as standard input.
 */
#include "io_task.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* --- A server that echoes --------------------------------------------------------------------- */

enum { MESSAGE = 512 };

struct server {
    struct orr_runtime *rt;
    struct orr_listener *listener;
    struct orr_address address;
    struct orr_wait wait;
    struct orr_waker waker;
    unsigned accepted, open, refused, expected;
    bool done; /* all of the expected connections have come and gone */
};

struct connection {
    struct server *server;
    struct orr_stream *stream;
    struct orr_wait wait;
    char bytes[MESSAGE];
    size_t length;
};

/* Ends a connection, so that there is a descriptor for the next. */
static enum orr_poll over(struct connection *self)
{
    struct server *server = self->server;
    assert_int_equal(orr_stream_free(self->stream), 0);
    free(self);
    server->open--;
    server->done = server->accepted == server->expected && !server->open;
    orr_waker_wake(server->waker);
    return ORR_DONE;
}

static enum orr_poll echo(struct orr_task *task, void *data)
{
    struct connection *self = data;
    for (;;) {
        int result = 0;
        if (!self->length)
            result = orr_stream_read(task, &self->wait, self->stream, self->bytes, MESSAGE, &self->length);
        if (result == -EAGAIN)
            return ORR_PENDING;
        if (result || !self->length)
            return over(self);
        struct iovec part = { self->bytes, self->length };
        result = orr_stream_write(task, &self->wait, self->stream, &part, 1, NULL);
        if (result == -EAGAIN)
            return ORR_PENDING;
        if (result)
            return over(self);
        self->length = 0;
    }
}

static enum orr_poll serve(struct orr_task *task, void *data)
{
    struct server *self = data;
    self->waker = orr_task_waker(task);
    while (self->accepted < self->expected) {
        struct orr_stream *stream;
        int result = orr_accept(task, &self->wait, self->listener, NULL, &stream);
        if (result == -EAGAIN)
            return ORR_PENDING;
        if (result == -EMFILE) { /* the connection waits in the backlog until another one ends */
            self->refused++;
            assert_true(self->open > 0);
            return ORR_PENDING;
        }
        assert_int_equal(result, 0);
        self->accepted++;
        self->open++;
        struct connection *connection = calloc(1, sizeof *connection);
        connection->server = self;
        connection->stream = stream;
        struct orr_spawn spawn = { .poll = echo, .data = connection, .detached = true };
        assert_int_equal(orr_spawn(self->rt, &spawn), 0);
    }
    return ORR_DONE;
}

static void start_server(struct orr_runtime *rt, struct server *server, unsigned expected)
{
    struct orr_address any = io_address("127.0.0.1:0");
    *server = (struct server){ .rt = rt, .expected = expected };
    assert_int_equal(orr_listen(&any, NULL, &server->listener), 0);
    assert_int_equal(orr_listener_address(server->listener, &server->address), 0);
    assert_int_equal(orr_spawn(rt, &(struct orr_spawn){ .poll = serve, .data = server }), 0);
}

static int connect_to(const struct orr_address *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)address->bytes, address->length) == 0 ? fd : -1;
}

/* --- Descriptors ------------------------------------------------------------------------------ */

/* The clients, in another process: all connect at once, then each wants its bytes back.  The exit
 * status says what went wrong; 0 for nothing. */
static _Noreturn void be_clients(const struct orr_address *address, unsigned count)
{
    int *fds = calloc(count, sizeof *fds);
    for (unsigned i = 0; i < count; i++)
        if ((fds[i] = connect_to(address)) < 0)
            _exit(1);
    for (unsigned i = 0; i < count; i++) {
        char bytes[4];
        if (send(fds[i], &i, 4, MSG_NOSIGNAL) != 4 || recv(fds[i], bytes, 4, MSG_WAITALL) != 4 || memcmp(bytes, &i, 4))
            _exit(2);
        close(fds[i]);
    }
    _exit(0);
}

static void all_of_a_storm_are_served_with_descriptors_for_few(void **state)
{
    (void)state;
    enum { CLIENTS = 200, ROOM = 10 };
    struct orr_runtime *rt = io_open();
    struct server server;
    start_server(rt, &server, CLIENTS);
    pid_t child = fork();
    if (!child)
        be_clients(&server.address, CLIENTS);
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC); /* the lowest number that is free */
    close(next);
    few.rlim_cur = (rlim_t)next + ROOM;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    io_turn_until(rt, &server.done);
    setrlimit(RLIMIT_NOFILE, &before);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(server.accepted, CLIENTS);
    assert_true(server.refused > 0);
    assert_int_equal(orr_listener_free(server.listener), 0);
    io_close(rt);
}

/* What waiting needs is there when a stream is there. */
static void the_first_wait_of_a_worker_needs_no_descriptor(void **state)
{
    (void)state;
    struct orr_runtime *rt = harness_runtime(1);
    struct orr_stream *ends[2];
    char bytes[16];
    struct rlimit before, none;
    assert_true(orr_runtime_fd(rt) >= 0);
    assert_int_equal(orr_runtime_enter(rt), 0);
    assert_int_equal(orr_pair(NULL, ends), 0);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct io_task reader = { .operation = DO_READ, .stream = ends[0], .bytes = bytes, .size = sizeof bytes };
    io_task_start(rt, &reader);
    io_settle(rt);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_false(reader.done);
    assert_int_equal(io_write(rt, ends[1], "hello"), 0);
    io_turn_until(rt, &reader.done);
    assert_int_equal(reader.result, 0);
    assert_int_equal(reader.got, 5);
    io_task_end(&reader);
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
    assert_int_equal(orr_runtime_leave(rt), 0);
    assert_int_equal(orr_runtime_free(rt), 0);
}

static void without_descriptors_everything_answers_so_and_leaves_nothing(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_open open_options = { .account = &io_account };
    struct orr_stream *ends[2] = { NULL, NULL }, *pair[2], *from[2], *to[2], *stream;
    struct orr_listener *listener, *another;
    struct orr_datagram *datagram;
    struct orr_address any = io_address("127.0.0.1:0"), address;
    assert_int_equal(orr_listen(&any, NULL, &listener), 0);
    assert_int_equal(orr_listener_address(listener, &address), 0);
    assert_int_equal(orr_pair(NULL, from), 0);
    assert_int_equal(orr_pair(NULL, to), 0);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    none.rlim_cur = (rlim_t)next;
    unsigned fds = harness_open_fds();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct io_task connecting = { .operation = DO_CONNECT, .address = address, .open = &open_options };
    int answers[] = {
        orr_pair(&open_options, pair),
        orr_pipe(&open_options, &ends[0], &ends[1]),
        orr_listen(&any, &(struct orr_listen_options){ .socket.open = open_options }, &another),
        orr_datagram_open(&(struct orr_datagram_options){ .open = open_options, .local = &any }, &datagram),
        orr_stream_open_descriptor(0, &(struct orr_descriptor_options){ .open = open_options, .keep = true }, &stream),
        io_task_run(rt, &connecting),
    };
    /* A copy does without its pipe. */
    struct io_task copying = { .operation = DO_COPY, .stream = from[0], .to = to[0] };
    io_task_start(rt, &copying);
    assert_int_equal(io_write(rt, from[1], "through"), 0);
    char bytes[16];
    size_t got;
    assert_int_equal(io_read(rt, to[1], bytes, sizeof bytes, &got), 0);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(got, 7);
    for (size_t i = 0; i < LENGTH(answers); i++)
        assert_int_equal(answers[i], -EMFILE);
    assert_int_equal(harness_open_fds(), fds);
    assert_int_equal(io_counted.bytes, 0);
    orr_task_cancel(copying.task, NULL);
    io_turn_until(rt, &copying.done);
    io_task_end(&copying);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(from[i]), 0);
        assert_int_equal(orr_stream_free(to[i]), 0);
    }
    assert_int_equal(orr_listener_free(listener), 0);
    io_close(rt);
}

/* --- Signals ---------------------------------------------------------------------------------- */

static void count_signal(int number)
{
    (void)number;
}

struct rain {
    pthread_t target, thread;
    _Atomic bool over;
};

static void *let_it_rain(void *data)
{
    struct rain *rain = data;
    while (!atomic_load(&rain->over)) {
        pthread_kill(rain->target, SIGUSR1);
        usleep(20);
    }
    return NULL;
}

static void echo_by_threads(struct orr_runtime *rt, unsigned clients, unsigned messages);

static void signals_that_rain_on_the_thread_do_no_harm(void **state)
{
    (void)state;
    struct sigaction before, interrupt = { .sa_handler = count_signal }; /* without SA_RESTART */
    sigaction(SIGUSR1, &interrupt, &before);
    struct rain rain = { .target = pthread_self() };
    struct orr_runtime *rt = io_open();
    assert_int_equal(pthread_create(&rain.thread, NULL, let_it_rain, &rain), 0);
    echo_by_threads(rt, 8, (unsigned)WORK(100));
    char bytes[16], *much = calloc(1, 2 << 20), *back = malloc(2 << 20);
    struct orr_stream *from[2], *to[2];
    struct orr_datagram *datagram;
    struct orr_address address, any = io_address("127.0.0.1:0");
    assert_int_equal(orr_datagram_open(&(struct orr_datagram_options){ .local = &any }, &datagram), 0);
    assert_int_equal(orr_datagram_address(datagram, ORR_LOCAL, &address), 0);
    for (int i = 0; i < 100; i++) {
        struct iovec room = { bytes, sizeof bytes }, part = { "hello", 5 };
        struct io_task receiving = { .operation = DO_RECEIVE, .datagram = datagram };
        struct io_task sending = { .operation = DO_SEND, .datagram = datagram };
        receiving.message = (struct orr_message){ .parts = &room, .count = 1 };
        sending.message = (struct orr_message){ .parts = &part, .count = 1, .address = &address };
        io_task_start(rt, &receiving);
        assert_int_equal(io_task_run(rt, &sending), 0);
        io_turn_until(rt, &receiving.done);
        assert_int_equal(receiving.result, 0);
        assert_int_equal(receiving.message.size, 5);
        io_task_end(&receiving);
    }
    io_tcp_pair(rt, NULL, from);
    io_tcp_pair(rt, NULL, to);
    struct io_task copying = { .operation = DO_COPY, .stream = from[0], .to = to[0] };
    struct io_task writer = { .operation = DO_WRITE, .stream = from[1], .bytes = much, .size = 2 << 20 };
    memset(much, 'm', 2 << 20);
    io_task_start(rt, &copying);
    io_task_start(rt, &writer);
    for (size_t total = 0, got; total < 2 << 20; total += got) {
        assert_int_equal(io_read(rt, to[1], back, IO_TASK_BYTES, &got), 0);
        assert_memory_equal(back, much, got);
    }
    io_turn_until(rt, &writer.done);
    assert_int_equal(writer.result, 0);
    assert_int_equal(orr_stream_close(from[1]), 0);
    io_turn_until(rt, &copying.done);
    assert_int_equal(copying.result, 0);
    assert_int_equal(copying.copy.bytes, 2 << 20);
    atomic_store(&rain.over, true);
    pthread_join(rain.thread, NULL);
    sigaction(SIGUSR1, &before, NULL);
    io_task_end(&copying);
    io_task_end(&writer);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(from[i]), 0);
        assert_int_equal(orr_stream_free(to[i]), 0);
    }
    assert_int_equal(orr_datagram_free(datagram), 0);
    free(much);
    free(back);
    io_close(rt);
}

/* Writes to a reader that is gone: by a pipe, a socket, a copy from a pipe and one to a socket. */
static void write_in_vain(struct orr_runtime *rt)
{
    struct orr_stream *pipe[2], *pair[2], *from[2];
    assert_int_equal(orr_pipe(NULL, &pipe[0], &pipe[1]), 0);
    assert_int_equal(orr_pair(NULL, pair), 0);
    assert_int_equal(orr_stream_close(pipe[0]), 0);
    assert_int_equal(orr_stream_close(pair[1]), 0);
    assert_int_equal(io_write(rt, pipe[1], "x"), -EPIPE);
    for (int i = 0; i < 2; i++) { /* its error is kept, so the copy needs a new one */
        struct orr_stream *target[2];
        if (i)
            assert_int_equal(orr_pipe(NULL, &target[1], &target[0]), 0);
        else
            assert_int_equal(orr_pair(NULL, target), 0);
        assert_int_equal(orr_pair(NULL, from), 0);
        assert_int_equal(orr_stream_free(target[1]), 0);
        struct io_task copying = { .operation = DO_COPY, .stream = from[0], .to = target[0] };
        assert_int_equal(io_write(rt, from[1], "y"), 0);
        assert_int_equal(io_task_run(rt, &copying), -EPIPE);
        assert_int_equal(orr_stream_free(target[0]), 0);
        assert_int_equal(orr_stream_free(from[0]), 0);
        assert_int_equal(orr_stream_free(from[1]), 0);
    }
    assert_int_equal(io_write(rt, pair[0], "x"), -EPIPE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(orr_stream_free(pipe[i]), 0);
        assert_int_equal(orr_stream_free(pair[i]), 0);
    }
}

/* SIGPIPE would end this program while its disposition is the default one. */
static void the_host_s_sigpipe_stays_as_it_is(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    static void (*const dispositions[])(int) = { SIG_DFL, SIG_IGN, count_signal };
    struct sigaction original;
    sigaction(SIGPIPE, NULL, &original);
    sigset_t pipe_signal, mask, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    for (size_t i = 0; i < LENGTH(dispositions); i++)
        for (int blocked = 0; blocked < 3; blocked++) { /* 2: and one is pending */
            struct sigaction now, wanted = { .sa_handler = dispositions[i] };
            sigaction(SIGPIPE, &wanted, NULL);
            pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &pipe_signal, &before);
            if (blocked == 2)
                raise(SIGPIPE);
            write_in_vain(rt);
            sigaction(SIGPIPE, NULL, &now);
            assert_true(now.sa_handler == dispositions[i]);
            pthread_sigmask(SIG_SETMASK, NULL, &mask);
            assert_int_equal(sigismember(&mask, SIGPIPE), blocked > 0);
            sigpending(&pending);
            assert_int_equal(sigismember(&pending, SIGPIPE), blocked == 2);
            if (blocked == 2)
                assert_int_equal(sigtimedwait(&pipe_signal, NULL, &(struct timespec){ 0 }), SIGPIPE);
            pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
    sigaction(SIGPIPE, &original, NULL);
    io_close(rt);
}

/* --- Threads ---------------------------------------------------------------------------------- */

struct client {
    pthread_t thread;
    struct orr_address address;
    unsigned messages;
    bool good;
};

static void *be_client(void *data)
{
    struct client *self = data;
    int fd = connect_to(&self->address);
    char message[MESSAGE], answer[MESSAGE];
    bool good = fd >= 0;
    for (unsigned i = 0; good && i < self->messages; i++) {
        memset(message, 'a' + (int)(i % 26), sizeof message);
        for (size_t sent = 0; good && sent < sizeof message;) { /* in odd parts */
            size_t part = sizeof message - sent < 97 ? sizeof message - sent : 97;
            ssize_t count = send(fd, message + sent, part, MSG_NOSIGNAL);
            good = count > 0 || errno == EINTR;
            sent += count > 0 ? (size_t)count : 0;
        }
        good = good && recv(fd, answer, sizeof answer, MSG_WAITALL) == sizeof answer &&
               !memcmp(message, answer, sizeof answer);
    }
    if (fd >= 0)
        close(fd);
    self->good = good;
    return NULL;
}

static void start_clients(struct client *clients, unsigned count, const struct orr_address *address, unsigned messages)
{
    for (unsigned i = 0; i < count; i++) {
        clients[i] = (struct client){ .address = *address, .messages = messages };
        assert_int_equal(pthread_create(&clients[i].thread, NULL, be_client, &clients[i]), 0);
    }
}

static void end_clients(struct client *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        pthread_join(clients[i].thread, NULL);
        assert_true(clients[i].good);
    }
}

static void echo_by_threads(struct orr_runtime *rt, unsigned count, unsigned messages)
{
    struct client clients[32];
    struct server server;
    start_server(rt, &server, count);
    start_clients(clients, count, &server.address, messages);
    io_turn_until(rt, &server.done);
    end_clients(clients, count);
    assert_int_equal(orr_listener_free(server.listener), 0);
}

struct shift {
    struct orr_runtime *rt;
    struct server *server;
    unsigned turns;
};

/* Some turns, on a thread that ends afterwards. */
static void work_a_shift(void *data)
{
    struct shift *shift = data;
    int fd = orr_runtime_fd(shift->rt);
    for (unsigned i = 0; i < shift->turns && !shift->server->done; i++) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        if (orr_runtime_turn(shift->rt, ORR_NEVER) == 0 && !shift->server->done)
            poll(&ready, 1, 100);
    }
}

static void connections_go_on_while_turns_move_from_thread_to_thread(void **state)
{
    (void)state;
    enum { CLIENTS = 16 };
    struct client clients[CLIENTS];
    struct server server;
    struct orr_runtime *rt = io_open();
    start_server(rt, &server, CLIENTS);
    start_clients(clients, CLIENTS, &server.address, (unsigned)WORK(200));
    assert_int_equal(orr_runtime_leave(rt), 0);
    struct shift shift = { .rt = rt, .server = &server };
    while (!server.done) {
        shift.turns = 1 + shift.turns % 7;
        harness_on_thread(work_a_shift, &shift);
    }
    assert_int_equal(orr_runtime_enter(rt), 0);
    end_clients(clients, CLIENTS);
    assert_int_equal(server.accepted, CLIENTS);
    assert_int_equal(orr_listener_free(server.listener), 0);
    io_close(rt);
}

/* --- Slow peers ------------------------------------------------------------------------------- */

/* A peer that takes some bytes now and then, through the smallest buffer there is. */
static void a_long_write_to_a_slow_reader_arrives_whole(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    size_t size = WORK(400000), total = 0;
    char *much = malloc(size), back[97];
    for (size_t i = 0; i < size; i++)
        much[i] = (char)(i * 31 + (i >> 8));
    assert_int_equal(orr_pair(NULL, ends), 0); /* TCP would wait for its timers */
    assert_int_equal(orr_stream_set(ends[0], ORR_SET_SEND_BUFFER, 1), 0);
    struct io_task writer = { .operation = DO_WRITE, .stream = ends[0], .bytes = much, .size = size };
    io_task_start(rt, &writer);
    for (size_t got; total < size; total += got) {
        assert_int_equal(io_read(rt, ends[1], back, 1 + total % sizeof back, &got), 0);
        assert_true(got > 0);
        assert_memory_equal(back, much + total, got);
    }
    io_turn_until(rt, &writer.done);
    assert_int_equal(writer.result, 0);
    io_task_end(&writer);
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
    free(much);
    io_close(rt);
}

/* Two peers that send much, end their output, and only then read. */
static void both_directions_are_full_and_end_one_after_the_other(void **state)
{
    (void)state;
    struct orr_runtime *rt = io_open();
    struct orr_stream *ends[2];
    size_t size = 1 << 20;
    char *much = calloc(1, size), *back = malloc(IO_TASK_BYTES);
    io_tcp_pair(rt, NULL, ends);
    struct io_task writers[2];
    for (int i = 0; i < 2; i++) {
        writers[i] = (struct io_task){ .operation = DO_WRITE, .stream = ends[i], .bytes = much, .size = size };
        io_task_start(rt, &writers[i]);
    }
    io_settle(rt);
    for (int i = 0; i < 2; i++) {
        size_t total = 0, got;
        while (total < size) {
            assert_int_equal(io_read(rt, ends[1 - i], back, IO_TASK_BYTES, &got), 0);
            total += got;
        }
        io_turn_until(rt, &writers[i].done);
        assert_int_equal(writers[i].result, 0);
        io_task_end(&writers[i]);
        struct io_task ending = { .operation = DO_SHUTDOWN, .stream = ends[i] };
        assert_int_equal(io_task_run(rt, &ending), 0);
        assert_int_equal(io_read(rt, ends[1 - i], back, IO_TASK_BYTES, &got), 0);
        assert_int_equal(got, 0);
    }
    assert_int_equal(orr_stream_free(ends[0]), 0);
    assert_int_equal(orr_stream_free(ends[1]), 0);
    free(much);
    free(back);
    io_close(rt);
}

/* --- A terminal ------------------------------------------------------------------------------- */

/*
 * A program whose standard input is a terminal.  It reads a line, then waits for the next for ever.
 */
static _Noreturn void be_program(int slave)
{
    setsid();
    if (ioctl(slave, TIOCSCTTY, 0) < 0 || dup2(slave, 0) < 0 || dup2(slave, 1) < 0)
        _exit(1);
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .reactor = harness_reactor });
    struct orr_stream *input, *output;
    struct orr_descriptor_options keep = { .keep = true };
    char bytes[64];
    size_t got;
    if (!rt || orr_runtime_enter(rt) || orr_stream_open_descriptor(0, &keep, &input) ||
        orr_stream_open_descriptor(1, &keep, &output))
        _exit(2);
    for (;;) {
        if (io_read(rt, input, bytes, sizeof bytes - 1, &got) || !got)
            _exit(3);
        bytes[got] = '\0';
        if (io_write(rt, output, bytes))
            _exit(4);
    }
}

static void a_terminal_is_left_as_it_was_even_by_a_program_that_is_killed(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master));
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios before, after;
    assert_int_equal(tcgetattr(slave, &before), 0);
    int flags = fcntl(slave, F_GETFL);
    pid_t child = fork();
    if (!child)
        be_program(slave);
    assert_int_equal(write(master, "hello\n", 6), 6);
    char shown[64];
    size_t total = 0;
    while (total < 14) { /* the echo of the terminal and that of the program, each with \r */
        ssize_t got = read(master, shown + total, sizeof shown - total);
        assert_true(got > 0);
        total += (size_t)got;
    }
    assert_memory_equal(shown, "hello\r\nhello\r\n", 14);
    assert_int_equal(fcntl(slave, F_GETFL), flags); /* while the program runs, too */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(fcntl(slave, F_GETFL), flags);
    assert_int_equal(tcgetattr(slave, &after), 0);
    assert_int_equal(after.c_lflag, before.c_lflag);
    assert_int_equal(after.c_iflag, before.c_iflag);
    assert_int_equal(after.c_oflag, before.c_oflag);
    close(slave);
    close(master);
}

static const struct CMUnitTest io_storm_tests[] = {
    cmocka_unit_test(all_of_a_storm_are_served_with_descriptors_for_few),
    cmocka_unit_test(the_first_wait_of_a_worker_needs_no_descriptor),
    cmocka_unit_test(without_descriptors_everything_answers_so_and_leaves_nothing),
    cmocka_unit_test(signals_that_rain_on_the_thread_do_no_harm),
    cmocka_unit_test(the_host_s_sigpipe_stays_as_it_is),
    cmocka_unit_test(connections_go_on_while_turns_move_from_thread_to_thread),
    cmocka_unit_test(a_long_write_to_a_slow_reader_arrives_whole),
    cmocka_unit_test(both_directions_are_full_and_end_one_after_the_other),
    cmocka_unit_test(a_terminal_is_left_as_it_was_even_by_a_program_that_is_killed),
};

HARNESS_MAIN(io_storm_tests)
