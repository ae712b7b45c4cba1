/*
 * Sockets in C, without Lua: connections accepted and closed, bytes copied from one connection to
 * another, and what an idle connection weighs.  Figures are for each second of the serving thread's
 * processor time, so that they do not depend on the other end, which has a core of its own.  The
 * peers are the same system calls in bare C.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 2048, /* accepted in one run */
    AT_ONCE = 16,
    COPIED = 64 << 20,
    BLOCK = 64 << 10,
    IDLE = 2000,
};

static enum orr_reactor reactor;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "sockets: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address))
        fail("cannot connect");
    return fd;
}

/* A listener in bare C, in blocking mode. */
static int listen_bare(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (fd < 0 || bind(fd, (struct sockaddr *)address, length) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)address, &length))
        fail("cannot listen");
    return fd;
}

static struct orr_runtime *open_runtime(void)
{
    struct orr_runtime *rt = orr_runtime_new(&(struct orr_options){ .reactor = reactor, .alloc = bench_alloc });
    if (!rt)
        fail("cannot open a runtime");
    bench_must(orr_runtime_enter(rt), "orr_runtime_enter");
    return rt;
}

static struct orr_listener *listen_ours(struct sockaddr_in *address)
{
    struct orr_listener *listener;
    struct orr_address any, real;
    bench_must(orr_address_parse("127.0.0.1:0", 11, &any), "orr_address_parse");
    bench_must(orr_listen(&any, NULL, &listener), "orr_listen");
    bench_must(orr_listener_address(listener, &real), "orr_listener_address");
    memcpy(address, real.bytes, sizeof *address);
    return listener;
}

/* --- Accept and close ------------------------------------------------------------------------- */

/* Connects, waits until the server has closed the connection, and goes on. */
static void *come_and_go(void *data)
{
    const struct sockaddr_in *address = data;
    bench_pin(1);
    for (int i = 0; i < CONNECTIONS; i += AT_ONCE) {
        int fds[AT_ONCE];
        char byte;
        for (int j = 0; j < AT_ONCE; j++)
            fds[j] = connect_to(address);
        for (int j = 0; j < AT_ONCE; j++) {
            while (recv(fds[j], &byte, 1, 0) > 0)
                continue;
            close(fds[j]);
        }
    }
    return NULL;
}

struct acceptor {
    struct orr_listener *listener;
    struct orr_wait wait;
    int left;
};

static enum orr_poll accept_and_close(struct orr_task *task, void *data)
{
    struct acceptor *self = data;
    for (; self->left; self->left--) {
        struct orr_stream *stream;
        int error = orr_accept(task, &self->wait, self->listener, NULL, &stream);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_accept");
        orr_stream_free(stream);
    }
    return ORR_DONE;
}

static double a_second(uint64_t cpu_start, double count)
{
    return count / ((double)(bench_cpu_now() - cpu_start) / 1e9);
}

static double accept_ours(void)
{
    struct orr_runtime *rt = open_runtime();
    struct sockaddr_in address;
    struct acceptor acceptor = { .listener = listen_ours(&address), .left = CONNECTIONS };
    pthread_t client;
    pthread_create(&client, NULL, come_and_go, &address);
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = accept_and_close, .data = &acceptor }), "orr_spawn");
    uint64_t start = bench_cpu_now();
    bench_run(rt);
    double figure = a_second(start, CONNECTIONS);
    pthread_join(client, NULL);
    orr_listener_free(acceptor.listener);
    bench_close(rt);
    return figure;
}

static double accept_bare(void)
{
    struct sockaddr_in address;
    int listener = listen_bare(&address);
    pthread_t client;
    pthread_create(&client, NULL, come_and_go, &address);
    uint64_t start = bench_cpu_now();
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            fail("cannot accept");
        close(fd);
    }
    double figure = a_second(start, CONNECTIONS);
    pthread_join(client, NULL);
    close(listener);
    return figure;
}

/* --- Copies ----------------------------------------------------------------------------------- */

static void *pour(void *data)
{
    static const char block[BLOCK];
    int fd = *(int *)data;
    bench_pin(1);
    for (int left = COPIED; left > 0; left -= BLOCK)
        for (size_t sent = 0; sent < BLOCK;) {
            ssize_t count = send(fd, block + sent, BLOCK - sent, MSG_NOSIGNAL);
            if (count <= 0)
                fail("cannot send");
            sent += (size_t)count;
        }
    shutdown(fd, SHUT_WR);
    return NULL;
}

static void *drain(void *data)
{
    static char block[BLOCK];
    int fd = *(int *)data;
    bench_pin(1);
    for (int left = COPIED; left > 0;) {
        ssize_t count = recv(fd, block, sizeof block, 0);
        if (count <= 0)
            fail("cannot receive");
        left -= (int)count;
    }
    return NULL;
}

