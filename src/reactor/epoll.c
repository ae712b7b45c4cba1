/*
 * The reactor on epoll.  Reads and writes are tried first, without blocking, and wait for readiness
 * only when the kernel says EAGAIN.
 *
 * A descriptor has a watch: the operations that wait on it, in order, and what epoll has been told.
 * Watches are armed for one shot, and stay registered but silent afterwards, so that waiting again
 * costs one system call.  epoll forgets a descriptor by itself when its file is closed; a watch
 * finds out when it arms the next time.  The watch's generation tells a stale event, for a file
 * that its number names no more, from a fresh one.
 *
 * Descriptors with a watch of their owner's (readiness.h) are in the same epoll set.  A descriptor
 * has one or the other.
 *
 * When an event is due on a descriptor, all operations that wait for it are tried, oldest first;
 * those that are not served go on waiting.
 */
#include "base/chunks.h"
#include "base/clock.h"
#include "reactor/readiness.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 128 };

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI && EPOLLRDHUP == POLLRDHUP &&
                  EPOLLERR == POLLERR && EPOLLHUP == POLLHUP,
              "poll's names for events are epoll's");

struct watch {
    struct orr_link waiters;
    uint32_t generation;
    uint32_t armed; /* events that epoll will report, once; 0 when it is silent */
};

struct epoll_reactor {
    struct reactor base;
    int fd;
    bool watched;                       /* a host polls `fd`: every turn clears its edges */
    unsigned waiting;                   /* operations in all watches together */
    struct watch *watches[CHUNK_COUNT]; /* by descriptor */
};

/* Shared with the timer: both only have to end a wait. */
static const uint64_t bell_tag = ORR_NEVER;

static struct epoll_reactor *epoll_of(struct reactor *reactor)
{
    return container_of(reactor, struct epoll_reactor, base);
}

static int epoll_open(struct reactor **out, const struct alloc *alloc, int bell)
{
    struct epoll_reactor *self = alloc_zeroed(alloc, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->fd = epoll_create1(EPOLL_CLOEXEC);
    if (self->fd < 0)
        goto failed;
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = bell_tag };
    if (epoll_ctl(self->fd, EPOLL_CTL_ADD, bell, &event) < 0)
        goto failed;
    *out = &self->base;
    return 0;
failed:;
    int error = -errno;
    if (self->fd >= 0)
        close(self->fd);
    alloc_free(alloc, self, sizeof *self);
    return error;
}

static void epoll_close(struct reactor *reactor)
{
    struct epoll_reactor *self = epoll_of(reactor);
    struct alloc alloc = reactor->alloc;
    for (unsigned chunk = 0; chunk < CHUNK_COUNT; chunk++)
        alloc_free(&alloc, self->watches[chunk], chunk_length(chunk) * sizeof(struct watch));
    close(self->fd);
    alloc_free(&alloc, self, sizeof *self);
}

/* The watch of a descriptor that has been watched before. */
static struct watch *watch_at(struct epoll_reactor *self, int fd)
{
    struct chunk_position at = chunk_position((uint32_t)fd);
    return &self->watches[at.chunk][at.offset];
}

/* Makes room for a descriptor's watch, if there is such a descriptor.  -EBADF, -ENOMEM. */
static int watch_reserve(struct epoll_reactor *self, int fd)
{
    if (fd < 0)
        return -EBADF;
    unsigned index = chunk_position((uint32_t)fd).chunk;
    if (index < CHUNK_COUNT && self->watches[index])
        return 0;
    if (fcntl(fd, F_GETFD) < 0)
        return -EBADF;
    uint32_t length = chunk_length(index);
    struct watch *chunk = index < CHUNK_COUNT ? alloc_zeroed(&self->base.alloc, length * sizeof *chunk) : NULL;
    if (!chunk)
        return -ENOMEM;
    for (uint32_t i = 0; i < length; i++)
        list_init(&chunk[i].waiters);
    self->watches[index] = chunk;
    return 0;
}

static uint32_t wanted(const struct watch *watch)
{
    uint32_t events = 0;
    for (struct orr_link *link = watch->waiters.next; link != &watch->waiters; link = link->next)
        events |= container_of(link, struct orr_io, in_reactor)->events;
    return events;
}

