/*
 * Echo servers in bare C: what a machine can do at best, and how the ways to use the kernel
 * compare.
 *
 *     bare MODE      listens on 127.0.0.1, prints its port, serves until it is killed
 *
 *     epoll          epoll_wait, recv, send
 *     poll           io_uring: one multishot poll for each connection, then recv and send
 *     recv           io_uring: recv into a buffer of a ring, chosen by the kernel; send tried first
 *     recv_ring      io_uring: the same, and send through the ring too
 *     multishot      io_uring: multishot recv into buffers of a ring; send tried first
 *
 * With "_defer" behind the mode, completions wait for the server's own call (DEFER_TASKRUN and
 * SINGLE_ISSUER); without, they come with its next system call (COOP_TASKRUN).
 *
 * A client sends one message and waits for the answer, so a connection has at most one message on
 * its way, and a send that does not fit into the socket's buffer is waited for with poll().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BUFFER_SIZE = 16384,
    BUFFERS = 1024, /* of the ring; a power of two */
    BUFFER_GROUP = 1,
    EVENTS = 512,
};

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "bare: %s: %s\n", what, strerror(error));
    exit(1);
}

static int listen_somewhere(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        fail("cannot listen", errno);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static int accept_one(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    else if (errno != EAGAIN && errno != ECONNABORTED)
        fail("cannot accept", errno);
    return fd;
}

/* Sends all of it.  False if the peer is gone. */
static bool send_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
            continue;
        }
        if (sent < 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Answers what has arrived.  False at the end of the connection. */
static bool echo(int fd)
{
    static char buffer[BUFFER_SIZE];
    for (;;) {
        ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0 || !send_all(fd, buffer, (size_t)got))
            return false;
        if (got < BUFFER_SIZE)
            return true;
    }
}

/* --- epoll ------------------------------------------------------------------------------------ */

static void serve_with_epoll(int listener)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int peer = accept_one(listener);
                event = (struct epoll_event){ .events = EPOLLIN, .data.fd = peer };
                if (peer >= 0)
                    epoll_ctl(epoll, EPOLL_CTL_ADD, peer, &event);
            } else if (!echo(fd)) {
                close(fd);
            }
        }
    }
}

/* --- io_uring --------------------------------------------------------------------------------- */

enum what { ACCEPT, READY, RECEIVED, SENT };

struct server {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers; /* NULL if the mode needs none */
    char *memory;
    int listener;
    bool polls, multishot, sends_through_ring;
};

/* A request's user_data: what it is, its descriptor, and the buffer that a send holds. */
static uint64_t tag(enum what what, int fd, unsigned buffer)
{
    return (uint64_t)buffer << 40 | (uint64_t)what << 32 | (uint32_t)fd;
}

static struct io_uring_sqe *entry(struct server *server)
{
    struct io_uring_sqe *sqe;
    while (!(sqe = io_uring_get_sqe(&server->ring)))
        io_uring_submit(&server->ring);
    return sqe;
}

static void open_buffers(struct server *server)
{
    size_t size = BUFFERS * sizeof(struct io_uring_buf);
    server->memory = malloc((size_t)BUFFERS * BUFFER_SIZE);
    server->buffers = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)server->buffers,
        .ring_entries = BUFFERS,
        .bgid = BUFFER_GROUP,
    };
    int error = io_uring_register_buf_ring(&server->ring, &registration, 0);
    if (error)
        fail("cannot register buffers", -error);
    io_uring_buf_ring_init(server->buffers);
    for (unsigned i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(server->buffers, server->memory + (size_t)i * BUFFER_SIZE, BUFFER_SIZE, (unsigned short)i,
                              BUFFERS - 1, (int)i);
    io_uring_buf_ring_advance(server->buffers, BUFFERS);
}

static void give_back(struct server *server, unsigned buffer)
{
    io_uring_buf_ring_add(server->buffers, server->memory + (size_t)buffer * BUFFER_SIZE, BUFFER_SIZE,
                          (unsigned short)buffer, BUFFERS - 1, 0);
    io_uring_buf_ring_advance(server->buffers, 1);
}