/* The far ends of two connections, with a thread at each. */
struct ends {
    int source, sink;
    pthread_t pourer, drainer;
};

static void start_ends(struct ends *ends)
{
    pthread_create(&ends->pourer, NULL, pour, &ends->source);
    pthread_create(&ends->drainer, NULL, drain, &ends->sink);
}

static void end_ends(struct ends *ends)
{
    pthread_join(ends->pourer, NULL);
    pthread_join(ends->drainer, NULL);
    close(ends->source);
    close(ends->sink);
}

/* Two connections in bare C. */
static void connect_bare(struct ends *ends, int fds[2])
{
    struct sockaddr_in address;
    int listener = listen_bare(&address);
    ends->source = connect_to(&address);
    fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ends->sink = connect_to(&address);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
}

struct copier {
    struct orr_listener *listener;
    struct orr_stream *streams[2];
    struct orr_copy copy;
    struct orr_wait wait;
    int accepted;
    bool by_hand; /* reads and writes */
    char *block;
    size_t length;
};

/* Reads some bytes and writes them: 0 when all is done. */
static int copy_by_hand(struct orr_task *task, struct copier *self)
{
    for (;;) {
        int error = 0;
        if (!self->length)
            error = orr_stream_read(task, &self->wait, self->streams[0], self->block, BLOCK, &self->length);
        if (error || !self->length)
            return error;
        struct iovec part = { self->block, self->length };
        error = orr_stream_write(task, &self->wait, self->streams[1], &part, 1, NULL);
        if (error)
            return error;
        self->length = 0;
    }
}

static enum orr_poll copy_all(struct orr_task *task, void *data)
{
    struct copier *self = data;
    for (; self->accepted < 2; self->accepted++) {
        int error = orr_accept(task, &self->wait, self->listener, NULL, &self->streams[self->accepted]);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_accept");
    }
    int error = self->by_hand ? copy_by_hand(task, self)
                              : orr_stream_copy(task, &self->copy, self->streams[0], self->streams[1]);
    if (error == -EAGAIN)
        return ORR_PENDING;
    bench_must(error, "copy");
    return ORR_DONE;
}

static double copy_ours(bool by_hand)
{
    struct orr_runtime *rt = open_runtime();
    struct sockaddr_in address;
    struct copier copier = { .listener = listen_ours(&address), .by_hand = by_hand, .block = malloc(BLOCK) };
    struct ends ends;
    ends.source = connect_to(&address);
    ends.sink = connect_to(&address);
    start_ends(&ends);
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = copy_all, .data = &copier }), "orr_spawn");
    uint64_t start = bench_cpu_now();
    bench_run(rt);
    double figure = a_second(start, COPIED / 1e6);
    end_ends(&ends);
    for (int i = 0; i < 2; i++)
        orr_stream_free(copier.streams[i]);
    orr_listener_free(copier.listener);
    free(copier.block);
    bench_close(rt);
    return figure;
}

static double copy_in_kernel(void)
{
    return copy_ours(false);
}

static double copy_in_user_space(void)
{
    return copy_ours(true);
}

static double copy_bare(bool spliced)
{
    static char block[BLOCK];
    struct ends ends;
    int fds[2], pipes[2];
    connect_bare(&ends, fds);
    if (pipe2(pipes, O_CLOEXEC) || fcntl(pipes[1], F_SETPIPE_SZ, 4 * BLOCK) < 0)
        fail("cannot make a pipe");
    start_ends(&ends);
    uint64_t start = bench_cpu_now();
    for (;;) {
        ssize_t got = spliced ? splice(fds[0], NULL, pipes[1], NULL, (size_t)4 * BLOCK, SPLICE_F_MOVE)
                              : recv(fds[0], block, sizeof block, 0);
        if (got <= 0)
            break;
        for (ssize_t sent = 0, count; sent < got; sent += count) {
            count = spliced ? splice(pipes[0], NULL, fds[1], NULL, (size_t)(got - sent), SPLICE_F_MOVE)
                            : send(fds[1], block + sent, (size_t)(got - sent), MSG_NOSIGNAL);
            if (count <= 0)
                fail("cannot copy");
        }
    }
    double figure = a_second(start, COPIED / 1e6);
    end_ends(&ends);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(pipes[i]);
    }
    return figure;
}

static double splice_bare(void)
{
    return copy_bare(true);
}

static double read_write_bare(void)
{
    return copy_bare(false);
}

/* --- Idle connections ------------------------------------------------------------------------- */

