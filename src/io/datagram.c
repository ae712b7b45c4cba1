/*
 * Datagram sockets.  Inside, such a socket is a stream without bytes: it has a descriptor, a slot
 * for the task that receives and one for the task that sends, and a place among what is open.
 *
 * Errors are the kernel's answers to single messages, so none is kept.
 *
 * In a simulated network, simulated_datagram.c takes the kernel's place.
 */
#include "io/bound_path.h"
#include "io/gate.h"
#include "io/simulated_datagram.h"
#include "io/simulation.h"
#include "io/socket.h"

#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

struct datagram {
    struct descriptor descriptor;
    struct orr_timer *retry; /* until the next try to send to a full queue; NULL before the first */
    int family;
    bool connected;
    struct bound_path path;
};

/* The stream that a datagram socket is inside. */
static struct orr_stream *inside(const struct orr_datagram *datagram)
{
    return (struct orr_stream *)datagram;
}

static struct datagram *datagram_of(const struct orr_stream *stream)
{
    return container_of(descriptor_of(stream), struct datagram, descriptor);
}

static int datagram_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size)
{
    struct orr_address address;
    /* What tasks wait for is named after the address that they know: their own, without a peer. */
    if (end == ORR_PEER && !datagram_of(stream)->connected)
        end = ORR_LOCAL;
    int error = address_of_socket(descriptor_of(stream)->watch.fd, end, &address);
    return error ? error : orr_address_print(&address, text, size);
}

static void retry_is_due(struct orr_timer *timer, void *data, int status)
{
    (void)timer;
    (void)status;
    stream_ready(data, RETRY_DUE);
}

static int start_retry(struct orr_stream *stream)
{
    struct datagram *self = datagram_of(stream);
    struct orr_timer_options options = { .fire = retry_is_due, .data = stream, .local = true };
    int error = self->retry ? 0 : orr_timer_new(stream->opened.worker->runtime, &options, &self->retry);
    return error ? error : orr_timer_start(self->retry, RETRY_NS, 0);
}

static int datagram_want(struct orr_stream *stream, unsigned events)
{
    struct datagram *self = datagram_of(stream);
    int error = events & RETRY_DUE ? start_retry(stream) : 0;
    if (!(events & RETRY_DUE) && self->retry)
        orr_timer_cancel(self->retry);
    return error ? error : descriptor_want(stream, events);
}

static void datagram_close(struct orr_stream *stream)
{
    struct datagram *self = datagram_of(stream);
    orr_timer_free(self->retry);
    self->retry = NULL;
    bound_path_remove(&self->path);
    descriptor_close(stream);
}

static const struct orr_stream_kind udp_kind = {
    .name = "udp",
    .size = sizeof(struct datagram),
    .want = datagram_want,
    .close = datagram_close,
    .describe = datagram_describe,
};

static const struct orr_stream_kind unix_kind = {
    .name = "unix datagrams",
    .size = sizeof(struct datagram),
    .want = datagram_want,
    .close = datagram_close,
    .describe = datagram_describe,
};

/* --- Opening ---------------------------------------------------------------------------------- */

/* `path` is what it has made in the file system, also if it fails. */
static int set_up(int fd, int family, const struct orr_datagram_options *options, struct bound_path *path)
{
    int error = options->broadcast ? socket_option(fd, SOL_SOCKET, SO_BROADCAST, 1) : 0;
    if (!error && options->reuse && family != AF_UNIX)
        error = socket_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!error && options->send_buffer)
        error = socket_set(fd, family, ORR_SET_SEND_BUFFER, options->send_buffer);
    if (!error && options->receive_buffer)
        error = socket_set(fd, family, ORR_SET_RECEIVE_BUFFER, options->receive_buffer);
    const struct orr_gate *gate = options->open.gate;
    struct gate_request own = { .use = GATE_LISTEN, .address = options->local, .shared = options->reuse };
    if (!error && options->local)
        error = socket_bind(fd, SOCK_DGRAM, gate, &own);
    if (!error && options->local)
        bound_path_note(path, options->local);
    if (!error && options->peer)
        error = socket_connect(fd, gate, options->peer);
    return error;
}