static void ask_accept(struct server *server)
{
    struct io_uring_sqe *sqe = entry(server);
    io_uring_prep_multishot_accept(sqe, server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    io_uring_sqe_set_data64(sqe, tag(ACCEPT, server->listener, 0));
}

static void ask_input(struct server *server, int fd)
{
    struct io_uring_sqe *sqe = entry(server);
    if (server->polls) {
        io_uring_prep_poll_multishot(sqe, fd, POLLIN);
        io_uring_sqe_set_data64(sqe, tag(READY, fd, 0));
        return;
    }
    if (server->multishot)
        io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    else
        io_uring_prep_recv(sqe, fd, NULL, BUFFER_SIZE, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    if (!server->multishot)
        sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    io_uring_sqe_set_data64(sqe, tag(RECEIVED, fd, 0));
}

static void received(struct server *server, int fd, const struct io_uring_cqe *cqe)
{
    unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    bool more = cqe->flags & IORING_CQE_F_MORE;
    if (cqe->res == -ENOBUFS) {
        ask_input(server, fd);
        return;
    }
    if (cqe->res <= 0) {
        if (cqe->flags & IORING_CQE_F_BUFFER)
            give_back(server, buffer);
        close(fd);
        return;
    }
    char *data = server->memory + (size_t)buffer * BUFFER_SIZE;
    if (server->sends_through_ring) {
        struct io_uring_sqe *sqe = entry(server);
        io_uring_prep_send(sqe, fd, data, (size_t)cqe->res, MSG_WAITALL | MSG_NOSIGNAL);
        io_uring_sqe_set_data64(sqe, tag(SENT, fd, buffer));
    } else {
        send_all(fd, data, (size_t)cqe->res);
        give_back(server, buffer);
    }
    if (!more)
        ask_input(server, fd);
}

static void handle(struct server *server, const struct io_uring_cqe *cqe)
{
    int fd = (int)(uint32_t)cqe->user_data;
    switch ((enum what)(cqe->user_data >> 32 & 255)) {
    case ACCEPT:
        if (cqe->res >= 0) {
            setsockopt(cqe->res, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
            ask_input(server, cqe->res);
        }
        if (!(cqe->flags & IORING_CQE_F_MORE))
            ask_accept(server);
        break;
    case READY:
        if (cqe->res == -ECANCELED)
            break;
        if (!echo(fd)) {
            struct io_uring_sqe *sqe = entry(server);
            io_uring_prep_poll_remove(sqe, tag(READY, fd, 0));
            io_uring_sqe_set_data64(sqe, tag(SENT, fd, BUFFERS));
            io_uring_submit(&server->ring);
            close(fd);
        } else if (!(cqe->flags & IORING_CQE_F_MORE)) {
            ask_input(server, fd);
        }
        break;
    case RECEIVED:
        received(server, fd, cqe);
        break;
    case SENT:
        if (cqe->user_data >> 40 < BUFFERS)
            give_back(server, (unsigned)(cqe->user_data >> 40));
        break;
    }
}

static void serve_with_uring(struct server *server, bool defer)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE |
                 (defer ? IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER : IORING_SETUP_COOP_TASKRUN),
        .cq_entries = 4096,
    };
    int error = io_uring_queue_init_params(1024, &server->ring, &params);
    if (error)
        fail("cannot open a ring", -error);
    if (!server->polls)
        open_buffers(server);
    ask_accept(server);
    for (;;) {
        io_uring_submit_and_wait(&server->ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_for_each_cqe(&server->ring, head, cqe)
        {
            handle(server, cqe);
            count++;
        }
        io_uring_cq_advance(&server->ring, count);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc == 2 ? argv[1] : "";
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    const char *defer = strstr(mode, "_defer");
    size_t length = defer ? (size_t)(defer - mode) : strlen(mode);
    struct server server = { 0 };
    static const char *const modes[] = { "poll", "recv", "recv_ring", "multishot" };
    for (size_t i = 0; i < 4; i++) {
        if (strlen(modes[i]) != length || strncmp(mode, modes[i], length))
            continue;
        server.polls = i == 0;
        server.sends_through_ring = i == 2;
        server.multishot = i == 3;
        server.listener = listen_somewhere();
        serve_with_uring(&server, defer);
    }
    if (strcmp(mode, "epoll")) {
        fprintf(stderr, "Usage: bare epoll|poll|recv|recv_ring|multishot[_defer]\n");
        return 2;
    }
    serve_with_epoll(listen_somewhere());
}
