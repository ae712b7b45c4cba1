/*
 * Streams on sockets, and connecting.
 *
 * A socket that connects is a stream already, but nobody has it yet: the wait in its slot for
 * writing owns it.  If that wait is withdrawn, the stream is freed; so no phase of a connect loses
 * a descriptor.
 */
#include "io/socket.h"

#include "io/connecting.h"
#include "io/gate.h"
#include "io/simulated_connect.h"
#include "io/simulation.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PEER_MAX = sizeof(struct sockaddr_in6),
    DRAIN_BYTES = 8 * 1024, /* input that is dropped in one call when a stream is closed */
    DRAIN_CALLS = 128,
    RETRY_NS = 2 * 1000 * 1000, /* between two tries to connect to a path whose backlog is full */
};

struct socket {
    struct descriptor descriptor;
    /* The peer of a TCP connection: the kernel forgets it when the connection breaks. */
    uint8_t peer_length;
    char peer[PEER_MAX];
};

static struct socket *socket_of(const struct orr_stream *stream)
{
    return container_of(descriptor_of(stream), struct socket, descriptor);
}

/* --- The kinds -------------------------------------------------------------------------------- */

static int socket_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    const struct socket *self = socket_of(stream);
    struct orr_address address;
    int error = 0;
    if (end == ORR_PEER && self->peer_length)
        address_from_kernel(&address, (const struct sockaddr *)self->peer, self->peer_length);
    else
        error = address_of_socket(self->descriptor.watch.fd, end, &address);
    return error ? error : orr_address_print(&address, text, size);
}

static int socket_shutdown(struct orr_stream *stream)
{
    return shutdown(descriptor_of(stream)->watch.fd, SHUT_WR) < 0 ? -errno : 0;
}

/*
 * Input that nobody has read would make the kernel reset the connection when it is closed, and a
 * reset drops output that is still on its way.  So the output ends, and the input that has come so
 * far is dropped.  The kernel is asked, since its news of input may not have been collected yet.
 */
static void drain(const struct descriptor *self)
{
    char dropped[DRAIN_BYTES];
    int fd = self->watch.fd;
    if (recv(fd, dropped, sizeof dropped, MSG_DONTWAIT) <= 0 || shutdown(fd, SHUT_WR) < 0)
        return;
    for (int i = 0; i < DRAIN_CALLS; i++)
        if (recv(fd, dropped, sizeof dropped, MSG_DONTWAIT) <= 0)
            return;
}

/* A descriptor that its owner keeps goes on as a connection: nothing of it is ended or dropped. */
static bool is_kept(const struct descriptor *self)
{
    return self->foreign && self->original < 0;
}

static void socket_close(struct orr_stream *stream)
{
    const struct descriptor *self = descriptor_of(stream);
    if (!stream->ended && !stream->read_error && !is_kept(self))
        drain(self);
    descriptor_close(stream);
}

int socket_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) < 0 ? -errno : 0;
}

static int set_keepalive(int fd, int64_t seconds)
{
    if (seconds > 32767)
        return -EINVAL;
    int error = socket_option(fd, SOL_SOCKET, SO_KEEPALIVE, seconds > 0);
    if (error || !seconds)
        return error;
    error = socket_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)seconds);
    if (error)
        return error;
    int64_t between = seconds / 4; /* the kernel probes nine times before it gives up */
    return socket_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, between < 1 ? 1 : (int)between);
}

int socket_set(int fd, int family, enum orr_setting setting, int64_t value)
{
    if (value < 0 || value > INT_MAX)
        return -EINVAL;
    switch (setting) {
    case ORR_SET_DELAY:
        return family == AF_UNIX ? -ENOTSUP : socket_option(fd, IPPROTO_TCP, TCP_NODELAY, !value);
    case ORR_SET_KEEPALIVE:
        return family == AF_UNIX ? -ENOTSUP : set_keepalive(fd, value);
    case ORR_SET_SEND_BUFFER:
        return socket_option(fd, SOL_SOCKET, SO_SNDBUF, (int)value);
    case ORR_SET_RECEIVE_BUFFER:
        return socket_option(fd, SOL_SOCKET, SO_RCVBUF, (int)value);
    }
    return -ENOTSUP;
}

static int tcp_set(struct orr_stream *stream, enum orr_setting setting, int64_t value)
{
    return socket_set(descriptor_of(stream)->watch.fd, AF_INET, setting, value);
}

static int unix_set(struct orr_stream *stream, enum orr_setting setting, int64_t value)
{
    return socket_set(descriptor_of(stream)->watch.fd, AF_UNIX, setting, value);
}

#define SOCKET_KIND(text, setter) \
    { \
        .name = (text), .size = sizeof(struct socket), .read = descriptor_read, .write = descriptor_write, \
        .want = descriptor_want, .shutdown = socket_shutdown, .close = socket_close, .describe = socket_describe, \
        .set = (setter), \
    }

