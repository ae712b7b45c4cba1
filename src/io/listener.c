/*
 * Listeners.  Tasks wait in a line.  When the kernel says that there is a connection, the first in
 * line is granted the try.  One that has succeeded, failed or gone away passes the try on to the
 * next while the kernel may have more.  So a connection is accepted only by a task that wants it.
 *
 * A freed listener lives on until the last task has left it.
 *
 * A listener in a simulated network has that in the kernel's place; all else is the same.
 */
#include "io/bound_path.h"
#include "io/gate.h"
#include "io/simulated_listener.h"
#include "io/simulation.h"
#include "io/socket.h"

#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

struct orr_listener {
    struct opened opened;
    struct reactor_watch watch;
    struct orr_link *line;
    unsigned granted; /* tries that were granted and not made yet */
    int family;
    bool closed, freed;
    struct bound_path path;
    bool is_simulated;
    struct simulated_listener simulated[]; /* one if it is simulated, else none */
};

enum { BACKLOG_DEFAULT = 4096 };

/* --- Life ------------------------------------------------------------------------------------- */

static void destroy_if_unused(struct orr_listener *listener)
{
    if (listener->freed && !listener->line && !listener->granted)
        opened_free(&listener->opened);
}

static void close_socket(struct orr_listener *listener)
{
    bound_path_remove(&listener->path);
    reactor_watch_close(listener->opened.worker->reactor, &listener->watch);
    close(listener->watch.fd);
}

static void close_listener(struct orr_listener *listener)
{
    if (listener->closed)
        return;
    listener->closed = true;
    if (listener->is_simulated)
        simulated_listener_close(listener->simulated);
    else
        close_socket(listener);
    while (wait_grant_first(&listener->line))
        listener->granted++;
}

static bool listener_info(const struct opened *opened, struct orr_open_info *info)
{
    const struct orr_listener *listener = container_of(opened, struct orr_listener, opened);
    info->kind = listener->family == AF_UNIX ? "unix listener" : "tcp listener";
    info->object = (void *)listener;
    return !listener->closed;
}

static void listener_end(struct opened *opened)
{
    struct orr_listener *listener = container_of(opened, struct orr_listener, opened);
    close_listener(listener);
    listener->freed = true;
    destroy_if_unused(listener);
}

static const struct opened_kind opened_listener = { .info = listener_info, .end = listener_end };

static int check(const struct orr_listener *listener)
{
    if (!listener)
        return -EINVAL;
    return listener->opened.worker == worker_current ? 0 : -EPERM;
}

int orr_listener_close(struct orr_listener *listener)
{
    int error = check(listener);
    if (!error)
        close_listener(listener);
    return error;
}

int orr_listener_free(struct orr_listener *listener)
{
    if (!listener)
        return 0;
    int error = check(listener);
    if (!error)
        listener_end(&listener->opened);
    return error;
}

int orr_listener_address(const struct orr_listener *listener, struct orr_address *address)
{
    int error = address ? check(listener) : -EINVAL;
    if (error)
        return error;
    if (listener->closed)
        return -EBADF;
    if (!listener->is_simulated)
        return address_of_socket(listener->watch.fd, ORR_LOCAL, address);
    *address = listener->simulated->binding.address;
    return 0;
}

/* --- Listening -------------------------------------------------------------------------------- */

static int backlog_of(const struct orr_listen_options *options)
{
    return options->backlog > 0 ? options->backlog : BACKLOG_DEFAULT;
}

static struct gate_request request_of(const struct orr_address *address, const struct orr_listen_options *options,
                                      bool simulated)
{
    return (struct gate_request){
        .use = GATE_LISTEN, .address = address, .shared = options->reuse_port, .simulated = simulated
    };
}

static int bind_and_listen(int fd, const struct orr_address *address, const struct orr_listen_options *options)
{
    int family = address_family(address), error = 0;
    struct gate_request request = request_of(address, options, false);
    if (family != AF_UNIX)
        error = socket_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!error && options->reuse_port)
        error = socket_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!error && family == AF_INET6)
        error = socket_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->v6_only);
    if (error)
        return error;
    error = socket_bind(fd, SOCK_STREAM, options->socket.open.gate, &request);
    if (error)
        return error;
    return listen(fd, backlog_of(options)) < 0 ? -errno : 0;
}

