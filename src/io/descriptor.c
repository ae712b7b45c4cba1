#include "io/descriptor.h"

#include "io/stdio_buffer.h"

#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* --- Signals ---------------------------------------------------------------------------------- */

void pipe_guard_begin(struct pipe_guard *guard)
{
    sigset_t pipe_signal, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &guard->before);
    guard->pending = sigismember(&guard->before, SIGPIPE) && sigpending(&pending) == 0 &&
                     sigismember(&pending, SIGPIPE);
}

void pipe_guard_end(const struct pipe_guard *guard, bool maybe_raised)
{
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    if (maybe_raised && !guard->pending)
        sigtimedwait(&pipe_signal, NULL, &(struct timespec){ 0 });
    if (!sigismember(&guard->before, SIGPIPE))
        pthread_sigmask(SIG_UNBLOCK, &pipe_signal, NULL);
}

/* --- Transfers -------------------------------------------------------------------------------- */

/*
 * Bytes for a terminal that cannot be opened again in non-blocking mode.  A writable terminal
 * promises room for one byte only, so even a small write may block until somebody reads, or until a
 * signal, such as that of the end of a slice, interrupts it.
 */
enum { TERMINAL_ROOM = 128 };

static ssize_t socket_transfer(int fd, const struct iovec *parts, int count, bool out)
{
    struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count };
    if (count == 1) /* spares the kernel the reading of the message's head */
        return out ? send(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                   : recv(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT);
    return out ? sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) : recvmsg(fd, &message, MSG_DONTWAIT);
}

/*
 * For a descriptor that may be in blocking mode, where the kernel does not know RWF_NOWAIT: one
 * that is ready does not block, if no more is written than it promises to take.
 */
static ssize_t transfer_when_ready(int fd, const struct iovec *parts, bool out)
{
    struct pollfd ready = { .fd = fd, .events = out ? POLLOUT : POLLIN };
    int there = poll(&ready, 1, 0);
    if (there == 0)
        errno = EAGAIN;
    if (there <= 0) /* a signal may have come in place of an answer */
        return -1;
    size_t room = !out ? SIZE_MAX : isatty(fd) ? TERMINAL_ROOM : PIPE_BUF;
    size_t length = parts->iov_len < room ? parts->iov_len : room;
    return out ? write(fd, parts->iov_base, length) : read(fd, parts->iov_base, length);
}

static ssize_t shared_transfer(int fd, const struct iovec *parts, int count, bool out)
{
    ssize_t moved = out ? pwritev2(fd, parts, count, -1, RWF_NOWAIT) : preadv2(fd, parts, count, -1, RWF_NOWAIT);
    return moved < 0 && errno == EOPNOTSUPP ? transfer_when_ready(fd, parts, out) : moved;
}

static ssize_t file_transfer(int fd, uint8_t mode, const struct iovec *parts, int count, bool out)
{
    if (mode == DESCRIPTOR_SHARED)
        return shared_transfer(fd, parts, count, out);
    return out ? writev(fd, parts, count) : readv(fd, parts, count);
}

static size_t size_of(const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    return size;
}

/* A call that has written some bytes raises SIGPIPE, too, if the reader went away meanwhile. */
static ssize_t guarded_write(int fd, uint8_t mode, const struct iovec *parts, int count)
{
    struct pipe_guard guard;
    pipe_guard_begin(&guard);
    ssize_t moved = file_transfer(fd, mode, parts, count, true);
    int error = errno;
    pipe_guard_end(&guard, moved < 0 || (size_t)moved < size_of(parts, count));
    errno = error;
    return moved;
}

static ssize_t transfer_once(const struct descriptor *self, const struct iovec *parts, int count, bool out)
{
    int fd = self->watch.fd;
    if (self->mode == DESCRIPTOR_SOCKET)
        return socket_transfer(fd, parts, count, out);
    return out ? guarded_write(fd, self->mode, parts, count) : file_transfer(fd, self->mode, parts, count, false);
}

/* Bytes, -EAGAIN or another negative errno. */
static ssize_t transfer(struct descriptor *self, const struct iovec *parts, int count, bool out)
{
    unsigned direction = out ? POLLOUT : POLLIN;
    if (!(self->watch.ready & direction))
        return -EAGAIN;
    ssize_t moved;
    do
        moved = transfer_once(self, parts, count, out);
    while (moved < 0 && errno == EINTR);
    if (moved >= 0)
        return moved;
    if (errno != EAGAIN)
        return -errno;
    reactor_watch_spent(&self->watch, direction);
    return -EAGAIN;
}

/* --- The buffers of C's streams --------------------------------------------------------------- */

bool descriptor_is_behind_c(const struct descriptor *self)
{
    return self->standard >= 0 && stdio_held(stdio_file(self->standard));
}

