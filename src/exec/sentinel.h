/*
 * The sentinel: a thread of the process that sends a signal to other threads, later, and only while
 * they run.
 *
 * A timer of the kernel's sends its signal when it is due, also to a thread that sleeps in a system
 * call; and poll(2), epoll_wait(2), nanosleep(2) and others fail with EINTR then, whatever
 * SA_RESTART says.  C libraries that scripts have loaded need not expect that. So for threads that
 * may sleep in the middle of Lua, the timer wakes the sentinel instead, which asks the kernel
 * twice, a moment apart, whether the thread runs, or would if it had a processor, and what its CPU
 * clock says.  A thread that runs, and got something done between the two, gets the signal.  If it
 * sleeps, the sentinel looks again, for as long as the thread is busy with what the signal is for;
 * first soon, then once in a millisecond.
 *
 * A thread that is not busy gets no signal at all, and is told that it has to set the timer again
 * when it is: `set` becomes SENTINEL_UNSET. The thread, which makes itself busy and then looks at
 * `set`, pays nothing for that: the sentinel, which writes `set` and then looks whether the thread
 * is busy, has the kernel put a barrier into all threads between the two (membarrier(2)).  So
 * either the thread sees that the timer is not set, or the sentinel sees that the thread is busy,
 * and looks on.
 *
 * All that is a little late, by the time between two looks, and costs a second thread: so it is
 * done only where it is needed.  A thread that goes to sleep in the microseconds between the look
 * and the signal still gets EINTR.
 *
 * There is one sentinel, from when the first is needed to the end of the process.  It blocks all
 * signals.
 */
#ifndef ORR_EXEC_SENTINEL_H
#define ORR_EXEC_SENTINEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SENTINEL_UNSET UINT64_MAX

/*
 * A thread that gets a signal.  It lives for as long as the process does: the sentinel may look at
 * it at any time.
 */
struct sentinel_ward {
    int timer;                       /* a timerfd, which wakes the sentinel; -1 for none */
    int signal;                      /* with the ward's address as its value, and SI_QUEUE */
    _Atomic(pid_t) thread;           /* in the kernel's numbers; 0 for nobody, and then no signal is sent */
    _Atomic(int) clock;              /* its CPU clock */
    _Atomic(void *) volatile *busy;  /* NULL there while the thread is not */
    _Atomic(uint64_t) volatile *set; /* when the timer is due; SENTINEL_UNSET if nobody counts on it */
    /* The sentinel's own. */
    struct sentinel_ward *next; /* of those that it looks at */
    bool looking;
    bool awake;                 /* at the last look */
    uint64_t seen_at, seen_cpu; /* when it was found awake, and what its clock said then */
    uint64_t pause, look_at;
    int state;      /* the file that tells what a thread does, */
    pid_t state_of; /* this one; 0 for none */
};

/* Puts a ward under the sentinel, which is started if there is none.  Negative errno. */
int sentinel_open(struct sentinel_ward *ward, int signal, _Atomic(void *) volatile *busy,
                  _Atomic(uint64_t) volatile *set);
void sentinel_close(struct sentinel_ward *ward);

/* The calling thread gets the signals from now on. */
void sentinel_move(struct sentinel_ward *ward);

/*
 * Has the signal sent after so many nanoseconds, and not before; what was set before does not
 * count.  Async-signal-safe.  Negative errno.
 */
int sentinel_set(struct sentinel_ward *ward, uint64_t after);

#endif