static void notify(struct reactor_watch *watch, unsigned events);
static void notify_simulated(struct simulated_listener *simulated);

static int listen_on_socket(struct orr_listener *listener, const struct orr_address *address,
                            const struct orr_listen_options *options)
{
    int error = reactor_prepare_watches(listener->opened.worker->reactor);
    int fd = error ? error : socket_open(listener->family, SOCK_STREAM, &options->socket);
    if (fd < 0)
        return fd;
    error = bind_and_listen(fd, address, options);
    if (error) {
        close(fd);
        return error;
    }
    bound_path_note(&listener->path, address);
    reactor_watch_init(&listener->watch, fd, notify);
    return 0;
}

/* Listens on a simulated host. */
static int listen_on_host(struct orr_listener *listener, struct orr_network_host *host,
                          const struct orr_address *address, const struct orr_listen_options *options)
{
    struct gate_request request = request_of(address, options, true);
    if (!gate_grants(options->socket.open.gate, &request))
        return -EACCES;
    return simulated_listen(listener->simulated, host, address, options, backlog_of(options), notify_simulated);
}

int orr_listen(const struct orr_address *address, const struct orr_listen_options *options, struct orr_listener **out)
{
    static const struct orr_listen_options defaults;
    struct orr_listener *listener;
    struct orr_network_host *host;
    if (!out || !address_is_sound(address))
        return -EINVAL;
    options = options ? options : &defaults;
    int error = simulation_host(&options->socket.open, &host);
    if (error)
        return error;
    size_t size = sizeof *listener + (host ? sizeof *listener->simulated : 0);
    error = opened_new(size, &opened_listener, &options->socket.open, &listener);
    if (error)
        return error;
    listener->family = address_family(address);
    listener->is_simulated = host;
    error = host ? listen_on_host(listener, host, address, options) : listen_on_socket(listener, address, options);
    if (error) {
        opened_free(&listener->opened);
        return error;
    }
    *out = listener;
    return 0;
}

/* --- Accepting -------------------------------------------------------------------------------- */

static void grant_next(struct orr_listener *listener)
{
    if (wait_grant_first(&listener->line))
        listener->granted++;
}

/* A connection may be there: the first in line tries. */
static void notify(struct reactor_watch *watch, unsigned events)
{
    (void)events;
    grant_next(container_of(watch, struct orr_listener, watch));
}

static void notify_simulated(struct simulated_listener *simulated)
{
    grant_next(container_of(simulated, struct orr_listener, simulated[0]));
}

/* Whether there may be a connection now.  If not, and it is `wanted`, notify() is called then. */
static int want(struct orr_listener *listener, bool wanted)
{
    if (listener->is_simulated)
        return simulated_listener_want(listener->simulated, wanted);
    return reactor_watch_want(listener->opened.worker->reactor, &listener->watch, wanted ? POLLIN : 0);
}

/*
 * A try is over, or was given up, or somebody has joined or left the line.  If tasks wait and none
 * is about to try, the first of them tries, at once or when the kernel says so.  Negative errno.
 */
static int pass_on(struct orr_listener *listener)
{
    if (listener->closed)
        return 0;
    int there = want(listener, listener->line && !listener->granted);
    if (there > 0)
        grant_next(listener);
    return there < 0 ? there : 0;
}

static void accept_withdraw(struct orr_wait *wait, bool granted)
{
    struct orr_listener *listener = wait->source;
    if (granted)
        listener->granted--;
    else
        ring_remove(&listener->line, &wait->in_source);
    pass_on(listener);
    destroy_if_unused(listener);
}

static void describe_accept(const struct orr_wait *wait, char *text, size_t size)
{
    const struct orr_listener *listener = wait->source;
    char address[ORR_ADDRESS_TEXT] = "";
    struct orr_address local;
    if (!orr_listener_address(listener, &local))
        orr_address_print(&local, address, sizeof address);
    snprintf(text, size, "a connection on %s %s", listener->family == AF_UNIX ? "unix" : "tcp", address);
}