/* Hands out what C has buffered for the same descriptor.  0 when it is out; -EAGAIN, an error. */
static int write_buffer_of_c(struct descriptor *self, FILE *file)
{
    if (self->mode == DESCRIPTOR_FILE)
        return stdio_flush(file);
    size_t handed_out = 0, most = 0;
    struct iovec bytes;
    while (stdio_lock_output(file, &bytes)) {
        ssize_t moved = transfer(self, &bytes, 1, true);
        stdio_unlock_output(file, moved > 0 ? (size_t)moved : 0);
        if (moved < 0)
            return (int)moved;
        most = most ? most : bytes.iov_len; /* not what another thread adds meanwhile */
        handed_out += (size_t)moved;
        if (handed_out >= most)
            return 0;
    }
    return 0;
}

/* The first bytes of a write to a standard stream. */
static ssize_t write_after_c(struct descriptor *self, const struct iovec *parts, int count)
{
    FILE *file = stdio_file(self->standard);
    if (!stdio_uses(file, self->standard))
        return stdio_write(file, parts, count);
    int error = write_buffer_of_c(self, file);
    return error ? error : transfer(self, parts, count, true);
}

static ssize_t read_after_c(struct descriptor *self, const struct iovec *parts, int count)
{
    FILE *file = stdio_file(self->standard);
    size_t taken = stdio_uses(file, self->standard) ? stdio_take_input(file, parts->iov_base, parts->iov_len) : 0;
    return taken ? (ssize_t)taken : transfer(self, parts, count, false);
}

/* --- For the tables of kinds ------------------------------------------------------------------ */

ssize_t descriptor_read(struct orr_stream *stream, const struct iovec *parts, int count)
{
    struct descriptor *self = descriptor_of(stream);
    if (self->standard >= 0)
        return read_after_c(self, parts, count);
    ssize_t moved = transfer(self, parts, count, false);
    if (self->drains && count == 1 && moved > 0 && (size_t)moved < parts->iov_len)
        reactor_watch_drained(&self->watch);
    return moved;
}

ssize_t descriptor_write(struct orr_stream *stream, const struct iovec *parts, int count)
{
    struct descriptor *self = descriptor_of(stream);
    /* What C gets while a write is under way does not go into the middle of that. */
    bool after_c = self->standard >= 0 && !stream->sent;
    return after_c ? write_after_c(self, parts, count) : transfer(self, parts, count, true);
}

/* --- Readiness -------------------------------------------------------------------------------- */

static unsigned to_poll(unsigned events)
{
    return (events & ORR_READABLE ? POLLIN : 0u) | (events & ORR_WRITABLE ? POLLOUT : 0u) |
           (events & ORR_RESET ? POLLERR : 0u) | (events & ORR_ENDED ? POLLRDHUP | POLLHUP : 0u);
}

static unsigned from_poll(unsigned events)
{
    return (events & POLLIN ? ORR_READABLE : 0u) | (events & POLLOUT ? ORR_WRITABLE : 0u) |
           (events & POLLERR ? ORR_RESET : 0u) | (events & (POLLRDHUP | POLLHUP) ? ORR_ENDED : 0u);
}

static void notify(struct reactor_watch *watch, unsigned events)
{
    stream_ready(stream_of(container_of(watch, struct descriptor, watch)), from_poll(events));
}

int descriptor_want(struct orr_stream *stream, unsigned events)
{
    struct descriptor *self = descriptor_of(stream);
    int there = reactor_watch_want(stream->opened.worker->reactor, &self->watch, to_poll(events));
    if (there > 0)
        stream_ready(stream, from_poll((unsigned)there));
    return there < 0 ? there : 0;
}

/* --- Life ------------------------------------------------------------------------------------- */

int descriptor_prepare(const struct orr_stream_kind *kind, const struct orr_open *open, struct orr_stream **stream)
{
    int error = stream_make(kind, open, stream);
    if (error)
        return error;
    error = reactor_prepare_watches((*stream)->opened.worker->reactor);
    if (error)
        opened_free(&(*stream)->opened);
    return error;
}

void descriptor_init(struct orr_stream *stream, int fd, enum descriptor_mode mode)
{
    struct descriptor *self = descriptor_of(stream);
    reactor_watch_init(&self->watch, fd, notify);
    self->mode = mode;
    self->original = -1;
    self->standard = -1;
}

void descriptor_close(struct orr_stream *stream)
{
    struct descriptor *self = descriptor_of(stream);
    reactor_watch_close(stream->opened.worker->reactor, &self->watch);
    close(self->watch.fd);
    if (self->original >= 0)
        close(self->original);
    self->watch.fd = -1;
}

bool descriptor_is_behind(const struct orr_stream *stream)
{
    return stream->kind->want == descriptor_want;
}

int orr_stream_descriptor(const struct orr_stream *stream)
{
    if (!stream)
        return -EINVAL;
    if (stream->opened.worker != worker_current)
        return -EPERM;
    if (!descriptor_is_behind(stream))
        return -ENOTSUP;
    return stream->closed ? -EBADF : descriptor_of(stream)->watch.fd;
}