static const struct orr_stream_kind tcp_kind = SOCKET_KIND("tcp", tcp_set);
static const struct orr_stream_kind unix_kind = SOCKET_KIND("unix", unix_set);

int socket_prepare(int family, const struct orr_open *open, struct orr_stream **stream)
{
    return descriptor_prepare(family == AF_UNIX ? &unix_kind : &tcp_kind, open, stream);
}

static void keep_peer(struct orr_stream *stream, const struct orr_address *peer)
{
    struct socket *self = socket_of(stream);
    if (stream->kind != &tcp_kind || peer->length > PEER_MAX)
        return;
    self->peer_length = (uint8_t)peer->length;
    memcpy(self->peer, peer->bytes, peer->length);
}

void socket_adopt(struct orr_stream *stream, int fd, const struct orr_address *peer)
{
    struct socket *self = socket_of(stream);
    descriptor_init(stream, fd, DESCRIPTOR_SOCKET);
    /* A Unix socket ends a read where descriptors came along, though there is more to read. */
    self->descriptor.drains = stream->kind == &tcp_kind;
    if (peer)
        keep_peer(stream, peer);
}

void socket_discard(struct orr_stream *stream)
{
    opened_free(&stream->opened);
}

static int apply_options(int fd, int family, const struct orr_socket_options *options)
{
    int error = 0;
    if (family != AF_UNIX && !options->delay)
        error = socket_set(fd, family, ORR_SET_DELAY, 0);
    if (!error && options->keepalive_s && family != AF_UNIX)
        error = socket_set(fd, family, ORR_SET_KEEPALIVE, options->keepalive_s);
    if (!error && options->send_buffer)
        error = socket_set(fd, family, ORR_SET_SEND_BUFFER, options->send_buffer);
    if (!error && options->receive_buffer)
        error = socket_set(fd, family, ORR_SET_RECEIVE_BUFFER, options->receive_buffer);
    return error;
}

int socket_open(int family, int type, const struct orr_socket_options *options)
{
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = options ? apply_options(fd, family, options) : 0;
    if (error)
        close(fd);
    return error ? error : fd;
}

/* --- Connecting ------------------------------------------------------------------------------- */

static const struct orr_wait_kind connect_kind = {
    .name = "a connection",
    .withdraw = connecting_withdraw,
    .describe = connecting_describe,
    .ends_by_itself = true,
};