/* Bytes in the kernel's pools that connections use; 0 where they cannot be read. */
static double kernel_bytes(void)
{
    static const char *const pools[] = { "TCP", "sock_inode_cache", "filp", "eventpoll_epi", "eventpoll_pwq" };
    FILE *file = fopen("/proc/slabinfo", "r");
    char line[512], name[64];
    double total = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long active, all, size;
        if (sscanf(line, "%63s %lu %lu %lu", name, &active, &all, &size) != 4)
            continue;
        for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
            if (!strcmp(name, pools[i]))
                total += (double)active * (double)size;
    }
    if (file)
        fclose(file);
    return total;
}

struct idler {
    struct orr_stream *stream;
    struct orr_wait wait;
};

/* Waits for input that never comes. */
static enum orr_poll idle(struct orr_task *task, void *data)
{
    struct idler *self = data;
    int error = orr_stream_fill(task, &self->wait, self->stream, 1, BLOCK);
    return error == -EAGAIN ? ORR_PENDING : ORR_DONE;
}

struct host {
    struct orr_listener *listener;
    struct orr_wait wait;
    struct idler *idlers;
    int count, wanted;
};

static enum orr_poll accept_idlers(struct orr_task *task, void *data)
{
    struct host *self = data;
    for (; self->count < self->wanted; self->count++) {
        struct idler *idler = &self->idlers[self->count];
        int error = orr_accept(task, &self->wait, self->listener, NULL, &idler->stream);
        if (error == -EAGAIN)
            return ORR_PENDING;
        bench_must(error, "orr_accept");
        struct orr_spawn spawn = { .poll = idle, .data = idler, .detached = true };
        bench_must(orr_spawn(orr_task_runtime(task), &spawn), "orr_spawn");
    }
    return ORR_DONE;
}

static void weigh_idle_connections(const char *name)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * IDLE + 100) {
        printf("%s: the limit of open files is too low: %lu\n", name, (unsigned long)files.rlim_cur);
        return;
    }
    struct orr_runtime *rt = open_runtime();
    struct sockaddr_in address;
    struct host host = { .listener = listen_ours(&address),
                         .idlers = calloc(IDLE, sizeof(struct idler)),
                         .wanted = IDLE };
    int *fds = calloc(IDLE, sizeof *fds);
    size_t before = bench_allocated;
    double kernel_before = kernel_bytes();
    bench_must(orr_spawn(rt, &(struct orr_spawn){ .poll = accept_idlers, .data = &host }), "orr_spawn");
    bench_must(orr_runtime_leave(rt), "orr_runtime_leave");
    for (int i = 0; i < IDLE; i++)
        fds[i] = connect_to(&address);
    while (host.count < IDLE)
        bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    for (int i = 0; i < 3; i++)
        bench_must(orr_runtime_turn(rt, ORR_NEVER), "orr_runtime_turn");
    double ours = (double)(bench_allocated - before) / IDLE + sizeof(struct idler);
    double kernel = (kernel_bytes() - kernel_before) / IDLE;
    bench_line(name, ours, "bytes", 0, NULL);
    char line[120];
    snprintf(line, sizeof line, "%.80s_kernel_both_ends", name);
    if (kernel_before > 0)
        bench_line(line, kernel, "bytes", 0, NULL);
    else
        printf("%s: only root may read /proc/slabinfo\n", line);
    for (int i = 0; i < IDLE; i++)
        close(fds[i]);
    orr_runtime_free(rt);
    free(host.idlers);
    free(fds);
}

int main(void)
{
    bench_pin(0);
    for (reactor = ORR_REACTOR_URING; reactor <= ORR_REACTOR_EPOLL; reactor++) {
        const char *suffix = orr_reactor_name(reactor);
        char name[80];
        struct orr_runtime *probe = orr_runtime_new(&(struct orr_options){ .reactor = reactor });
        if (!probe) {
            printf("sockets_%s: not available here\n", suffix);
            continue;
        }
        orr_runtime_free(probe);
        snprintf(name, sizeof name, "sockets_accept_close_%s", suffix);
        bench_compare(name, "1/cpu-s", accept_ours, "bare_accept_close", accept_bare);
        snprintf(name, sizeof name, "sockets_copy_%s", suffix);
        bench_compare(name, "MB/cpu-s", copy_in_kernel, "bare_splice", splice_bare);
        snprintf(name, sizeof name, "sockets_read_write_%s", suffix);
        bench_compare(name, "MB/cpu-s", copy_in_user_space, "bare_recv_send", read_write_bare);
        snprintf(name, sizeof name, "sockets_idle_%s", suffix);
        weigh_idle_connections(name);
    }
    return 0;
}
