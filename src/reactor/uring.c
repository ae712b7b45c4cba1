/*
 * The reactor on io_uring.  What tasks start in a turn goes to the kernel in one io_uring_enter, at
 * the turn's end or with the wait; what has finished is read from shared memory.
 *
 * A request's user_data is its operation's address; the reactor's own address marks the bell, that
 * of `set` the set of the watches, and 0 a request that nobody waits for.  An operation has one
 * request in the kernel at a time, and is given back only when that request has ended, so the
 * kernel never holds a buffer that its owner has back.
 *
 * A read or write on a descriptor in non-blocking mode may end with EAGAIN; then the operation
 * polls, and tries again.  Requests die with the thread that made them, and a host may move its
 * turns to another thread: a request that ends with ECANCELED although nobody cancelled it is made
 * again.
 *
 * The set of the watches (readiness.h) is asked in each turn while it has news.  When it has none,
 * or the worker is about to sleep, the ring polls it with one request; until that ends, there is
 * nothing to ask for.  The request is not a multishot one: that would be called for each event of
 * each descriptor, also while the worker is busy and asks anyway.
 *
 * The bell is watched by a multishot poll, armed with the first wait.  A host that polls a
 * descriptor gets an epoll of bell, ring and set instead, because any completion on the ring
 * interrupts the host's own waiting.
 */
#include "base/clock.h"
#include "reactor/readiness.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    RING_ENTRIES = 256,
    COMPLETIONS_AT_ONCE = 64,
};

/* What an operation's request is for. */
enum phase {
    PHASE_NONE,   /* none: the ring was full, and the operation is in the backlog */
    PHASE_DIRECT, /* the operation itself */
    PHASE_POLL,   /* readiness, before the operation is tried again */
    /* The operation itself, after polling found nothing but an error: it is not polled again. */
    PHASE_LAST,
};

struct uring_reactor {
    struct reactor base;
    struct io_uring ring;
    struct orr_link backlog; /* operations that wait for room in the ring */
    bool bell_armed;
    int host_fd; /* -1 until asked for */

    /* The epoll set of the watches, -1 before the first. */
    int set;
    bool set_armed; /* the ring polls it, and has not found anything */
};

static struct uring_reactor *uring_of(struct reactor *reactor)
{
    return container_of(reactor, struct uring_reactor, base);
}

/* The multishot poll has no flag of its own; it came with IORING_FEAT_RSRC_TAGS, in Linux 5.13. */
static const unsigned needed_features = IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS | IORING_FEAT_FAST_POLL |
                                        IORING_FEAT_EXT_ARG | IORING_FEAT_RSRC_TAGS;

/*
 * Makes one request that does nothing.  A sandbox may allow rings and forbid io_uring_enter; then
 * the ring must be refused now, while epoll can still take its place.  Negative errno.
 */
static int ring_try(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    if (!sqe)
        return -ENOSYS;
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, NULL);
    int submitted = io_uring_submit(ring);
    if (submitted < 0)
        return submitted;
    struct io_uring_cqe *cqe;
    if (!io_uring_peek_cqe(ring, &cqe))
        io_uring_cqe_seen(ring, cqe); /* else it would end the first wait */
    return 0;
}

static int ring_check(struct io_uring *ring, const struct io_uring_params *params)
{
    return (params->features & needed_features) == needed_features ? ring_try(ring) : -ENOSYS;
}

/*
 * Rings closed so far.  The kernel may give a new ring the memory of one that another thread has
 * just closed; it orders the two, but only the kernel knows.  The counter says it in atomics, too:
 * for ThreadSanitizer.
 */
static _Atomic unsigned rings_closed;

/* Release: pairs with the acquire in ring_open(). */
static void ring_close(struct io_uring *ring)
{
    atomic_fetch_add_explicit(&rings_closed, 1, memory_order_release);
    io_uring_queue_exit(ring);
}

static int ring_open(struct io_uring *ring)
{
    /*
     * Completions wait for our next system call and interrupt nothing; older kernels cannot do
     * that.
     */
    struct io_uring_params params = { .flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG };
    int error = io_uring_queue_init_params(RING_ENTRIES, ring, &params);
    if (error == -EINVAL) {
        params = (struct io_uring_params){ 0 };
        error = io_uring_queue_init_params(RING_ENTRIES, ring, &params);
    }
    if (error)
        return error;
    /* Acquire: pairs with the release in ring_close(), which comes before the memory is free. */
    (void)atomic_load_explicit(&rings_closed, memory_order_acquire);
    error = ring_check(ring, &params);
    if (error)
        ring_close(ring);
    return error;
}

static int uring_open(struct reactor **out, const struct alloc *alloc, int bell)
{
    (void)bell;
    struct uring_reactor *self = alloc_zeroed(alloc, sizeof *self);
    if (!self)
        return -ENOMEM;
    int error = ring_open(&self->ring);
    if (error) {
        alloc_free(alloc, self, sizeof *self);
        return error;
    }
    self->host_fd = -1;
    self->set = -1;
    list_init(&self->backlog);
    *out = &self->base;
    return 0;
}

