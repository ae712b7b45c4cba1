#include "reactor/reactor.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

const char *orr_reactor_name(enum orr_reactor reactor)
{
    switch (reactor) {
    case ORR_REACTOR_AUTO:
        return "auto";
    case ORR_REACTOR_URING:
        return "uring";
    case ORR_REACTOR_EPOLL:
        return "epoll";
    }
    return NULL;
}

static int open_backend(struct reactor **out, const struct reactor_backend *backend, const struct alloc *alloc,
                        int bell)
{
    int error = backend->open(out, alloc, bell);
    if (error)
        return error;
    (*out)->backend = backend;
    (*out)->alloc = *alloc;
    (*out)->bell = bell;
    (*out)->timer_fd = -1;
    (*out)->shown_deadline = ORR_NEVER;
    list_init(&(*out)->done);
    return 0;
}

/* What keeps a user from having a ring, in words; `error` is negative errno. */
static const char *explain(int error)
{
    switch (-error) {
    case ENOSYS:
        return "the kernel has none, or is older than 5.13";
    case EPERM:
    case EACCES:
        return "the kernel's settings or a sandbox forbid it";
    case ENOMEM:
        return "the user's locked memory may be used up: see ulimit -l";
    default:
        return "opening a ring has failed";
    }
}

int reactor_open(struct reactor **out, enum orr_reactor kind, const struct alloc *alloc, const struct log *log,
                 int bell)
{
    if (kind == ORR_REACTOR_EPOLL)
        return open_backend(out, &reactor_epoll, alloc, bell);
    int error = open_backend(out, &reactor_uring, alloc, bell);
    if (!error || kind == ORR_REACTOR_URING)
        return error;
    log_line(log, ORR_LOG_INFO, "io_uring is not available (%s; %s), using epoll", strerror(-error), explain(error));
    return open_backend(out, &reactor_epoll, alloc, bell);
}

void reactor_close(struct reactor *reactor)
{
    if (!reactor)
        return;
    if (reactor->timer_fd >= 0)
        close(reactor->timer_fd);
    reactor->backend->close(reactor);
}

/*
 * A turn begins by collecting.  After a wait that could block there is nothing to be collected yet.
 */
int reactor_wait(struct reactor *reactor, uint64_t timeout_ns)
{
    bool fresh = reactor->fresh && !reactor->more && !reactor->unsubmitted;
    bool may_block = timeout_ns && !reactor_has_done(reactor);
    reactor->fresh = may_block;
    if (fresh && !timeout_ns)
        return 0;
    reactor->unsubmitted = false; /* every wait submits first */
    return reactor->backend->wait(reactor, may_block ? timeout_ns : 0);
}

struct orr_io *reactor_next_done(struct reactor *reactor)
{
    if (list_empty(&reactor->done))
        return NULL;
    struct orr_link *link = reactor->done.next;
    list_remove(link);
    reactor->in_flight--;
    return container_of(link, struct orr_io, in_reactor);
}

int reactor_fd(struct reactor *reactor)
{
    return reactor->backend->fd(reactor);
}

/* The timer is watched for edges, as the bell is: nobody reads it. */
static int open_timer(struct reactor *reactor)
{
    int fd = reactor_fd(reactor);
    if (fd < 0)
        return fd;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0)
        return -errno;
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = ORR_NEVER };
    if (epoll_ctl(fd, EPOLL_CTL_ADD, timer, &event) < 0) {
        int error = -errno;
        close(timer);
        return error;
    }
    reactor->timer_fd = timer;
    return 0;
}

int reactor_show_deadline(struct reactor *reactor, uint64_t deadline)
{
    /* A deadline that has passed is set again: its edge may have been cleared. */
    if (deadline == reactor->shown_deadline && (deadline == ORR_NEVER || deadline > clock_now()))
        return 0;
    if (reactor->timer_fd < 0) {
        int error = open_timer(reactor);
        if (error)
            return error;
    }
    /* All zeroes would disarm the timer: a deadline of 0 is moved by a nanosecond. */
    struct itimerspec when = { .it_value = clock_timespec(deadline == ORR_NEVER ? 0 : deadline ? deadline : 1) };
    if (timerfd_settime(reactor->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
        return -errno;
    reactor->shown_deadline = deadline;
    return 0;
}
