/*
 * A load of messages on an echo server.  Each connection sends one message, waits for all of the
 * answer, checks its first and last byte, and sends the next.
 *
 *     load ADDRESS PORT CONNECTIONS BYTES SECONDS [IDLE]
 *
 * Prints a line when the server has accepted all connections, then "requests-per-second p50-us
 * p99.9-us".  IDLE connections are opened beside the others and send nothing.  The first tenth of
 * the time is not counted.  The connections are closed at the end of the standard input, so that
 * the server's processor time can be read before.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Latencies are counted by their logarithm: 64 steps for each doubling of the time. */
enum { STEPS = 64, DOUBLINGS = 40, EVENTS = 512 };

struct connection {
    int fd;
    size_t left; /* bytes of the answer that have not arrived */
    uint64_t sent_at;
};

static uint64_t latencies[STEPS * DOUBLINGS];
static char *message, *answer;
static size_t size;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void count_latency(uint64_t ns)
{
    unsigned doubling = ns < STEPS ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 5;
    unsigned step = (unsigned)(ns >> doubling) & (STEPS - 1);
    unsigned slot = doubling * STEPS + step;
    latencies[slot < STEPS * DOUBLINGS ? slot : STEPS * DOUBLINGS - 1]++;
}

static double latency_below(uint64_t rank)
{
    for (unsigned slot = 0; slot < STEPS * DOUBLINGS; slot++) {
        if (rank < latencies[slot])
            return (double)((uint64_t)(slot % STEPS) << slot / STEPS) / 1e3;
        rank -= latencies[slot];
    }
    return 0;
}

static int open_connection(const struct sockaddr_in *server)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)server, sizeof *server))
        fail("cannot connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return fd;
}

static void send_message(struct connection *connection)
{
    connection->left = size;
    connection->sent_at = now();
    for (size_t sent = 0; sent < size;) {
        ssize_t count = send(connection->fd, message + sent, size - sent, MSG_NOSIGNAL);
        if (count <= 0)
            fail("cannot send");
        sent += (size_t)count;
    }
}

/* Takes what has arrived.  True if the answer is complete. */
static bool take_answer(struct connection *connection)
{
    ssize_t got = recv(connection->fd, answer, connection->left, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0)
        fail("the server closed a connection");
    if (connection->left == size && answer[0] != message[0])
        fail("the answer is not the message");
    connection->left -= (size_t)got;
    if (!connection->left && answer[got - 1] != message[size - 1])
        fail("the answer is not the message");
    return !connection->left;
}

/* An answer on the connection that was opened last shows that the server has accepted all. */
static void await_answer(struct connection *connection)
{
    send_message(connection);
    while (!take_answer(connection))
        poll(&(struct pollfd){ .fd = connection->fd, .events = POLLIN }, 1, -1);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "Usage: load ADDRESS PORT CONNECTIONS BYTES SECONDS [IDLE]\n");
        return 2;
    }
    struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])) };
    if (inet_pton(AF_INET, argv[1], &server.sin_addr) != 1)
        fail("not an address");
    int count = atoi(argv[3]), idle = argc > 6 ? atoi(argv[6]) : 0;
    size = (size_t)atoi(argv[4]);
    uint64_t duration = (uint64_t)(atof(argv[5]) * 1e9);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    message = malloc(size);
    answer = malloc(size);
    for (size_t i = 0; i < size; i++)
        message[i] = (char)('a' + i % 26);
    for (int i = 0; i < idle; i++)
        open_connection(&server);
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < count; i++) {
        connections[i].fd = open_connection(&server);
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &connections[i] };
        epoll_ctl(epoll, EPOLL_CTL_ADD, connections[i].fd, &event);
    }

    await_answer(&connections[count - 1]);
    puts("connected");
    fflush(stdout);
    uint64_t start = now(), counted_from = start + duration / 10, end = start + duration, done = 0;
    for (int i = 0; i < count; i++)
        send_message(&connections[i]);
    struct epoll_event events[EVENTS];
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, 1000);
        uint64_t time = now();
        if (time >= end)
            break;
        if (!ready)
            fail("the server has not answered for a second");
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!take_answer(connection))
                continue;
            time = now();
            if (time >= counted_from) {
                count_latency(time - connection->sent_at);
                done++;
            }
            send_message(connection);
        }
    }
    printf("%.0f %.1f %.1f\n", (double)done / ((double)(end - counted_from) / 1e9), latency_below(done / 2),
           latency_below(done - done / 1000 - (done > 0)));
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    return 0;
}