static void uring_close(struct reactor *reactor)
{
    struct uring_reactor *self = uring_of(reactor);
    struct alloc alloc = reactor->alloc;
    if (self->host_fd >= 0)
        close(self->host_fd);
    if (self->set >= 0)
        close(self->set);
    ring_close(&self->ring);
    alloc_free(&alloc, self, sizeof *self);
}

/* A free request; NULL if the ring is full even after the kernel was handed what is in it. */
static struct io_uring_sqe *next_entry(struct uring_reactor *self)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
    if (sqe)
        return sqe;
    io_uring_submit(&self->ring);
    return io_uring_get_sqe(&self->ring);
}

static void fill_entry(struct io_uring_sqe *sqe, const struct orr_io *io)
{
    if (io->kind == IO_WAIT || io->phase == PHASE_POLL)
        io_uring_prep_poll_add(sqe, io->fd, io->events);
    else if (io->kind == IO_READ)
        io_uring_prep_read(sqe, io->fd, io->buffer, (unsigned)io->length, UINT64_MAX);
    else
        io_uring_prep_write(sqe, io->fd, io->buffer, (unsigned)io->length, UINT64_MAX);
    io_uring_sqe_set_data(sqe, (void *)io);
}

/* Makes the request for `phase`, now or when there is room. */
static void issue(struct uring_reactor *self, struct orr_io *io, enum phase phase)
{
    struct io_uring_sqe *sqe = next_entry(self);
    io->phase = sqe ? phase : PHASE_NONE;
    list_remove(&io->in_reactor);
    if (sqe)
        fill_entry(sqe, io);
    else
        list_append(&self->backlog, &io->in_reactor);
}

/* Asks the kernel to end the request of a cancelled operation. */
static void issue_cancel(struct uring_reactor *self, struct orr_io *io)
{
    struct io_uring_sqe *sqe = next_entry(self);
    list_remove(&io->in_reactor);
    if (sqe) {
        io_uring_prep_cancel(sqe, io, 0);
        io_uring_sqe_set_data(sqe, NULL);
    } else {
        list_append(&self->backlog, &io->in_reactor);
    }
}

static void issue_backlog(struct uring_reactor *self)
{
    struct orr_link waiting;
    if (list_empty(&self->backlog))
        return;
    waiting = self->backlog;
    waiting.next->prev = waiting.prev->next = &waiting;
    list_init(&self->backlog);
    while (!list_empty(&waiting)) {
        struct orr_io *io = container_of(waiting.next, struct orr_io, in_reactor);
        if (io->phase == PHASE_NONE)
            issue(self, io, PHASE_DIRECT);
        else
            issue_cancel(self, io);
    }
}

static int uring_start(struct reactor *reactor, struct orr_io *io)
{
    if (io->kind != IO_WAIT)
        io->events = io->kind == IO_READ ? POLLIN : POLLOUT;
    issue(uring_of(reactor), io, PHASE_DIRECT);
    return 0;
}

static void uring_cancel(struct reactor *reactor, struct orr_io *io)
{
    if (io->phase == PHASE_NONE)
        reactor_finish(reactor, io, -ECANCELED);
    else
        issue_cancel(uring_of(reactor), io);
}

static void request_ended(struct uring_reactor *self, struct orr_io *io, int result)
{
    bool polled = io->phase == PHASE_POLL;
    bool interrupted = result == -ECANCELED || result == -EINTR;
    bool would_block = result == -EAGAIN && io->kind != IO_WAIT && !polled;
    if (io->cancelled && (interrupted || would_block || (polled && result >= 0)))
        reactor_finish(&self->base, io, -ECANCELED);
    else if (would_block && io->phase == PHASE_LAST)
        reactor_finish(&self->base, io, -EIO);
    else if (would_block)
        issue(self, io, PHASE_POLL);
    else if (interrupted || (polled && result >= 0))
        issue(self, io, polled && !(result & (int)io->events) ? PHASE_LAST : PHASE_DIRECT);
    else if (io->kind == IO_WAIT && result >= 0)
        reactor_finish(&self->base, io, result & (int)(io->events | POLLERR | POLLHUP));
    else
        reactor_finish(&self->base, io, result);
}

static void handle(struct uring_reactor *self, const struct io_uring_cqe *cqe)
{
    void *about = io_uring_cqe_get_data(cqe);
    if (about == self)
        self->bell_armed = cqe->flags & IORING_CQE_F_MORE;
    else if (about == &self->set)
        self->set_armed = false;
    else if (about)
        request_ended(self, about, cqe->res);
}

static void reap(struct uring_reactor *self)
{
    struct io_uring_cqe *cqes[COMPLETIONS_AT_ONCE];
    unsigned count;
    while ((count = io_uring_peek_batch_cqe(&self->ring, cqes, COMPLETIONS_AT_ONCE))) {
        for (unsigned i = 0; i < count; i++) {
            struct io_uring_cqe cqe = *cqes[i];
            handle(self, &cqe);
        }
        io_uring_cq_advance(&self->ring, count);
    }
}

