/*
 * A reactor carries a worker's I/O to the kernel and back.  Each backend is a file of its own,
 * behind a table of functions; they all behave as described here.
 *
 * An operation is the caller's `orr_io`, in flight from reactor_start() until reactor_next_done()
 * gives it back; in between, struct and buffer belong to the reactor and the kernel.  Every
 * operation that was started comes back exactly once, cancelled or not.  One that cannot be done
 * comes back with its error.
 *
 * All of it belongs to the worker's owner: no call here is thread-safe, and none but reactor_wait()
 * blocks.
 */
#ifndef ORR_REACTOR_REACTOR_H
#define ORR_REACTOR_REACTOR_H

#include "base/log.h"
#include "reactor/backend.h"

/*
 * An edge on `bell` ends a wait.  AUTO tries io_uring.  If any step of opening the ring fails,
 * whatever the reason, it falls back to epoll with a line in the log.  Negative errno.
 */
int reactor_open(struct reactor **out, enum orr_reactor kind, const struct alloc *alloc, const struct log *log,
                 int bell);

/* Nothing may be in flight.  NULL is allowed. */
void reactor_close(struct reactor *reactor);

static inline enum orr_reactor reactor_kind(const struct reactor *reactor)
{
    return reactor->backend->kind;
}

/* Starts the operation that `io` describes.  -ENOMEM: not started. */
static inline int reactor_start(struct reactor *reactor, struct orr_io *io)
{
    io->state = IO_IN_FLIGHT;
    io->phase = 0;
    io->cancelled = false;
    list_init(&io->in_reactor);
    reactor->unsubmitted = true;
    int error = reactor->backend->start(reactor, io);
    if (error)
        io->state = IO_IDLE;
    else
        reactor->in_flight++;
    return error;
}

/* Cancels an operation.  It comes back as always, and soon. */
static inline void reactor_cancel(struct reactor *reactor, struct orr_io *io)
{
    if (io->cancelled || io->state != IO_IN_FLIGHT)
        return;
    io->cancelled = true;
    reactor->unsubmitted = true;
    reactor->backend->cancel(reactor, io);
}

/* Hands the kernel what was started since the last wait. */
static inline int reactor_submit(struct reactor *reactor)
{
    reactor->unsubmitted = false;
    return reactor->backend->submit(reactor);
}

/* Whether reactor_submit() may have something to hand over. */
static inline bool reactor_has_unsubmitted(const struct reactor *reactor)
{
    return reactor->unsubmitted;
}

/*
 * Submits, waits for the bell or a completion for up to `timeout_ns` (0: not at all, ORR_NEVER:
 * without end), and collects what has finished.  May return early.  Negative errno if the kernel
 * refuses for good.
 */
int reactor_wait(struct reactor *reactor, uint64_t timeout_ns);

/* Whether a wait would find something without asking the kernel. */
static inline bool reactor_has_done(const struct reactor *reactor)
{
    return !list_empty(&reactor->done) || reactor->more;
}

/*
 * Whether any operation is in flight, or somebody waits for a watch (readiness.h).  If not, only
 * the bell can end a wait.
 */
static inline bool reactor_in_flight(const struct reactor *reactor)
{
    return reactor->in_flight || reactor->wanting;
}

/* Takes the oldest finished operation, its `result` set; NULL if there is none. */
struct orr_io *reactor_next_done(struct reactor *reactor);

/* For the host's loop: readable when a wait would return at once.  Negative errno. */
int reactor_fd(struct reactor *reactor);

/*
 * Makes that descriptor readable from `deadline` on, a time of CLOCK_MONOTONIC; ORR_NEVER for not
 * at all.  Negative errno.
 */
int reactor_show_deadline(struct reactor *reactor, uint64_t deadline);

#endif