static int open_socket(int family, const struct orr_datagram_options *options, struct orr_stream **out)
{
    struct orr_stream *stream;
    int error = descriptor_prepare(family == AF_UNIX ? &unix_kind : &udp_kind, &options->open, &stream);
    if (error)
        return error;
    int fd = socket_open(family, SOCK_DGRAM, NULL);
    struct bound_path *path = &datagram_of(stream)->path;
    error = fd < 0 ? fd : set_up(fd, family, options, path);
    if (error < 0) {
        bound_path_remove(path);
        if (fd >= 0)
            close(fd);
        socket_discard(stream);
        return error;
    }
    descriptor_init(stream, fd, DESCRIPTOR_SOCKET);
    datagram_of(stream)->family = family;
    datagram_of(stream)->connected = options->peer;
    *out = stream;
    return 0;
}

/* Opens a socket on a simulated host. */
static int open_on_host(struct orr_network_host *host, const struct orr_datagram_options *options,
                        struct orr_stream **out)
{
    const struct orr_gate *gate = options->open.gate;
    struct gate_request own = {
        .use = GATE_LISTEN, .address = options->local, .shared = options->reuse, .simulated = true
    };
    struct gate_request peer = { .use = GATE_CONNECT, .address = options->peer, .simulated = true };
    if ((options->local && !gate_grants(gate, &own)) || (options->peer && !gate_grants(gate, &peer)))
        return -EACCES;
    return simulated_datagram_open(host, options, out);
}

int orr_datagram_open(const struct orr_datagram_options *options, struct orr_datagram **out)
{
    if (!options || !out)
        return -EINVAL;
    const struct orr_address *some = options->local ? options->local : options->peer;
    if (!address_is_sound(some) || (options->peer && !address_is_sound(options->peer)) ||
        (options->peer && address_family(options->peer) != address_family(some)))
        return -EINVAL;
    struct orr_network_host *host;
    struct orr_stream *stream;
    int error = simulation_host(&options->open, &host);
    if (!error)
        error = host ? open_on_host(host, options, &stream) : open_socket(address_family(some), options, &stream);
    if (!error)
        *out = (struct orr_datagram *)stream;
    return error;
}

/* --- Messages --------------------------------------------------------------------------------- */

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(ORR_DESCRIPTORS_MAX * sizeof(int))];
};

static void describe_send(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a message to", text, size);
}

static void describe_receive(const struct orr_wait *wait, char *text, size_t size)
{
    stream_describe_wait(wait->source, "a message from", text, size);
}

static const struct orr_wait_kind send_kind = {
    .name = "a message to be sent",
    .withdraw = stream_withdraw,
    .describe = describe_send,
    .ends_by_itself = true,
};

static const struct orr_wait_kind receive_kind = {
    .name = "a message",
    .withdraw = stream_withdraw,
    .describe = describe_receive,
    .ends_by_itself = true,
};

static bool is_sound(const struct orr_message *message)
{
    return message && message->count >= 0 && message->count <= 1024 && (message->parts || !message->count) &&
           message->descriptor_count <= ORR_DESCRIPTORS_MAX;
}

/* Puts the descriptors of a message into its control data. */
static void attach(struct msghdr *head, union control *control, const struct orr_message *message)
{
    size_t bytes = message->descriptor_count * sizeof(int);
    if (!bytes)
        return;
    memset(control, 0, sizeof *control);
    head->msg_control = control->bytes;
    head->msg_controllen = CMSG_SPACE(bytes);
    struct cmsghdr *item = CMSG_FIRSTHDR(head);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(item), message->descriptors, bytes);
}

