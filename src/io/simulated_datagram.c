#include "io/simulated_datagram.h"

#include "base/clock.h"
#include "exec/alarm.h"
#include "io/simulated_port.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_DEFAULT = 212992, /* bytes, as in Linux */
    V4_MOST = 65507,         /* bytes of a message */
    V6_MOST = 65527,
    GROUPS_MAX = 20, /* as in Linux */
};

struct simulated_datagram {
    struct node node;
    struct binding binding;
    struct alarm refusal;    /* comes back: nobody got a message */
    struct alarm retry;      /* RETRY_DUE, while a task waits for it */
    struct orr_address peer; /* if it is connected */
    bool connected;
    bool broadcast;    /* may send to all */
    bool keeps_groups; /* messages to groups come to its own host, too */
    bool down;         /* the network is */
    uint8_t wanted;    /* events that tasks wait for */
    uint8_t hops;      /* of messages to groups; 0: they stay on the host */
    int error;         /* to be told once */
    size_t send_most, receive_most;
    uint64_t sent_at;              /* when everything so far was put out */
    struct orr_link coming, queue; /* of messages */
    size_t received;               /* bytes of both */
    unsigned group_count;
    struct orr_address groups[GROUPS_MAX]; /* without ports */
};

struct packet {
    struct orr_link in_list; /* `coming` or `queue` */
    struct alarm alarm;
    struct orr_stream *receiver;
    const struct orr_network_host *from_host;
    struct orr_address from;
    size_t size;
    unsigned descriptor_count;
    int descriptors[ORR_DESCRIPTORS_MAX];
    char bytes[];
};

static struct simulated_datagram *datagram_of(const struct orr_stream *stream)
{
    return (struct simulated_datagram *)stream->data;
}

static struct orr_network *network_of(const struct simulated_datagram *self)
{
    return node_network(&self->node);
}

static int family_of(const struct simulated_datagram *self)
{
    return address_family(&self->binding.address);
}

/* --- Readiness -------------------------------------------------------------------------------- */

static void tell(struct orr_stream *stream)
{
    struct simulated_datagram *self = datagram_of(stream);
    bool broken = self->error || self->down;
    unsigned events = self->wanted & (ORR_WRITABLE | (broken ? RETRY_DUE : 0u) |
                                      (broken || !list_empty(&self->queue) ? ORR_READABLE : 0u));
    self->wanted &= (uint8_t)~events;
    if (events)
        stream_ready(stream, events);
}

static void retry(struct alarm *alarm)
{
    struct simulated_datagram *self = container_of(alarm, struct simulated_datagram, retry);
    self->wanted &= (uint8_t)~RETRY_DUE;
    stream_ready(stream_of(self), RETRY_DUE);
}

static int want(struct orr_stream *stream, unsigned events)
{
    struct simulated_datagram *self = datagram_of(stream);
    self->wanted = (uint8_t)events;
    alarm_stop(&self->retry, stream->opened.worker);
    self->retry.ring = retry;
    if (events & RETRY_DUE)
        alarm_set(&self->retry, stream->opened.worker, network_now(network_of(self)) + RETRY_NS);
    tell(stream);
    return 0;
}

static void down(struct node *node)
{
    struct simulated_datagram *self = container_of(node, struct simulated_datagram, node);
    self->down = true;
    tell(stream_of(self));
}

/* --- Messages --------------------------------------------------------------------------------- */

/* The message's descriptors, if any, are closed. */
static void free_packet(struct packet *packet)
{
    struct orr_stream *receiver = packet->receiver;
    struct worker *worker = receiver->opened.worker;
    size_t size = sizeof *packet + packet->size;
    alarm_stop(&packet->alarm, worker);
    for (unsigned i = 0; i < packet->descriptor_count; i++)
        close(packet->descriptors[i]);
    list_remove(&packet->in_list);
    datagram_of(receiver)->received -= size;
    account_uncharge(receiver->opened.open.account, size);
    alloc_free(&worker->alloc, packet, size);
}

