/*
 * Streams, for the files of src/io: the struct behind the public interface, and the wait that all
 * their operations are made of.
 *
 * A stream has three slots: for the task that reads, the one that writes, and the one that waits
 * for the loss of the peer.  A slot holds a wait from its beginning until the task has picked up
 * the grant, or the wait is withdrawn.  A grant gives nothing but the news that another try is due:
 * so a wait that is withdrawn, granted or not, has consumed nothing.
 *
 * A freed stream lives on until its last slot is empty: the tasks in it call once more.
 *
 * All of it belongs to the worker's owner.
 */
#ifndef ORR_IO_STREAM_H
#define ORR_IO_STREAM_H

#include "exec/await.h"
#include "exec/opened.h"
#include "io/input.h"

#include <stdalign.h>

enum stream_slot {
    SLOT_READ,
    SLOT_WRITE,
    SLOT_LOSS,
    SLOTS,
};

struct orr_stream {
    struct opened opened;
    const struct orr_stream_kind *kind;
    struct orr_wait *waits[SLOTS];
    struct input input;
    size_t sent;                /* bytes of the write under way, or that broke the output */
    struct orr_waker dependent; /* names the task that `fatal` events cancel */
    int16_t read_error;         /* kept for every later read; 0 for none */
    int16_t write_error;        /* kept for every later write; 0 for none */
    uint8_t wanted;             /* events that the kind was asked for */
    uint8_t fatal;              /* events that cancel the dependent task; 0 for none */
    bool ended : 1;             /* the input is at its end */
    bool shut : 1;              /* the output was ended */
    bool broken : 1;            /* a write was given up in the middle */
    bool closed : 1;
    bool freed : 1; /* its user has given it up */
    alignas(16) char data[];
};

/* As orr_stream_new(), for a kind that is sound; it may have neither input nor output. */
int stream_make(const struct orr_stream_kind *kind, const struct orr_open *open, struct orr_stream **out);

/* 0 if the stream may be used on this thread. */
int stream_check(const struct orr_stream *stream);

/* Frees a stream that its user has given up, if no task is left in its slots. */
void stream_destroy_if_unused(struct orr_stream *stream);

/* The stream whose kind's own bytes begin at `data`. */
static inline struct orr_stream *stream_of(const void *data)
{
    return container_of(data, struct orr_stream, data);
}

/*
 * One call of a wait function of a stream.  The first five are set by the caller, the rest by
 * attempt_begin().
 */
struct attempt {
    struct orr_task *task;
    struct orr_wait *wait;
    struct orr_stream *stream;
    enum stream_slot slot;
    const struct orr_wait_kind *kind;
    struct orr_group *group; /* the group that the wait is a member of */
};

/*
 * The first step.  1: nothing has begun, and the operation may be tried.  0: it has waited, and may
 * be tried again.  Anything else is the function's answer.  A fresh operation lets other tasks run
 * first if many others have ended at once in this poll.
 */
int attempt_begin(struct attempt *attempt);

/*
 * The try would block: begins to wait for these events.  Answers -EAGAIN, what interrupts the task,
 * or an error of the kind.
 */
int attempt_wait(struct attempt *attempt, unsigned events);

/* Lets other tasks run before the next try.  Answers -EAGAIN, or what interrupts the task. */
int attempt_yield(struct attempt *attempt);

/* The operation is over, with this answer.  The stream may be gone afterwards. */
int attempt_end(struct attempt *attempt, int answer);

/* Tells the kind what is waited for, if that has changed.  Wanting less cannot fail. */
int stream_tell_kind(struct orr_stream *stream);

/* Cancels the dependent task: some of the fatal events are there. */
void stream_lost(struct orr_stream *stream, unsigned events);

/* orr_stream_ready(), on whatever thread collects events of the worker. */
void stream_ready(struct orr_stream *stream, unsigned events);

/* Withdraws a wait from its slot.  For the wait kinds of operations. */
void stream_withdraw(struct orr_wait *wait, bool granted);

/* Writes "DOING KIND ADDRESS" about a stream, such as "a read from tcp 127.0.0.1:80". */
void stream_describe_wait(const struct orr_stream *stream, const char *doing, char *text, size_t size);

/* Counts an operation that ended at once, and the bytes that it moved. */
void spree_spend(struct worker *worker, size_t bytes);

/* Whether so much has ended at once in this poll that other tasks should run. */
bool spree_is_over(const struct worker *worker);

/* --- Tries ------------------------------------------------------------------------------------ */

/* Bytes in one call of a kind, at most: a call must not take long. */
enum { STREAM_AT_ONCE = 256 * 1024 };

/* Reads from the kind: bytes, 0 at the end, -EAGAIN, or an error.  The end and errors are kept. */
ssize_t stream_try_read(struct orr_stream *stream, void *buffer, size_t size);

/* Appends to the input what the stream has now, so that it holds at most `most` bytes.  0 if some
 * came, -EAGAIN, -ENODATA at the end, or an error, which is kept if it is the kind's. */
int stream_try_fill(struct orr_stream *stream, size_t least, size_t most);

/*
 * Keeps an error of the kind in `*kept`, one of the two of the stream.  Who waits for the loss of
 * the peer hears of it: the call that got the error may have taken the kernel's only news of it.
 */
void stream_keep_error(struct orr_stream *stream, int16_t *kept, int error);

/* The input is at its end: remembers that, and tells those who wait for it. */
void stream_keep_end(struct orr_stream *stream);

/* Writes some bytes now: how many, -EAGAIN, or an error, which is kept. */
ssize_t stream_try_write(struct orr_stream *stream, const struct iovec *parts, int count);

/* Whether all that was written has gone out: 0, -EAGAIN, or an error, which is kept. */
int stream_try_flush(struct orr_stream *stream);

#endif
