/*
 * The watch of a worker: interrupts the worker's thread, by a signal, when a piece of its work
 * takes too long.
 *
 * What is watched is a *slice*, from watch_begin() to watch_end().  A slice costs two stores.  The
 * kernel's timer is directed at the thread itself.  It is set only if it is not set already, so at
 * most once in a period, however many slices the period has.  The signal handler compares.  If it
 * finds the slice in which the timer was set, that slice has lasted a whole period, and `over` is
 * called.  If it finds a later slice, it sets the timer again for that one.  If it finds none, it
 * does nothing.  So a slice is interrupted after one period at the earliest (7/8 of one while the
 * timer ticks: see below) and two at the latest; and at the end of a turn that has an end.
 *
 * Ticking.  Setting the kernel's timer takes long on virtual machines: 5 to 10 us.  So when a slice
 * has lasted a period, and its turn has no end, the timer becomes periodic.  While it ticks, a
 * slice takes the next tick for its own, if that is not less than 7/8 of a period away.  Ticks come
 * at multiples of the period by the clock: many of the kernel's own ticks do, too, and then one
 * interrupt serves both.  A tick that finds no slice stops the ticking.  So where slices follow one
 * another without a pause, none of them sets the timer.
 *
 * For a slice that goes on after `over` was called, `over` is called again after one or two
 * periods, then after two, four and so on up to WATCH_REPEAT_MAX: the request that `over` makes can
 * get lost in the code that it interrupts, and must not get lost for good.
 *
 * The handler runs on the worker's thread, between any two instructions.  It touches nothing but
 * the watch, and `over` must be as careful.  Watches live in a table for the whole life of the
 * process, so a late signal still finds its watch.  A signal that reaches a thread which does not
 * drive the worker any more is ignored.
 *
 * Without a timer, a slice is not interrupted, and the code that begins it must end it by other
 * means: watch_failed() says so after watch_begin() and watch_set().  If the timer can no longer be
 * set while a slice goes on, the handler calls `over` at once, and the next slice finds out.  The
 * timer is tried again at most once in a tick of the kernel's clock.
 *
 * A watch may be *careful*: then the sentinel (sentinel.h) sends the signal, and only while the
 * thread runs, so that system calls in the middle of a slice are not interrupted.  Everything above
 * holds then, too, only a little later.
 *
 * The handler is installed once for each signal and stays.  Signals that are not from our timers go
 * on to the handler that was there before.  A host may install its own handler later, between
 * turns, or block the signal in its thread.  That is noticed whenever the timer is set, and in each
 * turn, since a timer that is set already would be lost.  Asking the kernel costs as much as ten
 * short calls; so between turns, when the host calls into Lua, it is asked once in a tick of the
 * kernel's clock (1 to 10 ms).  Reading that clock costs a good part of a short call, too; so calls
 * that follow one another in one tick read it less and less often.  So one kind of call may go
 * uninterrupted: a call before the next turn, after an earlier call set the timer and the host then
 * replaced the handler; either in that very tick, or as one of the next WATCH_VISITS_MAX calls, if
 * as many calls were made in that tick before.
 */
#ifndef ORR_EXEC_WATCH_H
#define ORR_EXEC_WATCH_H

#include "exec/sentinel.h"
#include "orrery.h"

#include <time.h>

struct log;

/* Called in a signal handler; again and again while the slice goes on. */
typedef void watch_fn(void *data);

enum { WATCH_REPEAT_MAX = 64 }; /* periods between two calls of `over` for the same slice */
enum { WATCH_VISITS_MAX = 64 }; /* short visits between two looks at the clock */

#define WATCH_NO_THREAD UINT64_MAX   /* not 0, the number of a thread that has got none yet */
#define WATCH_NO_END (ORR_NEVER - 1) /* later than any deadline, earlier than an unset timer */

struct watch {
    watch_fn *over;
    _Atomic(void *) volatile data; /* the slice's; NULL outside one; the sentinel reads it */
    volatile uint64_t slice;       /* number of the slice under way */
    uint64_t slices;               /* slices so far */
    uint64_t set_in;               /* the slice in which the timer was set */
    uint64_t set_at;               /* when it was set */
    /* ORR_NEVER while the timer is not set, or only to repeat */
    _Atomic(uint64_t) volatile fires_at;
    volatile uint64_t ticks; /* signals so far: about one in a period while Lua runs */
    /* Nanoseconds to the next call of `over`; 0 before the first. */
    uint64_t repeats_after;
    /* When the timer ticks next, if it ticks; and the time between two ticks, 0 if it does not. */
    uint64_t ticks_at, ticks_apart;
    /* When the worker's turn began; 0 for one without an end. */
    uint64_t turn_began;
    uint64_t turn_end; /* when that turn ends; WATCH_NO_END */
    uint64_t period;
    uint64_t looked_at;    /* the kernel's tick of the last check of the handler */
    unsigned visits_left;  /* until the next look at the clock; at least 1 */
    unsigned visits_apart; /* visits between the last two looks */
    /* The thread that the timer is for; WATCH_NO_THREAD: slices are not interrupted. */
    volatile uint64_t thread;
    timer_t timer;
    int signal;
    bool created; /* the timer exists and must be deleted */
    bool careful; /* the sentinel's timer is used in its place */
    struct sentinel_ward ward;
    const char *failed_call; /* the call because of which slices are not interrupted; or NULL */
    int error;               /* its errno */
    uint64_t failed_at;      /* the kernel's tick of the last try */
    uint64_t failed_thread;  /* the thread of the last try */
    const char *told;        /* the call whose failure was logged last */
    const struct log *log;
};