/* Tells epoll what the operations of a watch want, if it does not know.  Negative errno. */
static int arm(struct epoll_reactor *self, struct watch *watch, int fd)
{
    uint32_t events = wanted(watch);
    if (!(events & ~watch->armed))
        return 0;
    uint32_t generation = watch->generation + 1;
    struct epoll_event event = {
        .events = events | EPOLLONESHOT,
        .data.u64 = (uint64_t)(generation & INT32_MAX) << 32 | (uint32_t)fd,
    };
    int error = epoll_ctl(self->fd, EPOLL_CTL_MOD, fd, &event);
    if (error < 0 && errno == ENOENT)
        error = epoll_ctl(self->fd, EPOLL_CTL_ADD, fd, &event);
    if (error < 0)
        return -errno;
    watch->armed = events;
    watch->generation = generation;
    return 0;
}

static ssize_t transfer(const struct orr_io *io, int flags)
{
    struct iovec part = { .iov_base = io->buffer, .iov_len = io->length };
    ssize_t count = io->kind == IO_READ ? preadv2(io->fd, &part, 1, -1, flags) : pwritev2(io->fd, &part, 1, -1, flags);
    return count < 0 ? -errno : count;
}

/*
 * For files that do not know RWF_NOWAIT: a ready one does not block, if one does not write more
 * than it promises to take.
 */
static ssize_t transfer_when_ready(const struct orr_io *io)
{
    struct pollfd ready = { .fd = io->fd, .events = (short)io->events };
    int there;
    do
        there = poll(&ready, 1, 0);
    while (there < 0 && errno == EINTR);
    if (there <= 0)
        return there ? -errno : -EAGAIN;
    size_t length = io->kind == IO_WRITE && io->length > PIPE_BUF ? PIPE_BUF : io->length;
    ssize_t count = io->kind == IO_READ ? read(io->fd, io->buffer, length) : write(io->fd, io->buffer, length);
    return count < 0 ? -errno : count;
}

/*
 * Transfers without blocking, even if the descriptor is in blocking mode.  -EAGAIN if it would
 * block.
 */
static ssize_t try_transfer(const struct orr_io *io)
{
    /* An empty read or write means something to some files, but not as a vector. */
    if (!io->length)
        return transfer_when_ready(io);
    ssize_t count = transfer(io, RWF_NOWAIT);
    return count == -EOPNOTSUPP ? transfer_when_ready(io) : count;
}

/* The error behind an event that has nothing but EPOLLERR. */
static int error_behind(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error ? -error : -EIO;
}

/* What an operation gets for these events: a result, or -EAGAIN to go on waiting. */
static ssize_t serve(const struct orr_io *io, uint32_t events)
{
    if (io->kind != IO_WAIT) {
        ssize_t result = try_transfer(io);
        /* To go on waiting would find the same error at once, for ever. */
        return result == -EAGAIN && !(events & io->events) ? error_behind(io->fd) : result;
    }
    uint32_t seen = events & (io->events | EPOLLERR | EPOLLHUP);
    return seen ? (ssize_t)seen : -EAGAIN;
}

/* Takes an operation off its watch. */
static void finish_waiting(struct epoll_reactor *self, struct orr_io *io, ssize_t result)
{
    self->waiting--;
    reactor_finish(&self->base, io, (int)result);
}

/* For a wait on a file that is always ready for some events, never for others. */
static ssize_t always_ready(const struct orr_io *io)
{
    uint32_t seen = io->events & (EPOLLIN | EPOLLOUT);
    return seen ? (ssize_t)seen : -EINVAL;
}

/*
 * Epoll cannot watch this descriptor.  A file that is always ready is served at once; anything else
 * fails.
 */
static void serve_unwatched(struct epoll_reactor *self, struct orr_io *io, int error)
{
    ssize_t result = error;
    if (error == -EPERM)
        result = io->kind == IO_WAIT ? always_ready(io) : transfer(io, 0);
    finish_waiting(self, io, result);
}

