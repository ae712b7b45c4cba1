/*
 * Readiness: which descriptors are worth trying.  A watch belongs to a descriptor for its whole
 * life, not to an operation or a task.  It remembers what the kernel has said; so a descriptor is
 * tried first, and asked about only when a try had to be given up.
 *
 * Both backends keep watches in an epoll set, edge-triggered, each descriptor registered once, when
 * somebody first waits for it.  There is no system call for each wait.  On io_uring the ring polls
 * that set with one request while there is nothing to do.  A request for each descriptor would save
 * one system call a batch, but
 *
 *   - such a request holds the file: close(2) would neither end a connection nor free a port until
 *     the request has been cancelled and has come back;
 *   - it ends with the thread that made it, so all of them would have to be made again whenever a
 *     host moves its turns to another thread.
 *
 * Edges: bits in `ready` are set by events, and cleared by the caller when a try answers EAGAIN.
 * Events are delivered on the caller's own thread, so none gets lost between the two.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_REACTOR_READINESS_H
#define ORR_REACTOR_READINESS_H

#include "reactor/backend.h"

#include <poll.h>

enum watch_state {
    WATCH_NEW,          /* not registered */
    WATCH_REGISTERED,   /* in the epoll set */
    WATCH_ALWAYS_READY, /* a file that epoll refuses because it is always ready */
};

struct reactor_watch {
    int fd;
    uint16_t ready;  /* POLLIN, POLLOUT: worth trying */
    uint16_t wanted; /* events that the owner waits for */
    uint16_t seen;   /* POLLERR, POLLHUP, POLLRDHUP, POLLPRI, if the kernel has ever said so */
    uint8_t state;

    /*
     * Some of the wanted events are there; they are wanted no more.  It may change what this or
     * another watch wants, and close either.
     */
    void (*notify)(struct reactor_watch *watch, unsigned events);
};

/* A watch in zeroed memory.  The descriptor counts as ready until a try shows that it is not. */
static inline void reactor_watch_init(struct reactor_watch *watch, int fd,
                                      void (*notify)(struct reactor_watch *watch, unsigned events))
{
    watch->fd = fd;
    watch->ready = POLLIN | POLLOUT;
    watch->notify = notify;
}

/* Makes sure that waiting for a watch takes no descriptor: 0, -EMFILE, -ENFILE or -ENOMEM. */
int reactor_prepare_watches(struct reactor *reactor);

/* A try answered EAGAIN: waits for the next edge. */
static inline void reactor_watch_spent(struct reactor_watch *watch, unsigned events)
{
    if (watch->state != WATCH_ALWAYS_READY)
        watch->ready &= (uint16_t)~events;
}

/*
 * A read got less than it had room for, from a source that then has no more.  If the end, an error
 * or urgent data is there too, it brings no further edge: then only EAGAIN tells.
 */
static inline void reactor_watch_drained(struct reactor_watch *watch)
{
    if (!watch->seen)
        reactor_watch_spent(watch, POLLIN);
}

/*
 * The owner waits for exactly these events from now on: POLLIN, POLLOUT, POLLERR, POLLRDHUP; 0 for
 * none.  Answers those that are there already, which are not wanted then; or a negative errno, and
 * nothing is wanted.
 */
int reactor_watch_want(struct reactor *reactor, struct reactor_watch *watch, unsigned events);

/* Before the descriptor is closed.  A watch that was never registered may be closed, too. */
void reactor_watch_close(struct reactor *reactor, struct reactor_watch *watch);

/* --- For backends ----------------------------------------------------------------------------- */

struct epoll_event;

/* Whether an event is one of a watch. */
bool readiness_owns(const struct epoll_event *event);

/* Handles the events of a batch that belong to watches, and leaves out others. */
void readiness_handle(struct reactor *reactor, struct epoll_event *events, int count);

enum { READINESS_AT_ONCE = 128 }; /* events in a batch; after so many, the set may have more */

/* Collects and handles a batch of events.  Does not block.  Answers how many, or negative errno. */
int readiness_collect(struct reactor *reactor);

#endif
