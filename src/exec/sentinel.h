/*
 * The sentinel: a thread of the process that sends a signal to other threads, later, and only while
 * they run.
 *
 * A kernel timer sends its signal when it is due, also to a thread that sleeps in a system call;
 * then poll(2), epoll_wait(2), nanosleep(2) and others fail with EINTR, whatever SA_RESTART says.
 * C libraries that scripts have loaded need not expect that.  So for threads that may sleep in the
 * middle of Lua, the timer wakes the sentinel instead.  The sentinel asks the kernel twice, a
 * moment apart, whether the thread runs, or would run if it had a processor, and what its CPU clock
 * says.  A thread that runs, and got something done between the two looks, gets the signal.  While
 * it sleeps, the sentinel looks again, for as long as the thread is busy with what the signal is
 * for; first soon, then once in a millisecond.
 *
 * A thread that is not busy gets no signal, and must set the timer again when it is busy: `set`
 * becomes SENTINEL_UNSET.  The thread makes itself busy, then reads `set`, and pays nothing for the
 * order of the two: the sentinel writes `set`, has the kernel put a barrier into all threads
 * (membarrier(2)), and then looks whether the thread is busy.  So either the thread sees that the
 * timer is not set, or the sentinel sees that the thread is busy, and keeps looking.
 *
 * All that comes a little late, by the time between two looks, and costs a second thread; so it is
 * done only where it is needed.  A thread that goes to sleep in the microseconds between the look
 * and the signal still gets EINTR.
 *
 * There is one sentinel, from the first use to the end of the process.  It blocks all signals.
 */
#ifndef ORR_EXEC_SENTINEL_H
#define ORR_EXEC_SENTINEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SENTINEL_UNSET UINT64_MAX

/*
 * A thread that gets a signal.  A ward lives as long as the process: the sentinel may look at it at
 * any time.
 */
struct sentinel_ward {
    int timer;                       /* a timerfd, which wakes the sentinel; -1 for none */
    int signal;                      /* sent with the ward's address as value, and SI_QUEUE */
    _Atomic(pid_t) thread;           /* the kernel's number; 0: no signal is sent */
    _Atomic(int) clock;              /* its CPU clock */
    _Atomic(void *) volatile *busy;  /* points at NULL while the thread is not busy */
    _Atomic(uint64_t) volatile *set; /* when the timer is due; SENTINEL_UNSET for never */
    /* Only the sentinel touches these. */
    struct sentinel_ward *next; /* in the list of wards that it looks at */
    bool looking;
    bool awake;                 /* the thread was awake at the last look */
    uint64_t seen_at, seen_cpu; /* when it was found awake, and its CPU clock then */
    uint64_t pause, look_at;
    int state;      /* the kernel's file about the thread `state_of` */
    pid_t state_of; /* 0 for none */
};

/* Puts a ward under the sentinel, and starts the sentinel if there is none.  Negative errno. */
int sentinel_open(struct sentinel_ward *ward, int signal, _Atomic(void *) volatile *busy,
                  _Atomic(uint64_t) volatile *set);
void sentinel_close(struct sentinel_ward *ward);

/* The calling thread gets the signals from now on. */
void sentinel_move(struct sentinel_ward *ward);

/*
 * Has the signal sent after `after` nanoseconds, and not before; replaces what was set before.
 * Async-signal-safe.  Negative errno.
 */
int sentinel_set(struct sentinel_ward *ward, uint64_t after);

#endif
