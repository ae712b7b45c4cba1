/*
 * A descriptor and its watch: what the kinds of streams that the kernel implements have in common.
 * The kind's own bytes begin with a struct descriptor.
 *
 * No call blocks, whatever mode the descriptor is in: see enum descriptor_mode.  The mode of a
 * descriptor that somebody else has opened is never changed, since others may share it.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_DESCRIPTOR_H
#define ORR_IO_DESCRIPTOR_H

#include "io/stream.h"
#include "reactor/readiness.h"

#include <signal.h>

enum descriptor_mode {
    DESCRIPTOR_SOCKET, /* each call says that it must not wait, and raises no signal */
    DESCRIPTOR_OWN,    /* in non-blocking mode: the library has opened it */
    DESCRIPTOR_SHARED, /* perhaps in blocking mode: asks before each call, where it has to */
    DESCRIPTOR_FILE,   /* a file on disk: always ready */
};

struct descriptor {
    struct reactor_watch watch; /* has the descriptor; -1 once it is closed */
    uint8_t mode;
    bool foreign;    /* somebody else has opened it, and its mode is theirs */
    bool drains;     /* a short read shows that there is no more input */
    int8_t standard; /* 0, 1, 2: the buffer of C's stdin, stdout, stderr goes first; -1: none */
    int original;    /* the descriptor that this one was made from, and is closed with it; or -1 */
};

static inline struct descriptor *descriptor_of(const struct orr_stream *stream)
{
    return (struct descriptor *)stream->data;
}

/* Gives a new stream its descriptor, which it owns from now on. */
void descriptor_init(struct orr_stream *stream, int fd, enum descriptor_mode mode);

/* For the tables of kinds. */
ssize_t descriptor_read(struct orr_stream *stream, const struct iovec *parts, int count);
ssize_t descriptor_write(struct orr_stream *stream, const struct iovec *parts, int count);
/*
 * Makes the stream of a descriptor that is about to be opened.  What waiting for it needs is there
 * then, so that no read or write fails for want of it.  descriptor_init() comes next.
 */
int descriptor_prepare(const struct orr_stream_kind *kind, const struct orr_open *open, struct orr_stream **stream);

int descriptor_want(struct orr_stream *stream, unsigned events);
void descriptor_close(struct orr_stream *stream);

/* Whether a standard stream of C's holds bytes that go first. */
bool descriptor_is_behind_c(const struct descriptor *self);

/* Whether the stream is one of a descriptor. */
bool descriptor_is_behind(const struct orr_stream *stream);

/*
 * For code that makes a call which raises SIGPIPE, other than on sockets.  The signal is blocked in
 * this thread meanwhile, and one that came is taken.  What the process does with it stays as it is.
 */
struct pipe_guard {
    sigset_t before;
    bool pending; /* was pending before, and is somebody else's */
};

void pipe_guard_begin(struct pipe_guard *guard);

/* `maybe_raised`: false only if the call cannot have raised the signal. */
void pipe_guard_end(const struct pipe_guard *guard, bool maybe_raised);

#endif