static int epoll_start(struct reactor *reactor, struct orr_io *io)
{
    struct epoll_reactor *self = epoll_of(reactor);
    if (io->kind != IO_WAIT)
        io->events = io->kind == IO_READ ? EPOLLIN : EPOLLOUT;
    int error = watch_reserve(self, io->fd);
    if (error == -ENOMEM)
        return error;
    if (error) {
        reactor_finish(reactor, io, error);
        return 0;
    }
    struct watch *watch = watch_at(self, io->fd);
    /* Nothing overtakes the operations that wait already. */
    if (io->kind != IO_WAIT && list_empty(&watch->waiters)) {
        ssize_t result = try_transfer(io);
        if (result != -EAGAIN) {
            reactor_finish(reactor, io, (int)result);
            return 0;
        }
    }
    list_append(&watch->waiters, &io->in_reactor);
    self->waiting++;
    error = arm(self, watch, io->fd);
    if (error)
        serve_unwatched(self, io, error);
    return 0;
}

static void epoll_cancel(struct reactor *reactor, struct orr_io *io)
{
    struct epoll_reactor *self = epoll_of(reactor);
    struct watch *watch = watch_at(self, io->fd);
    finish_waiting(self, io, -ECANCELED);
    /*
     * The descriptor may be closed now, and its number used again: what epoll was told does not
     * count.
     */
    if (list_empty(&watch->waiters))
        watch->armed = 0;
}

static void serve_watch(struct epoll_reactor *self, struct watch *watch, uint32_t events)
{
    int fd = -1;
    for (struct orr_link *link = watch->waiters.next, *next; link != &watch->waiters; link = next) {
        next = link->next;
        struct orr_io *io = container_of(link, struct orr_io, in_reactor);
        fd = io->fd;
        if (!(events & (io->events | EPOLLERR | EPOLLHUP)))
            continue;
        ssize_t result = serve(io, events);
        if (result != -EAGAIN)
            finish_waiting(self, io, result);
    }
    if (list_empty(&watch->waiters))
        return;
    int error = arm(self, watch, fd);
    while (error && !list_empty(&watch->waiters))
        serve_unwatched(self, container_of(watch->waiters.next, struct orr_io, in_reactor), error);
}

static void handle(struct epoll_reactor *self, const struct epoll_event *event)
{
    if (event->data.u64 == bell_tag || readiness_owns(event))
        return;
    struct watch *watch = watch_at(self, (int)(uint32_t)event->data.u64);
    if ((watch->generation & INT32_MAX) != event->data.u64 >> 32)
        return;
    watch->armed = 0;
    serve_watch(self, watch, event->events);
}

static int epoll_block(int fd, struct epoll_event *events, uint64_t timeout_ns)
{
    if (timeout_ns == ORR_NEVER)
        return epoll_wait(fd, events, EVENTS_AT_ONCE, -1);
    struct timespec timeout = clock_timespec(timeout_ns);
    int count = epoll_pwait2(fd, events, EVENTS_AT_ONCE, &timeout, NULL);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM))
        return count;
    /*
     * Before Linux 5.11, or where a seccomp filter refuses the call: whole milliseconds, rounded
     * up.
     */
    uint64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    return epoll_wait(fd, events, EVENTS_AT_ONCE, ms > 1u << 30 ? 1 << 30 : (int)ms);
}

static int epoll_collect(struct reactor *reactor, uint64_t timeout_ns)
{
    struct epoll_reactor *self = epoll_of(reactor);
    if (!timeout_ns && !self->waiting && !self->watched && !reactor->wanting)
        return 0;
    struct epoll_event events[EVENTS_AT_ONCE];
    int count = timeout_ns ? epoll_block(self->fd, events, timeout_ns)
                           : epoll_wait(self->fd, events, EVENTS_AT_ONCE, 0);
    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < count; i++)
        handle(self, &events[i]);
    readiness_handle(reactor, events, count);
    return 0;
}

static int epoll_submit(struct reactor *reactor)
{
    (void)reactor;
    return 0;
}

static int epoll_fd(struct reactor *reactor)
{
    struct epoll_reactor *self = epoll_of(reactor);
    self->watched = true;
    return self->fd;
}

static int epoll_readiness_fd(struct reactor *reactor)
{
    return epoll_of(reactor)->fd;
}

const struct reactor_backend reactor_epoll = {
    .kind = ORR_REACTOR_EPOLL,
    .open = epoll_open,
    .close = epoll_close,
    .start = epoll_start,
    .cancel = epoll_cancel,
    .submit = epoll_submit,
    .wait = epoll_collect,
    .fd = epoll_fd,
    .readiness_fd = epoll_readiness_fd,
};