/* Sends to an address, or to the peer if it is NULL. */
static int send_to(int fd, const struct orr_address *address, const struct orr_message *message)
{
    struct msghdr head = { .msg_iov = (struct iovec *)message->parts, .msg_iovlen = (size_t)message->count };
    union control control;
    if (address) {
        head.msg_name = (void *)address->bytes;
        head.msg_namelen = address->length;
    }
    attach(&head, &control, message);
    ssize_t sent;
    do
        sent = sendmsg(fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static int try_send(struct orr_stream *stream, const struct orr_message *message)
{
    const struct orr_gate *gate = stream->opened.open.gate;
    bool simulated = simulated_datagram_is(stream);
    struct gate_request request = { .use = GATE_CONNECT, .address = message->address, .simulated = simulated };
    struct passage passage;
    if (simulated)
        return message->address && !gate_grants(gate, &request) ? -EACCES : simulated_datagram_send(stream, message);
    const struct descriptor *self = descriptor_of(stream);
    if (!(self->watch.ready & POLLOUT))
        return -EAGAIN;
    if (!message->address)
        return send_to(self->watch.fd, NULL, message);
    int error = gate_pass(gate, &request, &passage);
    if (error)
        return error;
    error = send_to(self->watch.fd, passage.address, message);
    gate_leave(&passage);
    return error;
}

/* Takes the descriptors that came; they are closed on exec. */
static void detach(struct msghdr *head, struct orr_message *message)
{
    message->descriptor_count = 0;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(head); item; item = CMSG_NXTHDR(head, item)) {
        if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = item->cmsg_len - CMSG_LEN(0);
        memcpy(message->descriptors, CMSG_DATA(item), bytes);
        message->descriptor_count = (unsigned)(bytes / sizeof(int));
    }
}

/* The address of a Unix socket without a name; the kernel gives none. */
static socklen_t nameless(struct orr_address *address)
{
    sa_family_t family = AF_UNIX;
    memcpy(address->bytes, &family, sizeof family);
    return sizeof family;
}

static int try_receive(struct orr_stream *stream, struct orr_message *message)
{
    if (simulated_datagram_is(stream))
        return simulated_datagram_receive(stream, message);
    struct descriptor *self = descriptor_of(stream);
    struct msghdr head = { .msg_iov = (struct iovec *)message->parts, .msg_iovlen = (size_t)message->count };
    union control control;
    if (message->address) {
        *message->address = (struct orr_address){ 0 };
        head.msg_name = message->address->bytes;
        head.msg_namelen = sizeof message->address->bytes;
    }
    if (message->descriptor_count) {
        head.msg_control = control.bytes;
        /* Not CMSG_SPACE: that may have room for one more. */
        head.msg_controllen = CMSG_LEN(message->descriptor_count * sizeof(int));
    }
    if (!(self->watch.ready & POLLIN))
        return -EAGAIN;
    ssize_t size;
    do
        size = recvmsg(self->watch.fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    while (size < 0 && errno == EINTR);
    if (size < 0)
        return -errno;
    if (message->address)
        message->address->length = head.msg_namelen ? head.msg_namelen : nameless(message->address);
    detach(&head, message);
    message->size = (size_t)size;
    message->cut = head.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    return 0;
}

/* A try would block: the next one waits for the kernel. */
static void spend(const struct orr_stream *stream, unsigned events)
{
    if (!simulated_datagram_is(stream))
        reactor_watch_spent(&descriptor_of(stream)->watch, events);
}

/* Whether nobody says when there is room: the kernel does not, for a path that is not connected. */
static bool has_to_retry(const struct orr_stream *stream)
{
    if (simulated_datagram_is(stream))
        return simulated_datagram_is_unix(stream);
    return datagram_of(stream)->family == AF_UNIX && !datagram_of(stream)->connected;
}

int orr_datagram_send(struct orr_task *task, struct orr_wait *wait, struct orr_datagram *datagram,
                      const struct orr_message *message)
{
    if (!task || !wait || !datagram || !is_sound(message) || (message->address && !address_is_sound(message->address)))
        return -EINVAL;
    struct orr_stream *stream = inside(datagram);
    struct attempt attempt = { task, wait, stream, SLOT_WRITE, &send_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer < 0)
        return answer;
    answer = try_send(stream, message);
    if (answer == 0)
        spree_spend(stream->opened.worker, 0);
    if (answer != -EAGAIN)
        return attempt_end(&attempt, answer);
    /* The kernel does not say when the queue of a path has room, unless the socket is connected. */
    if (has_to_retry(stream))
        return attempt_end(&attempt, attempt_wait(&attempt, RETRY_DUE));
    spend(stream, POLLOUT);
    return attempt_end(&attempt, attempt_wait(&attempt, ORR_WRITABLE));
}

int orr_datagram_receive(struct orr_task *task, struct orr_wait *wait, struct orr_datagram *datagram,
                         struct orr_message *message)
{
    if (!task || !wait || !datagram || !is_sound(message))
        return -EINVAL;
    struct orr_stream *stream = inside(datagram);
    struct attempt attempt = { task, wait, stream, SLOT_READ, &receive_kind, NULL };
    int answer = attempt_begin(&attempt);
    if (answer < 0)
        return answer;
    answer = try_receive(stream, message);
    if (answer == -EAGAIN) {
        spend(stream, POLLIN);
        answer = attempt_wait(&attempt, ORR_READABLE);
    } else if (answer == 0) {
        spree_spend(stream->opened.worker, message->size);
    }
    return attempt_end(&attempt, answer);
}

/* --- The rest --------------------------------------------------------------------------------- */

/* 0 if the socket is open and may be used on this thread. */
static int check(const struct orr_datagram *datagram)
{
    if (!datagram)
        return -EINVAL;
    if (inside(datagram)->opened.worker != worker_current)
        return -EPERM;
    return inside(datagram)->closed ? -EBADF : 0;
}

int orr_datagram_address(const struct orr_datagram *datagram, enum orr_end end, struct orr_address *address)
{
    int error = address ? check(datagram) : -EINVAL;
    if (error)
        return error;
    return simulated_datagram_is(inside(datagram))
               ? simulated_datagram_address(inside(datagram), end, address)
               : address_of_socket(descriptor_of(inside(datagram))->watch.fd, end, address);
}

/* Messages to a group are for the socket's own port there. */
static int check_join(const struct orr_datagram *datagram, const struct orr_address *group)
{
    const struct orr_gate *gate = inside(datagram)->opened.open.gate;
    struct orr_address own, address;
    if (!gate)
        return 0;
    if (!address_is_sound(group) || address_family(group) == AF_UNIX)
        return -EINVAL;
    int error = orr_datagram_address(datagram, ORR_LOCAL, &own);
    if (error)
        return error;
    if (address_family(&own) != address_family(group))
        return -EINVAL;
    address = *group;
    ip_set_port(&address, ip_port(&own));
    struct gate_request request = { .use = GATE_LISTEN, .address = &address };
    return gate_grants(gate, &request) ? 0 : -EACCES;
}

static int change_membership(struct orr_datagram *datagram, const struct orr_address *group, unsigned interface,
                             int option)
{
    int error = check(datagram);
    if (!error && option == MCAST_JOIN_GROUP)
        error = check_join(datagram, group);
    if (error)
        return error;
    if (simulated_datagram_is(inside(datagram)))
        return (option == MCAST_JOIN_GROUP ? simulated_datagram_join : simulated_datagram_leave)(inside(datagram),
                                                                                                 group, interface);
    if (!address_is_sound(group) || address_family(group) != datagram_of(inside(datagram))->family ||
        address_family(group) == AF_UNIX)
        return -EINVAL;
    struct group_req request = { .gr_interface = interface };
    memcpy(&request.gr_group, group->bytes, group->length);
    int level = address_family(group) == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    int fd = descriptor_of(inside(datagram))->watch.fd;
    return setsockopt(fd, level, option, &request, sizeof request) < 0 ? -errno : 0;
}

int orr_datagram_join(struct orr_datagram *datagram, const struct orr_address *group, unsigned interface)
{
    return change_membership(datagram, group, interface, MCAST_JOIN_GROUP);
}

int orr_datagram_leave(struct orr_datagram *datagram, const struct orr_address *group, unsigned interface)
{
    return change_membership(datagram, group, interface, MCAST_LEAVE_GROUP);
}

int orr_datagram_set_multicast(struct orr_datagram *datagram, unsigned hops, bool loop)
{
    int error = check(datagram);
    if (error)
        return error;
    if (simulated_datagram_is(inside(datagram)))
        return simulated_datagram_set_multicast(inside(datagram), hops, loop);
    int fd = descriptor_of(inside(datagram))->watch.fd, family = datagram_of(inside(datagram))->family;
    if (family == AF_UNIX || hops > 255)
        return -EINVAL;
    bool v4 = family == AF_INET;
    int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    error = socket_option(fd, level, v4 ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS, (int)hops);
    return error ? error : socket_option(fd, level, v4 ? IP_MULTICAST_LOOP : IPV6_MULTICAST_LOOP, loop);
}

int orr_datagram_close(struct orr_datagram *datagram)
{
    return orr_stream_close(inside(datagram));
}

int orr_datagram_free(struct orr_datagram *datagram)
{
    return orr_stream_free(inside(datagram));
}