/* Removes the path of a socket that nobody has open any more.  Answers whether it did. */
static bool remove_stale(const struct passage *passage, int type)
{
    const struct orr_address *address = passage->address;
    struct stat now;
    if (!passage->name || fstatat(passage->folder, passage->name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISSOCK(now.st_mode))
        return false;
    int fd = socket_open(AF_UNIX, type, NULL);
    if (fd < 0)
        return false;
    bool stale = connect(fd, address_kernel(address), address->length) < 0 && errno == ECONNREFUSED;
    close(fd);
    return stale && unlinkat(passage->folder, passage->name, 0) == 0;
}

static int try_bind(int fd, const struct orr_address *address)
{
    return bind(fd, address_kernel(address), address->length) < 0 ? -errno : 0;
}

int socket_bind(int fd, int type, const struct orr_gate *gate, const struct gate_request *request)
{
    struct passage passage;
    int error = gate_pass(gate, request, &passage);
    if (error)
        return error;
    error = try_bind(fd, passage.address);
    if (error == -EADDRINUSE && remove_stale(&passage, type))
        error = try_bind(fd, passage.address);
    if (!error)
        error = gate_confirm(&passage);
    gate_leave(&passage);
    return error;
}

int socket_connect(int fd, const struct orr_gate *gate, const struct orr_address *address)
{
    struct passage passage;
    int error = gate_pass(gate, &(struct gate_request){ .use = GATE_CONNECT, .address = address }, &passage);
    if (error)
        return error;
    if (connect(fd, address_kernel(passage.address), passage.address->length) < 0)
        error = -errno;
    gate_leave(&passage);
    return error;
}

static int bind_local(int fd, const struct orr_gate *gate, const struct orr_address *local)
{
    if (!address_is_sound(local))
        return -EINVAL;
    /* Port 0: the port is chosen when the peer is known, so that there are more to choose from. */
    if (address_family(local) != AF_UNIX)
        socket_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    return socket_bind(fd, SOCK_STREAM, gate, &(struct gate_request){ .use = GATE_LISTEN, .address = local });
}

/*
 * Whether the socket is connected to itself.  That happens when nobody listens on a port of this
 * machine and the kernel chooses that very port for the socket.
 */
static bool met_itself(const struct orr_stream *stream)
{
    const struct socket *self = socket_of(stream);
    struct orr_address local;
    return self->peer_length && !address_of_socket(self->descriptor.watch.fd, ORR_LOCAL, &local) &&
           local.length == self->peer_length && !memcmp(local.bytes, self->peer, local.length);
}

/*
 * 0 if the socket is connected, -EAGAIN if not yet, or why it cannot be.  The peer is where the
 * kernel has connected to: 0.0.0.0 means this machine.
 */
static int connect_result(struct orr_stream *stream)
{
    int fd = descriptor_of(stream)->watch.fd, error = 0;
    socklen_t size = sizeof error;
    struct orr_address peer;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    if (error)
        return -error;
    error = address_of_socket(fd, ORR_PEER, &peer);
    if (error == -ENOTCONN)
        return -EAGAIN;
    if (!error)
        keep_peer(stream, &peer);
    return met_itself(stream) ? -ECONNREFUSED : 0;
}

/* Begins to connect: 0 if it is connected already, -EINPROGRESS, or an error. */
static int start_connecting(struct orr_stream *stream, const struct orr_address *address,
                            const struct orr_socket_options *options)
{
    int fd = socket_open(address_family(address), SOCK_STREAM, options);
    if (fd < 0) {
        socket_discard(stream);
        return fd;
    }
    socket_adopt(stream, fd, address);
    const struct orr_gate *gate = options->open.gate;
    int error = options->local ? bind_local(fd, gate, options->local) : 0;
    if (!error)
        error = socket_connect(fd, gate, address);
    if (error == -EINTR || (!error && (error = connect_result(stream)) == -EAGAIN))
        error = -EINPROGRESS;
    if (error == -EINPROGRESS)
        reactor_watch_spent(&descriptor_of(stream)->watch, POLLIN | POLLOUT);
    else if (error)
        orr_stream_free(stream);
    return error;
}

/* Goes on when the socket is ready: connected, or not. */
static int go_on(struct attempt *attempt, struct orr_stream **out)
{
    struct orr_stream *stream = attempt->stream;
    int answer = attempt_begin(attempt);
    if (answer < 0)
        return answer;
    answer = connect_result(stream);
    if (answer == -EAGAIN) {
        reactor_watch_spent(&descriptor_of(stream)->watch, POLLOUT);
        answer = attempt_wait(attempt, ORR_WRITABLE);
    }
    if (answer == -EAGAIN)
        return answer;
    wait_refuse(attempt->wait, answer);
    if (answer)
        orr_stream_free(stream);
    else
        *out = stream;
    return answer;
}

/* Makes the socket and begins to connect. */
static int begin(struct attempt *attempt, const struct orr_address *address, const struct orr_socket_options *options,
                 struct orr_stream **out)
{
    struct orr_stream *stream;
    int answer = wait_interruption(attempt->task);
    if (!answer)
        answer = socket_prepare(address_family(address), &options->open, &stream);
    if (answer)
        return answer;
    answer = start_connecting(stream, address, options);
    if (!answer)
        *out = stream;
    if (answer != -EINPROGRESS) {
        spree_spend(attempt->task->worker, 0);
        return answer;
    }
    attempt->stream = stream;
    answer = attempt_wait(attempt, ORR_WRITABLE);
    if (answer != -EAGAIN)
        orr_stream_free(stream);
    return answer;
}

/* orr_connect() on real sockets. */
static int connect_socket(struct orr_task *task, struct orr_wait *wait, const struct orr_address *address,
                          const struct orr_socket_options *options, struct orr_stream **stream)
{
    struct attempt attempt = { task, wait, NULL, SLOT_WRITE, &connect_kind, NULL };
    if (wait->state != WAIT_IDLE && wait->kind == &connect_kind) {
        attempt.stream = wait->source;
        return go_on(&attempt, stream);
    }
    attempt.group = wait->grouped ? wait->owner : NULL;
    bool others_first = wait->state == WAIT_IDLE && spree_is_over(task->worker);
    int answer = wait->state == WAIT_IDLE && !others_first ? 0 : orr_sleep(task, wait, others_first ? 0 : RETRY_NS);
    if (answer)
        return answer;
    answer = begin(&attempt, address, options, stream);
    /* The backlog of a path is full, and the kernel does not say when it has room. */
    if (answer == -EAGAIN && wait->state == WAIT_IDLE) {
        wait->grouped = attempt.group;
        wait->owner = attempt.group;
        return orr_sleep(task, wait, RETRY_NS);
    }
    return answer == -EAGAIN ? answer : wait_refuse(wait, answer);
}

int orr_connect(struct orr_task *task, struct orr_wait *wait, const struct orr_address *address,
                const struct orr_socket_options *options, struct orr_stream **stream)
{
    static const struct orr_socket_options defaults;
    if (!task || !wait || !stream || !address_is_sound(address))
        return -EINVAL;
    if (!wait_allowed(task))
        return wait_refuse(wait, -EPERM);
    if (simulated_connect_waits(wait))
        return simulated_connect_on(task, wait, stream);
    options = options ? options : &defaults;
    struct orr_network_host *host = NULL;
    int error = wait->state == WAIT_IDLE ? simulation_host(&options->open, &host) : 0;
    if (error)
        return wait_refuse(wait, error);
    return host ? simulated_connect(task, wait, host, address, options, stream)
                : connect_socket(task, wait, address, options, stream);
}
