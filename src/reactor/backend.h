/*
 * What a reactor and its backends share: the table of functions, the struct that all begin with,
 * finished operations.
 */
#ifndef ORR_REACTOR_BACKEND_H
#define ORR_REACTOR_BACKEND_H

#include "base/alloc.h"
#include "base/list.h"
#include "orrery.h"

enum io_kind {
    IO_WAIT,
    IO_READ,
    IO_WRITE,
};

enum io_state {
    IO_IDLE,
    IO_IN_FLIGHT,
    IO_FINISHED, /* the kernel is done with it; its task does not know yet */
    IO_DONE,
};

struct epoll_event;
struct reactor;

struct reactor_backend {
    enum orr_reactor kind;
    int (*open)(struct reactor **out, const struct alloc *alloc, int bell);
    void (*close)(struct reactor *reactor); /* closes the backend, and frees the struct */
    int (*start)(struct reactor *reactor, struct orr_io *io);
    void (*cancel)(struct reactor *reactor, struct orr_io *io);
    int (*submit)(struct reactor *reactor);
    int (*wait)(struct reactor *reactor, uint64_t timeout_ns);
    /* A pollable descriptor, always the same; made when first asked for. */
    int (*fd)(struct reactor *reactor);
    /* The epoll set of the watches: see readiness.h.  Negative errno. */
    int (*readiness_fd)(struct reactor *reactor);
};

extern const struct reactor_backend reactor_uring;
extern const struct reactor_backend reactor_epoll;

/* The first member of every backend's struct. */
struct reactor {
    const struct reactor_backend *backend;
    struct alloc alloc;
    struct orr_link done; /* finished, oldest first, by `in_reactor` */
    unsigned in_flight;
    bool more;        /* the backend has collected a part of what there is */
    bool fresh;       /* a wait that could block was the last call: it has collected everything */
    unsigned wanting; /* readiness.c: watches whose owners wait for something */
    int batch_count;  /* readiness.c: events that are being handled, and how many */
    struct epoll_event *batch;
    bool unsubmitted; /* something was started or cancelled since the last reactor_submit() */
    int bell;
    int timer_fd; /* -1 until a deadline is shown on the descriptor */
    uint64_t shown_deadline;
};

/* A backend has finished an operation. */
static inline void reactor_finish(struct reactor *reactor, struct orr_io *io, int result)
{
    io->result = result;
    io->state = IO_FINISHED;
    list_remove(&io->in_reactor);
    list_append(&reactor->done, &io->in_reactor);
}

#endif