/* A number for the calling thread that no other thread ever has. */
uint64_t watch_thread(void);

/* The watch of the worker that holds waker table number `table`. */
struct watch *watch_open(unsigned table, int signal, const struct log *log);
void watch_close(struct watch *watch);

/*
 * The host has run since the last turn.  If the signal would not reach our handler any more, a
 * timer that is set does not count.
 */
void watch_return(struct watch *watch);

/* Checks the handler as watch_return() does, at most once in a tick of the kernel's clock. */
void watch_visit(struct watch *watch);

/* Does what watch_visit_often() does rarely. */
void watch_visit_in_turn(struct watch *watch);

/*
 * Checks the handler as watch_visit() does, but reads the clock only once in several visits.  That
 * number doubles, up to WATCH_VISITS_MAX, while the clock shows that they came in one tick.
 */
static inline void watch_visit_often(struct watch *watch)
{
    if (!--watch->visits_left)
        watch_visit_in_turn(watch);
}

/* Whether slices are not interrupted, for lack of a timer. */
static inline bool watch_failed(const struct watch *watch)
{
    return watch->thread == WATCH_NO_THREAD;
}

/*
 * Why the slice that was begun is not interrupted: the call that failed, and its errno.  NULL if it
 * is interrupted.
 */
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

/* The calling thread drives the worker from now on, and gets the timer. */
void watch_move(struct watch *watch);

/*
 * From now on the thread gets no signal while it sleeps, if the sentinel can be started.  For code
 * that may sleep in a slice.  The worker's owner.
 */
void watch_be_careful(struct watch *watch);

/* Sets the timer for the slice under way, at most `longest_ns` from now. */
void watch_set(struct watch *watch, uint64_t longest_ns);

/* Has the next slice set the timer, or wait for the next tick. */
static inline void watch_renew(struct watch *watch)
{
    atomic_store_explicit(&watch->fires_at, ORR_NEVER, memory_order_relaxed);
}

extern _Thread_local uint64_t watch_thread_number __attribute__((tls_model("initial-exec")));

/*
 * Relaxed: the handler runs on the same thread, and the sentinel only wants a hint.  Volatile,
 * since the handler reads it between any two instructions.
 */
static inline void *watch_data(const struct watch *watch)
{
    return atomic_load_explicit(&watch->data, memory_order_relaxed);
}

static inline void watch_set_data(struct watch *watch, void *data)
{
    atomic_store_explicit(&watch->data, data, memory_order_relaxed);
}

/* The slice around this one, for watch_end(). */
struct watch_outer {
    void *data;             /* NULL if there is none */
    uint64_t slice, period; /* only if there is one */
};

/* Begins a slice of at most `period` at a stretch.  Sets the thread first: see the handler. */
static inline void watch_begin(struct watch *watch, struct watch_outer *outer, watch_fn *over, void *data,
                               uint64_t period)
{
    outer->data = watch_data(watch);
    if (outer->data) {
        outer->slice = watch->slice;
        outer->period = watch->period;
    }
    bool sooner = period < watch->period;
    if (watch->thread != watch_thread_number)
        watch_move(watch);
    watch->over = over;
    watch->period = period;
    watch->slice = ++watch->slices;
    watch_set_data(watch, data);
    if (atomic_load_explicit(&watch->fires_at, memory_order_relaxed) > watch->turn_end || sooner)
        watch_set(watch, period);
}

/*
 * Begins a slice as watch_begin() does, while none is under way, if the last one was like it and
 * the timer is set.  If false, the caller calls watch_begin(), with the same `over` as ever.
 */
static inline bool watch_begin_again(struct watch *watch, void *data, uint64_t period)
{
    if (watch->thread != watch_thread_number || watch->period != period)
        return false;
    watch->slice = ++watch->slices;
    watch_set_data(watch, data);
    bool set = atomic_load_explicit(&watch->fires_at, memory_order_relaxed) <= watch->turn_end;
    if (!set)
        watch_set_data(watch, NULL);
    return set;
}

/* Ends a slice that is inside no other. */
static inline void watch_end_alone(struct watch *watch)
{
    watch_set_data(watch, NULL);
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