/* Errors that a later call mends by itself. */
static int unless_passing(int error)
{
    return error >= 0 || error == -EINTR || error == -ETIME || error == -EAGAIN || error == -EBUSY ? 0 : error;
}

/* Has the ring poll the set of the watches, if somebody waits for one. */
static void arm_set(struct uring_reactor *self)
{
    struct io_uring_sqe *sqe = self->set_armed || !self->base.wanting ? NULL : next_entry(self);
    if (!sqe)
        return;
    io_uring_prep_poll_add(sqe, self->set, POLLIN);
    io_uring_sqe_set_data(sqe, &self->set);
    self->set_armed = true;
}

static int uring_submit(struct reactor *reactor)
{
    struct uring_reactor *self = uring_of(reactor);
    issue_backlog(self);
    if (!io_uring_sq_ready(&self->ring))
        return 0;
    int error = unless_passing(io_uring_submit(&self->ring));
    reap(self); /* some may have finished at once */
    return error;
}

/* Edges of the bell and the timer show on the host's descriptor until they are cleared. */
static void take_edges(struct uring_reactor *self)
{
    struct epoll_event events[4]; /* bell, timer, ring, set */
    if (self->host_fd >= 0)
        epoll_wait(self->host_fd, events, 4, 0);
}

static void arm_bell(struct uring_reactor *self)
{
    struct io_uring_sqe *sqe = self->bell_armed ? NULL : next_entry(self);
    if (!sqe)
        return;
    io_uring_prep_poll_multishot(sqe, self->base.bell, POLLIN);
    io_uring_sqe_set_data(sqe, self);
    self->bell_armed = true;
}

static int block(struct uring_reactor *self, uint64_t timeout_ns)
{
    arm_bell(self);
    if (!self->bell_armed)
        return uring_submit(&self->base); /* the ring is full: reap, and come again */
    if (timeout_ns == ORR_NEVER)
        return unless_passing(io_uring_submit_and_wait(&self->ring, 1));
    struct __kernel_timespec timeout = {
        .tv_sec = (int64_t)(timeout_ns / NS_PER_SECOND),
        .tv_nsec = (long long)(timeout_ns % NS_PER_SECOND),
    };
    struct io_uring_cqe *cqe;
    return unless_passing(io_uring_submit_and_wait_timeout(&self->ring, &cqe, 1, &timeout, NULL));
}

/*
 * Asks the set, unless the ring polls it.  A host that polls the set itself needs no request; but
 * its descriptor is readable until the events were taken, though nobody waits for them.
 */
static int collect_set(struct uring_reactor *self)
{
    bool hosted = self->host_fd >= 0;
    if (self->set < 0 || self->set_armed || (!self->base.wanting && !self->base.more && !hosted))
        return 0;
    int count = readiness_collect(&self->base);
    self->base.more = count >= READINESS_AT_ONCE;
    if (count == 0 && !hosted) {
        arm_set(self);
        self->base.unsubmitted = true;
    }
    return count < 0 ? count : 0;
}

static int uring_wait(struct reactor *reactor, uint64_t timeout_ns)
{
    struct uring_reactor *self = uring_of(reactor);
    issue_backlog(self);
    if (timeout_ns)
        arm_set(self);
    bool may_block = list_empty(&self->backlog) && (self->set_armed || !reactor->wanting);
    int error = timeout_ns && may_block ? block(self, timeout_ns) : uring_submit(reactor);
    reap(self);
    int collected = collect_set(self);
    take_edges(self);
    return error ? error : collected;
}

static int uring_fd(struct reactor *reactor)
{
    struct uring_reactor *self = uring_of(reactor);
    if (self->host_fd >= 0)
        return self->host_fd;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
    struct epoll_event level = { .events = EPOLLIN };
    if (epoll_ctl(fd, EPOLL_CTL_ADD, reactor->bell, &edge) < 0 ||
        epoll_ctl(fd, EPOLL_CTL_ADD, self->ring.ring_fd, &level) < 0 ||
        (self->set >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, self->set, &level) < 0)) {
        int error = -errno;
        close(fd);
        return error;
    }
    return self->host_fd = fd;
}

static int uring_readiness_fd(struct reactor *reactor)
{
    struct uring_reactor *self = uring_of(reactor);
    if (self->set >= 0)
        return self->set;
    int set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        return -errno;
    struct epoll_event level = { .events = EPOLLIN };
    if (self->host_fd >= 0 && epoll_ctl(self->host_fd, EPOLL_CTL_ADD, set, &level) < 0) {
        int error = -errno;
        close(set);
        return error;
    }
    return self->set = set;
}

const struct reactor_backend reactor_uring = {
    .kind = ORR_REACTOR_URING,
    .open = uring_open,
    .close = uring_close,
    .start = uring_start,
    .cancel = uring_cancel,
    .submit = uring_submit,
    .wait = uring_wait,
    .fd = uring_fd,
    .readiness_fd = uring_readiness_fd,
};
