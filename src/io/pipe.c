/* Pipes, pairs of connected streams, and streams of descriptors that somebody else has opened. */
#include "io/simulated_stream.h"
#include "io/simulation.h"
#include "io/socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTOR_KIND(text) \
    { \
        .name = (text), .size = sizeof(struct descriptor), .read = descriptor_read, .write = descriptor_write, \
        .want = descriptor_want, .close = descriptor_close \
    }

static const struct orr_stream_kind pipe_kind = DESCRIPTOR_KIND("pipe");
static const struct orr_stream_kind terminal_kind = DESCRIPTOR_KIND("terminal");
static const struct orr_stream_kind file_kind = DESCRIPTOR_KIND("file");
static const struct orr_stream_kind device_kind = DESCRIPTOR_KIND("device");

static int kernel_pipe(const struct orr_open *open, struct orr_stream *made[2])
{
    struct orr_stream *ends[2];
    int fds[2];
    int error = descriptor_prepare(&pipe_kind, open, &ends[0]);
    if (error)
        return error;
    error = descriptor_prepare(&pipe_kind, open, &ends[1]);
    if (!error && pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0) {
        error = -errno;
        opened_free(&ends[1]->opened);
    }
    if (error) {
        opened_free(&ends[0]->opened);
        return error;
    }
    for (int i = 0; i < 2; i++) {
        descriptor_init(ends[i], fds[i], DESCRIPTOR_OWN);
        made[i] = ends[i];
    }
    return 0;
}

int orr_pipe(const struct orr_open *open, struct orr_stream **reader, struct orr_stream **writer)
{
    struct orr_stream *ends[2];
    struct orr_network_host *host;
    int error = reader && writer ? simulation_host(open, &host) : -EINVAL;
    if (!error)
        error = host ? simulated_pipe(host, open, ends) : kernel_pipe(open, ends);
    if (error)
        return error;
    *reader = ends[0];
    *writer = ends[1];
    return 0;
}

static int kernel_pair(const struct orr_open *open, struct orr_stream *ends[2])
{
    struct orr_stream *made[2];
    int fds[2];
    int error = socket_prepare(AF_UNIX, open, &made[0]);
    if (error)
        return error;
    error = socket_prepare(AF_UNIX, open, &made[1]);
    if (!error && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0) {
        error = -errno;
        socket_discard(made[1]);
    }
    if (error) {
        socket_discard(made[0]);
        return error;
    }
    for (int i = 0; i < 2; i++) {
        socket_adopt(made[i], fds[i], NULL);
        ends[i] = made[i];
    }
    return 0;
}

int orr_pair(const struct orr_open *open, struct orr_stream *ends[2])
{
    struct orr_network_host *host;
    int error = ends ? simulation_host(open, &host) : -EINVAL;
    if (error)
        return error;
    return host ? simulated_pair(host, open, ends) : kernel_pair(open, ends);
}

/* --- Descriptors of others -------------------------------------------------------------------- */

/* The family of a connected stream socket; -EINVAL for other sockets. */
static int stream_family(int fd)
{
    int type = 0, family = 0;
    socklen_t size = sizeof type;
    struct orr_address peer;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM)
        return -EINVAL;
    size = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 || address_of_socket(fd, ORR_PEER, &peer))
        return -EINVAL;
    return family == AF_INET || family == AF_INET6 || family == AF_UNIX ? family : -EINVAL;
}

/*
 * Opens a pipe or terminal once more, in non-blocking mode.  That is another open file, with a mode
 * of its own, so nobody who shares the first one notices.  Negative errno where that is forbidden.
 */
static int open_again(int fd)
{
    char path[32];
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return again < 0 ? -errno : again;
}

/* To open the master of a pseudo-terminal again would make another pseudo-terminal. */
static bool is_master(int fd)
{
    unsigned number;
    return ioctl(fd, TIOCGPTN, &number) == 0;
}

/*
 * A process that was started without a standard descriptor may have a file of another purpose in
 * its place: what the kernel has made for a program is no input or output.
 */
static bool is_made_by_kernel(const struct stat *about)
{
    return (about->st_mode & S_IFMT) == 0;
}

/* How to use a descriptor: its kind, a number of our own for it, and the mode. */
struct adoption {
    const struct orr_stream_kind *kind; /* NULL for a socket of `family` */
    int family, fd;
    enum descriptor_mode mode;
};

/*
 * The stream gets a descriptor number of its own: nobody else can close it, and the reactor's
 * operations on the first one are not disturbed.
 */
static int plan(int fd, bool standard, struct adoption *plan)
{
    struct stat about;
    if (fstat(fd, &about) < 0)
        return -errno;
    plan->kind = &device_kind;
    plan->mode = DESCRIPTOR_SHARED;
    if (fcntl(fd, F_GETFL) & O_PATH || (standard && is_made_by_kernel(&about)))
        return -EBADF;
    if (S_ISDIR(about.st_mode))
        return -EINVAL;
    if (S_ISSOCK(about.st_mode)) {
        plan->family = stream_family(fd);
        plan->kind = NULL;
        if (plan->family < 0)
            return plan->family;
    } else if (S_ISREG(about.st_mode) || S_ISBLK(about.st_mode)) {
        plan->kind = &file_kind;
        plan->mode = DESCRIPTOR_FILE;
    } else if (S_ISFIFO(about.st_mode) || isatty(fd)) {
        plan->kind = S_ISFIFO(about.st_mode) ? &pipe_kind : &terminal_kind;
        plan->fd = is_master(fd) ? -1 : open_again(fd);
        if (plan->fd >= 0)
            plan->mode = DESCRIPTOR_OWN;
    }
    if (plan->fd < 0)
        plan->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return plan->fd < 0 ? -errno : 0;
}

int orr_stream_open_descriptor(int descriptor, const struct orr_descriptor_options *options, struct orr_stream **stream)
{
    static const struct orr_descriptor_options defaults;
    struct adoption adoption = { .fd = -1 };
    if (!stream)
        return -EINVAL;
    options = options ? options : &defaults;
    if (options->standard && (descriptor < STDIN_FILENO || descriptor > STDERR_FILENO))
        return -EINVAL;
    int error = plan(descriptor, options->standard, &adoption);
    if (error)
        return error;
    error = adoption.kind ? descriptor_prepare(adoption.kind, &options->open, stream)
                          : socket_prepare(adoption.family, &options->open, stream);
    if (error) {
        close(adoption.fd);
        return error;
    }
    struct orr_address peer;
    if (adoption.kind)
        descriptor_init(*stream, adoption.fd, adoption.mode);
    else
        socket_adopt(*stream, adoption.fd, address_of_socket(adoption.fd, ORR_PEER, &peer) ? NULL : &peer);
    descriptor_of(*stream)->foreign = adoption.mode != DESCRIPTOR_OWN;
    descriptor_of(*stream)->original = options->keep ? -1 : descriptor;
    descriptor_of(*stream)->standard = (int8_t)(options->standard ? descriptor : -1);
    return 0;
}
