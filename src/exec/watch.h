/*
 * The watch of a worker: tells when something that the worker's thread does takes too long, from inside, by a signal.
 *
 * What is watched is a *slice*, from watch_begin() to watch_end().  A slice costs two stores; the kernel's timer, one-shot and directed
 * at the thread itself, is set only if it is not set already, and so at most once a period, however many slices that has.  Its
 * handler compares: if it finds the slice in which it was set, that has lasted a whole period, and `over` is called; if it finds a
 * later one, it sets the timer anew for that; if it finds none, it does nothing.  So a slice is interrupted after one period at
 * the earliest, two at the latest; after watch_renew(), after one; and at the end of a turn that has one.
 *
 * A slice that goes on after `over` was called is told again, after another period, then after two, four and so on up to
 * WATCH_REPEAT_MAX: what `over` asks for can get lost in what it interrupts, and must not get lost for good.
 *
 * The handler runs on the worker's thread, between any two instructions of what it interrupts.  It touches nothing but the watch,
 * and `over` must be as careful.  Watches live in a table for the whole life of the process, so a signal that comes late finds
 * one; and one that reaches a thread which does not drive the worker any more goes away.
 *
 * Without a timer, a slice is not interrupted, and whoever begins one is to see to its end by other means: watch_failed() says so after
 * watch_begin() and watch_set().  A timer that can no longer be set while a slice goes on makes the handler call `over` at once, and
 * the next slice finds out.  It is tried again, at most once in a tick of the kernel's clock.
 *
 * A watch may be *careful*: then the sentinel (sentinel.h) sends the signal, and only while the thread runs, so that system calls in the
 * middle of a slice are not interrupted.  What is said of the timer here holds then, too, but for a little time.
 *
 * The handler is installed once for each signal and stays.  Signals that are not from our timers go on to the handler that
 * was there before.  A host that puts its own in place later, between turns, or blocks the signal in its thread, is noticed whenever the timer is set, and,
 * since one that is set already would go astray, when it turns.  To ask the kernel costs as much as ten short calls: so between turns, when the host calls into
 * Lua, it is asked once in a tick of its clock (1 to 10 ms).  What may not be interrupted is thus a call, before the next turn, in the very
 * tick in which another call had the timer set and the host then its handler.
 */
#ifndef ORR_EXEC_WATCH_H
#define ORR_EXEC_WATCH_H

#include "exec/sentinel.h"
#include "orrery.h"

#include <time.h>

struct log;

typedef void watch_fn(void *data); /* in a signal handler; again and again while the slice goes on */

enum { WATCH_REPEAT_MAX = 64 }; /* periods between two calls of it for the same slice */

#define WATCH_NO_END (ORR_NEVER - 1) /* a timer that is not set is later still */

struct watch {
    watch_fn *over;
    _Atomic(void *) volatile data;       /* of the slice; NULL outside one.  The sentinel looks whether it is */
    volatile uint64_t slice;             /* its number */
    uint64_t slices;                     /* so far */
    uint64_t set_in;                     /* the slice in which the timer was set, */
    uint64_t set_at;                     /* and when */
    _Atomic(uint64_t) volatile fires_at; /* ORR_NEVER while it is not set, or only to repeat */
    volatile uint64_t ticks;             /* signals so far: while Lua runs, about one in a period */
    uint64_t repeats_after;              /* the last call of `over`, in nanoseconds; 0 before the first */
    uint64_t turn_began;                 /* the worker's turn; 0 for one without an end */
    uint64_t turn_end;                   /* of it; WATCH_NO_END */
    uint64_t period;
    uint64_t looked_at;       /* in which tick of the kernel's, whether the handler is still ours */
    volatile uint64_t thread; /* whose timer it is; 0 for none, and then slices are not interrupted */
    timer_t timer;
    int signal;
    bool created; /* the timer, and it is to be deleted */
    bool careful; /* there is none, but the sentinel's */
    struct sentinel_ward ward;
    const char *failed_call; /* why slices are not interrupted; NULL while they are */
    int error;               /* of that call */
    uint64_t failed_at;      /* in which tick of the kernel's it was tried last, */
    uint64_t failed_thread;  /* and by whom */
    const char *told;        /* the call whose failure the log was told of last */
    const struct log *log;
};