static void free_packets(struct orr_link *list)
{
    while (!list_empty(list))
        free_packet(container_of(list->next, struct packet, in_list));
}

/* The message is there. */
static void arrive(struct packet *packet)
{
    struct simulated_datagram *self = datagram_of(packet->receiver);
    if (family_of(self) != AF_UNIX && network_is_cut(packet->from_host, self->node.host)) {
        free_packet(packet);
        return;
    }
    list_remove(&packet->in_list);
    list_append(&self->queue, &packet->in_list);
    tell(packet->receiver);
}

static void ring(struct alarm *alarm)
{
    arrive(container_of(alarm, struct packet, alarm));
}

static size_t size_of(const struct orr_message *message)
{
    size_t size = 0;
    for (int i = 0; i < message->count; i++)
        size += message->parts[i].iov_len;
    return size;
}

/* Copies descriptors: those of a message in flight are its own. */
static int copy_descriptors(struct packet *packet, const struct orr_message *message)
{
    for (unsigned i = 0; i < message->descriptor_count; i++) {
        int copy = fcntl(message->descriptors[i], F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
            return -errno;
        packet->descriptors[packet->descriptor_count++] = copy;
    }
    return 0;
}

/* Makes a message on its way.  -EAGAIN if the receiver has no room, -ENOMEM, -EMFILE, ... */
static int make_packet(struct orr_stream *receiver, const struct orr_message *message, struct packet **out)
{
    struct simulated_datagram *self = datagram_of(receiver);
    struct worker *worker = receiver->opened.worker;
    size_t bytes = size_of(message), size = sizeof(struct packet) + bytes, filled = 0;
    if ((self->received && self->received + size > self->receive_most) ||
        account_charge(receiver->opened.open.account, size))
        return -EAGAIN;
    struct packet *packet = alloc_zeroed(&worker->alloc, size);
    if (!packet) {
        account_uncharge(receiver->opened.open.account, size);
        return -ENOMEM;
    }
    packet->receiver = receiver;
    packet->size = bytes;
    packet->alarm.ring = ring;
    list_append(&self->coming, &packet->in_list);
    self->received += size;
    for (int i = 0; i < message->count; i++) {
        if (message->parts[i].iov_len)
            memcpy(packet->bytes + filled, message->parts[i].iov_base, message->parts[i].iov_len);
        filled += message->parts[i].iov_len;
    }
    int error = copy_descriptors(packet, message);
    if (error)
        free_packet(packet);
    else
        *out = packet;
    return error;
}

/* --- Sending ---------------------------------------------------------------------------------- */

/* Whether a socket takes messages from this address. */
static bool listens_to(const struct simulated_datagram *self, const struct orr_address *from)
{
    return !self->connected || port_same(&self->peer, from);
}

static struct simulated_datagram *bound_by(struct binding *binding)
{
    return container_of(binding, struct simulated_datagram, binding);
}

/* Who gets a message to an address of a host; NULL for nobody. */
static struct simulated_datagram *find_receiver(const struct orr_network_host *host, const struct orr_address *to,
                                                const struct orr_address *from)
{
    struct binding *binding = NULL;
    while ((binding = binding_find(host, BINDING_DATAGRAMS, to, binding)))
        if (listens_to(bound_by(binding), from))
            return bound_by(binding);
    return NULL;
}

/* The address that receivers see. */
static void find_source(const struct simulated_datagram *self, const struct orr_address *to, struct orr_address *from)
{
    *from = self->binding.address;
    if (port_is_any(from))
        port_towards(self->node.host, to, port_number(from), from);
}

/* Sends a message to one socket of UDP.  Where that has no room for it, it is lost. */
static int send_wired(struct simulated_datagram *self, struct simulated_datagram *to, const struct orr_address *from,
                      const struct orr_message *message)
{
    struct orr_network *network = network_of(self);
    uint64_t now = network_now(network);
    uint64_t at = clock_after(self->sent_at, network_delay(network));
    struct packet *packet;
    if (network_chance(network, network->options.loss) || network_is_cut(self->node.host, to->node.host))
        return 0;
    int error = make_packet(stream_of(to), message, &packet);
    if (error)
        return error == -EAGAIN ? 0 : error;
    packet->from = *from;
    packet->from_host = self->node.host;
    if (at > now)
        alarm_set(&packet->alarm, network->opened.worker, at);
    else
        arrive(packet);
    return 0;
}

static void note_refusal(struct simulated_datagram *self)
{
    self->error = -ECONNREFUSED;
    tell(stream_of(self));
}

static void refusal_rings(struct alarm *alarm)
{
    note_refusal(container_of(alarm, struct simulated_datagram, refusal));
}

/* Nobody got the message: that news comes back to a connected socket. */
static int refuse(struct simulated_datagram *self)
{
    struct orr_network *network = network_of(self);
    uint64_t delay = clock_after(network_delay(network), network_delay(network));
    if (!self->connected || alarm_is_set(&self->refusal))
        return 0;
    if (delay)
        alarm_set(&self->refusal, network->opened.worker, clock_after(network_now(network), delay));
    else
        note_refusal(self);
    return 0;
}

static bool has_joined(const struct simulated_datagram *self, const struct orr_address *group)
{
    for (unsigned i = 0; i < self->group_count; i++)
        if (port_same_host(&self->groups[i], group))
            return true;
    return false;
}

/* Sends to every socket of a host that gets messages to a group, or to all. */
static int send_to_all_of(struct simulated_datagram *self, const struct orr_network_host *host,
                          const struct orr_address *to, const struct orr_message *message)
{
    bool grouped = port_is_group(to);
    struct binding *binding = NULL;
    struct orr_address from;
    find_source(self, to, &from);
    while ((binding = binding_find(host, BINDING_DATAGRAMS, to, binding))) {
        struct simulated_datagram *receiver = bound_by(binding);
        if ((grouped && !has_joined(receiver, to)) || !listens_to(receiver, &from))
            continue;
        int error = send_wired(self, receiver, &from, message);
        if (error)
            return error;
    }
    return 0;
}

static int send_to_many(struct simulated_datagram *self, const struct orr_address *to,
                        const struct orr_message *message)
{
    struct orr_link *hosts = &network_of(self)->hosts;
    bool grouped = port_is_group(to);
    if (!grouped && !self->broadcast)
        return -EACCES;
    for (struct orr_link *link = hosts->next; link != hosts; link = link->next) {
        const struct orr_network_host *host = container_of(link, struct orr_network_host, in_network);
        bool own = host == self->node.host;
        if (grouped && (own ? !self->keeps_groups : !self->hops))
            continue;
        int error = send_to_all_of(self, host, to, message);
        if (error)
            return error;
    }
    return 0;
}

static int send_udp(struct simulated_datagram *self, const struct orr_address *to, const struct orr_message *message)
{
    struct orr_network *network = network_of(self);
    size_t size = size_of(message);
    if (message->descriptor_count)
        return -EINVAL;
    if (size > (address_family(to) == AF_INET ? V4_MOST : V6_MOST))
        return -EMSGSIZE;
    uint64_t now = network_now(network);
    self->sent_at = clock_after(self->sent_at > now ? self->sent_at : now, network_sending_time(network, size));
    if (port_is_group(to) || port_is_everybody(to))
        return send_to_many(self, to, message);
    const struct orr_network_host *host = port_owner(self->node.host, to);
    struct orr_address from;
    if (!host)
        return -EHOSTUNREACH;
    find_source(self, to, &from);
    struct simulated_datagram *receiver = find_receiver(host, to, &from);
    return receiver ? send_wired(self, receiver, &from, message) : refuse(self);
}

static int send_unix(struct simulated_datagram *self, const struct orr_address *to, const struct orr_message *message)
{
    if (size_of(message) > self->send_most)
        return -EMSGSIZE;
    struct binding *binding = binding_find(self->node.host, BINDING_DATAGRAMS, to, NULL);
    if (!binding)
        return port_is_file(to) ? -ENOENT : -ECONNREFUSED;
    if (!listens_to(bound_by(binding), &self->binding.address))
        return -EPERM;
    struct packet *packet;
    int error = make_packet(stream_of(bound_by(binding)), message, &packet);
    if (error)
        return error;
    packet->from = self->binding.address;
    packet->from_host = self->node.host;
    arrive(packet);
    return 0;
}

/* An error that is told once. */
static int take_error(struct simulated_datagram *self)
{
    int error = self->down ? -ENETDOWN : self->error;
    self->error = 0;
    return error;
}

int simulated_datagram_send(struct orr_stream *stream, const struct orr_message *message)
{
    struct simulated_datagram *self = datagram_of(stream);
    const struct orr_address *to = message->address ? message->address : self->connected ? &self->peer : NULL;
    int error = take_error(self);
    if (error)
        return error;
    if (!to)
        return family_of(self) == AF_UNIX ? -ENOTCONN : -EDESTADDRREQ;
    if (address_family(to) != family_of(self))
        return family_of(self) == AF_UNIX ? -EINVAL : -EAFNOSUPPORT;
    return (family_of(self) == AF_UNIX ? send_unix : send_udp)(self, to, message);
}

/* --- Receiving -------------------------------------------------------------------------------- */

/* Hands descriptors over, as many as the receiver has room for. */
static void hand_over(struct packet *packet, struct orr_message *message)
{
    unsigned room = message->descriptor_count, count = packet->descriptor_count;
    message->descriptor_count = count < room ? count : room;
    message->cut = message->cut || count > room;
    memcpy(message->descriptors, packet->descriptors, message->descriptor_count * sizeof(int));
    for (unsigned i = message->descriptor_count; i < count; i++)
        close(packet->descriptors[i]);
    packet->descriptor_count = 0;
}

int simulated_datagram_receive(struct orr_stream *stream, struct orr_message *message)
{
    struct simulated_datagram *self = datagram_of(stream);
    int error = take_error(self);
    if (error)
        return error;
    if (list_empty(&self->queue))
        return -EAGAIN;
    struct packet *packet = container_of(self->queue.next, struct packet, in_list);
    size_t copied = 0;
    for (int i = 0; i < message->count && copied < packet->size; i++) {
        size_t left = packet->size - copied, room = message->parts[i].iov_len;
        size_t now = room < left ? room : left;
        if (now)
            memcpy(message->parts[i].iov_base, packet->bytes + copied, now);
        copied += now;
    }
    message->size = packet->size;
    message->cut = copied < packet->size;
    if (message->address)
        *message->address = packet->from;
    hand_over(packet, message);
    free_packet(packet);
    return 0;
}

/* --- Life ------------------------------------------------------------------------------------- */

static void end(struct orr_stream *stream)
{
    struct simulated_datagram *self = datagram_of(stream);
    free_packets(&self->coming);
    free_packets(&self->queue);
    alarm_stop(&self->refusal, stream->opened.worker);
    alarm_stop(&self->retry, stream->opened.worker);
    binding_end(&self->binding);
    node_leave(&self->node);
}

int simulated_datagram_address(const struct orr_stream *stream, enum orr_end which, struct orr_address *address)
{
    const struct simulated_datagram *self = datagram_of(stream);
    if (which == ORR_PEER && !self->connected)
        return -ENOTCONN;
    *address = which == ORR_PEER ? self->peer : self->binding.address;
    return 0;
}

static int describe(const struct orr_stream *stream, enum orr_end which, char *text, size_t size)
{
    struct orr_address address;
    /* What tasks wait for is named after the address that they know: their own, without a peer. */
    if (simulated_datagram_address(stream, which, &address))
        address = datagram_of(stream)->binding.address;
    return orr_address_print(&address, text, size);
}

#define DATAGRAM_KIND(text) \
    { \
        .name = (text), .size = sizeof(struct simulated_datagram), .want = want, .close = end, .describe = describe, \
    }

static const struct orr_stream_kind udp_kind = DATAGRAM_KIND("udp");
static const struct orr_stream_kind unix_kind = DATAGRAM_KIND("unix datagrams");

bool simulated_datagram_is(const struct orr_stream *stream)
{
    return stream->kind->want == want;
}

bool simulated_datagram_is_unix(const struct orr_stream *stream)
{
    return stream->kind == &unix_kind;
}

/* Gives a new socket its addresses. */
static int set_addresses(struct simulated_datagram *self, struct orr_network_host *host,
                         const struct orr_datagram_options *options)
{
    struct orr_address local;
    const struct orr_address *peer = options->peer;
    if (peer && !port_owner(host, peer))
        return -EHOSTUNREACH;
    if (peer && address_family(peer) == AF_UNIX && !binding_find(host, BINDING_DATAGRAMS, peer, NULL))
        return port_is_file(peer) ? -ENOENT : -ECONNREFUSED;
    if (options->local)
        local = *options->local;
    else
        port_towards(host, peer, 0, &local);
    if (peer && port_is_any(&local))
        port_towards(host, peer, port_number(&local), &local);
    if (peer) {
        self->peer = *peer;
        self->connected = true;
    }
    self->binding.sort = BINDING_DATAGRAMS;
    self->binding.shared = options->reuse;
    if (port_has_name(&local))
        return binding_make(&self->binding, host, &local);
    self->binding.address = local;
    return 0;
}

int simulated_datagram_open(struct orr_network_host *host, const struct orr_datagram_options *options,
                            struct orr_stream **out)
{
    const struct orr_address *some = options->local ? options->local : options->peer;
    struct orr_stream *stream;
    int error = stream_make(address_family(some) == AF_UNIX ? &unix_kind : &udp_kind, &options->open, &stream);
    if (error)
        return error;
    struct simulated_datagram *self = datagram_of(stream);
    error = set_addresses(self, host, options);
    if (error) {
        opened_free(&stream->opened);
        return error;
    }
    self->broadcast = options->broadcast;
    self->keeps_groups = true;
    self->hops = 1;
    self->send_most = options->send_buffer ? options->send_buffer : BUFFER_DEFAULT;
    self->receive_most = options->receive_buffer ? options->receive_buffer : BUFFER_DEFAULT;
    self->refusal.ring = refusal_rings;
    list_init(&self->coming);
    list_init(&self->queue);
    self->node.down = down;
    node_join(&self->node, host);
    *out = stream;
    return 0;
}

/* --- Groups ----------------------------------------------------------------------------------- */

/* Checks the arguments of joining and leaving as the kernel does. */
static int check_group(const struct simulated_datagram *self, const struct orr_address *group, unsigned interface)
{
    if (!address_is_sound(group) || address_family(group) != family_of(self) || !port_is_group(group))
        return -EINVAL;
    return interface > 1 ? -ENODEV : 0; /* a host has one, besides that for itself */
}

int simulated_datagram_join(struct orr_stream *stream, const struct orr_address *group, unsigned interface)
{
    struct simulated_datagram *self = datagram_of(stream);
    int error = check_group(self, group, interface);
    if (error)
        return error;
    if (has_joined(self, group))
        return -EADDRINUSE;
    if (self->group_count == GROUPS_MAX)
        return -ENOBUFS;
    self->groups[self->group_count++] = *group;
    return 0;
}

int simulated_datagram_leave(struct orr_stream *stream, const struct orr_address *group, unsigned interface)
{
    struct simulated_datagram *self = datagram_of(stream);
    int error = check_group(self, group, interface);
    if (error)
        return error;
    for (unsigned i = 0; i < self->group_count; i++) {
        if (!port_same_host(&self->groups[i], group))
            continue;
        self->groups[i] = self->groups[--self->group_count];
        return 0;
    }
    return -EADDRNOTAVAIL;
}

int simulated_datagram_set_multicast(struct orr_stream *stream, unsigned hops, bool loop)
{
    struct simulated_datagram *self = datagram_of(stream);
    if (family_of(self) == AF_UNIX || hops > 255)
        return -EINVAL;
    self->hops = (uint8_t)hops;
    self->keeps_groups = loop;
    return 0;
}
