/*
 * Tasks that do one operation on a stream, listener or datagram socket, and keep its result; and an
 * account that counts, with limits of the test's choice.
 */
#ifndef ORR_TESTS_IO_TASK_H
#define ORR_TESTS_IO_TASK_H

#include "harness.h"

#include <errno.h>

enum operation {
    DO_READ,
    DO_FILL,
    DO_WRITE,
    DO_SHUTDOWN,
    DO_LOSS,
    DO_ACCEPT,
    DO_CONNECT,
    DO_SEND,
    DO_RECEIVE,
    DO_COPY,
    DO_FINISH,
    DO_SLEEP, /* for a millisecond */
};

enum { IO_TASK_BYTES = 64 * 1024 };

struct io_task {
    enum operation operation;
    struct orr_stream *stream, *to; /* accept and connect store their stream here */
    struct orr_listener *listener;
    struct orr_datagram *datagram;
    struct orr_address address;
    const struct orr_open *open;
    char *bytes;        /* to write, or room of IO_TASK_BYTES to read */
    size_t size;        /* how many */
    size_t least, most; /* to fill */
    unsigned events;    /* to wait for, of a loss */
    struct orr_message message;
    bool hasty;          /* first uses up what may end at once in one poll: it has to yield */
    bool naps;           /* sleeps for ever before it begins, until it is interrupted */
    uint64_t time_limit; /* of a scope around all of it; 0 for none */

    int result; /* once it is done */
    size_t got;
    bool done;
    unsigned polls;
    int step;
    struct orr_wait wait;
    struct orr_scope scope;
    struct orr_copy copy;
    struct orr_task *task; /* the test's reference, until io_task_end() */
};

/* Starts the task; the calling thread has entered the runtime. */
void io_task_start(struct orr_runtime *rt, struct io_task *self);

/* Gives up the reference.  The task is done. */
void io_task_end(struct io_task *self);

/* Turns until `*flag` is set.  The calling thread has entered the runtime. */
void io_turn_until(struct orr_runtime *rt, const bool *flag);

/* Turns until nothing is ready, and what the kernel has by then was seen. */
void io_settle(struct orr_runtime *rt);

/* Starts the task, turns until it is done, and returns its result. */
int io_task_run(struct orr_runtime *rt, struct io_task *self);

/* Simple operations, to their end. */
int io_read(struct orr_runtime *rt, struct orr_stream *stream, void *bytes, size_t size, size_t *got);
int io_write(struct orr_runtime *rt, struct orr_stream *stream, const char *text);

/* An address from text; fails the test if it is none. */
struct orr_address io_address(const char *text);

/* What the kernel is asked to hold for a stream in each direction; it takes twice that. */
enum { IO_TASK_KERNEL_BUFFER = 128 * 1024 };

/*
 * A connected pair of streams over TCP on loopback; the first one has connected. The kernel holds
 * less than a megabyte of what nobody reads.
 */
void io_tcp_pair(struct orr_runtime *rt, const struct orr_open *open, struct orr_stream *ends[2]);

/* An account that counts. */
struct io_account {
    long long bytes; /* charged now */
    long long most;  /* charge refuses more; 0 for no limit */
    int error;       /* with this */
};

extern struct io_account io_counted;
extern const struct orr_account io_account;

/* A runtime on the reactor under test that the calling thread has entered, and its end. */
struct orr_runtime *io_open(void);
struct orr_runtime *io_open_on(enum orr_clock clock);

/*
 * On a manual clock, which io_turn_until() moves in small steps while there is nothing else to do.
 */
struct orr_runtime *io_open_manual(void);
void io_close(struct orr_runtime *rt);

#endif