/* The number of the calling thread, unlike any other's, ever. */
uint64_t watch_thread(void);

/* The watch of the worker in a place. */
struct watch *watch_open(unsigned place, int signal, const struct log *log);
void watch_close(struct watch *watch);

/* The thread has been elsewhere: if the signal would not come to us any more, the timer that may be set does not count. */
void watch_return(struct watch *watch);

/* The same, for a visit that may be short: at most once in a tick of the kernel's clock. */
void watch_visit(struct watch *watch);

/* Whether the slice that was begun is not interrupted. */
static inline bool watch_failed(const struct watch *watch)
{
    return !watch->thread;
}

/* Why the slice that was begun is not interrupted: the call that failed, and its errno.  NULL if it is interrupted. */
static inline const char *watch_failed_call(const struct watch *watch, int *error)
{
    *error = watch->error;
    return watch->failed_call;
}

/* When the timer of the slice under way was set; 0 if it was set in an earlier slice. */
static inline uint64_t watch_timer_set_at(const struct watch *watch)
{
    return watch->slice == watch->set_in ? watch->set_at : 0;
}

/* When the worker's turn began; 0 for one without an end. */
static inline uint64_t watch_turn_began(const struct watch *watch)
{
    return watch->turn_began;
}

/* When the worker's turn is to end; WATCH_NO_END for never. */
static inline uint64_t watch_turn_end(const struct watch *watch)
{
    return watch->turn_end;
}

/* The calling thread drives the worker from now on: the timer is to be its own. */
void watch_move(struct watch *watch);

/*
 * From now on, the thread gets no signal while it sleeps, if that can be had.  The worker's thread; what it can be called for is whatever may
 * sleep in a slice.
 */
void watch_be_careful(struct watch *watch);

/* Sets the timer for the slice that has begun, at most `longest_ns` from now. */
void watch_set(struct watch *watch, uint64_t longest_ns);

/* The timer is to be set anew when the next slice begins, which then is interrupted after one period. */
static inline void watch_renew(struct watch *watch)
{
    atomic_store_explicit(&watch->fires_at, ORR_NEVER, memory_order_relaxed);
}

extern _Thread_local uint64_t watch_thread_number __attribute__((tls_model("initial-exec")));

/* Relaxed: the handler is on the same thread, and the sentinel only wants to know what is likely.  Volatile, as what the handler reads. */
static inline void *watch_data(const struct watch *watch)
{
    return atomic_load_explicit(&watch->data, memory_order_relaxed);
}

static inline void watch_set_data(struct watch *watch, void *data)
{
    atomic_store_explicit(&watch->data, data, memory_order_relaxed);
}

/* What was watched before; for watch_end(). */
struct watch_outer {
    void *data;
    uint64_t slice, period;
};

/* What is watched from now on, for at most `period` at a stretch.  The thread comes first: see the handler. */
static inline void watch_begin(struct watch *watch, struct watch_outer *outer, watch_fn *over, void *data,
                               uint64_t period)
{
    *outer = (struct watch_outer){ watch_data(watch), watch->slice, watch->period };
    bool sooner = period < watch->period;
    if (!watch->thread || watch->thread != watch_thread_number)
        watch_move(watch);
    watch->over = over;
    watch->period = period;
    watch->slice = ++watch->slices;
    watch_set_data(watch, data);
    if (atomic_load_explicit(&watch->fires_at, memory_order_relaxed) > watch->turn_end || sooner)
        watch_set(watch, period);
}

static inline void watch_end(struct watch *watch, const struct watch_outer *outer)
{
    watch_set_data(watch, outer->data);
    if (outer->data) {
        watch->slice = outer->slice;
        watch->period = outer->period;
    }
}

#endif