static const struct orr_wait_kind accept_kind = {
    .name = "a connection",
    .withdraw = accept_withdraw,
    .describe = describe_accept,
    .ends_by_itself = true,
};

/* Errors of a connection that broke before it was accepted: the next one may be sound. */
static bool concerns_connection(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENOPROTOOPT || error == EHOSTDOWN ||
           error == ENONET || error == EHOSTUNREACH || error == EOPNOTSUPP || error == ENETUNREACH || error == ENETDOWN;
}

/* Accepts a connection from the kernel: 0, -EAGAIN, or an error. */
static int accept_socket(struct orr_listener *listener, const struct orr_open *open, struct orr_stream **out)
{
    struct orr_stream *stream;
    if (!(listener->watch.ready & POLLIN))
        return -EAGAIN;
    int error = socket_prepare(listener->family, open, &stream);
    if (error)
        return error;
    struct orr_address peer = { 0 };
    socklen_t length;
    int fd;
    do {
        length = sizeof peer.bytes;
        fd = accept4(listener->watch.fd, (struct sockaddr *)peer.bytes, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && concerns_connection(errno));
    error = fd < 0 ? -errno : 0;
    if (error) {
        socket_discard(stream);
        if (error == -EAGAIN)
            reactor_watch_spent(&listener->watch, POLLIN);
        return error;
    }
    peer.length = length;
    socket_adopt(stream, fd, &peer);
    *out = stream;
    return 0;
}

/* Accepts a connection: 0, -EAGAIN, or an error. */
static int try_accept(struct orr_listener *listener, const struct orr_open *open, struct orr_stream **out)
{
    int error = listener->is_simulated ? simulated_accept(listener->simulated, open, out)
                                       : accept_socket(listener, open, out);
    if (!error)
        spree_spend(listener->opened.worker, 0);
    return error;
}

/* How a task waits. */
enum place {
    PLACE_LAST,
    PLACE_FIRST, /* it was the first in line, and found nothing */
    PLACE_NEXT,  /* it tries again when other tasks have run */
};

static int join_line(struct orr_task *task, struct orr_wait *wait, struct orr_listener *listener,
                     struct orr_group *group, enum place place)
{
    int interruption = wait_interruption(task);
    if (interruption) {
        pass_on(listener); /* its try was in vain; the next in line must not miss the next one */
        return wait_refuse(wait, interruption);
    }
    wait->grouped = group;
    wait->owner = group;
    wait_begin(task, wait, listener, &accept_kind);
    if (place == PLACE_NEXT) {
        listener->granted++;
        wait_grant(wait);
        return -EAGAIN;
    }
    (place == PLACE_FIRST ? ring_prepend : ring_append)(&listener->line, &wait->in_source);
    int error = pass_on(listener);
    if (!error)
        return -EAGAIN;
    ring_remove(&listener->line, &wait->in_source);
    wait_pick_up(wait);
    return error;
}

int orr_accept(struct orr_task *task, struct orr_wait *wait, struct orr_listener *listener, const struct orr_open *open,
               struct orr_stream **stream)
{
    if (!task || !wait || !listener || !stream)
        return -EINVAL;
    struct orr_group *group = wait->grouped ? wait->owner : NULL;
    /* Up to here the listener is only a number: once its wait was withdrawn, it may be gone. */
    int answer = wait_poll(task, wait, listener, &accept_kind);
    if (answer != 0 && answer != 1)
        return answer;
    bool fresh = answer;
    if (listener->opened.worker != task->worker)
        return wait_refuse(wait, -EPERM);
    listener->granted -= !fresh;
    if (listener->closed) {
        destroy_if_unused(listener);
        return wait_refuse(wait, -EBADF);
    }
    if (fresh && spree_is_over(listener->opened.worker))
        return join_line(task, wait, listener, group, PLACE_NEXT);
    /* Nobody overtakes those in line. */
    answer = fresh && (listener->line || listener->granted) ? -EAGAIN : try_accept(listener, open, stream);
    if (answer == -EAGAIN)
        return join_line(task, wait, listener, group, fresh ? PLACE_LAST : PLACE_FIRST);
    pass_on(listener);
    return wait_refuse(wait, answer);
}
