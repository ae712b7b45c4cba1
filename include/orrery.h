/*
 * orrery.h: run concurrent, structured work inside any program, without ever freezing it.
 *
 * SPDX-License-Identifier: MIT
 *
 * This is the whole public C API.  A minimal host:
 *
 *     struct orr_runtime *rt = orr_runtime_new(NULL);
 *     orr_spawn(rt, &(struct orr_spawn){ .poll = my_poll, .data = my_data });
 *     orr_runtime_run(rt);
 *     orr_runtime_free(rt);
 *
 * Conventions
 *
 *   - Functions that can fail return a negative errno, and name here each one they return.  Only
 *     orr_runtime_new() returns a pointer; it answers NULL and sets errno.
 *   - Times are nanoseconds, of CLOCK_MONOTONIC unless the runtime was given another clock.
 *   - "Any thread" means any thread of the process at any time while the runtime exists.  "The worker's
 *     thread" means from inside a poll function, a destructor or a timer's callback that runs on that worker.
 *   - Options and descriptions are passed as structs made with designated initialisers.  A field left out
 *     is zero, and zero always means the default.
 *   - After fork() without exec(), a runtime may not be used in the child.
 */
#ifndef ORRERY_H
#define ORRERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORR_API __attribute__((visibility("default")))

#define ORR_VERSION_MAJOR 0
#define ORR_VERSION_MINOR 1
#define ORR_VERSION_PATCH 0

/* The version of the library that is running, as "major.minor.patch".  Any thread, signal handlers too. */
ORR_API const char *orr_version(void);

/* A point in time that never comes, and an amount of time without end. */
#define ORR_NEVER UINT64_MAX

struct orr_runtime;
struct orr_task;

/* ------------------------------------------------------------------------------------------------------
 * Wakers
 *
 * A waker names one task, for ever.  It is a value: copy it by assignment, store it anywhere, forget it
 * when you like.  When the task is done, when another task lives in its place, when its runtime is gone,
 * a waker does nothing, quietly.  The zero value names nobody.
 */
struct orr_waker {
    uint64_t bits;
};

/*
 * Have the task polled again, soon.  However many wakers fire before that poll, it is one poll.  All that
 * the caller wrote before the call is visible to the poll.  Any thread, but not a signal handler.
 */
ORR_API void orr_waker_wake(struct orr_waker waker);

/* The same, from a signal handler: it may interrupt anything, the library included.  Keeps errno. */
ORR_API void orr_waker_wake_signal(struct orr_waker waker);

/* ------------------------------------------------------------------------------------------------------
 * Runtimes
 *
 * A runtime is a set of workers, numbered from 1.  Worker 1 has no thread: the host drives it, by turns
 * from a loop of its own or by orr_runtime_run().  The others have a thread each.  A process may have any
 * number of runtimes; together they may have ORR_WORKERS_MAX workers.
 */
#define ORR_WORKERS_MAX 1000
#define ORR_TASKS_MAX 4194240
#define ORR_TASKS_DEFAULT 1048576

enum orr_reactor {
    ORR_REACTOR_AUTO, /* io_uring where the kernel allows it, else epoll, with one log line */
    ORR_REACTOR_URING,
    ORR_REACTOR_EPOLL,
};

enum orr_clock {
    ORR_CLOCK_MONOTONIC, /* CLOCK_MONOTONIC: never goes back, stands still while the machine is suspended */
    ORR_CLOCK_VIRTUAL,   /* stands still while anything is ready or under way, then jumps to the next deadline */
    ORR_CLOCK_MANUAL,    /* moves only by orr_runtime_advance() */
};

/* "auto", "uring", "epoll"; NULL for anything else. */
ORR_API const char *orr_reactor_name(enum orr_reactor reactor);

enum orr_log {
    ORR_LOG_ERROR,
    ORR_LOG_WARNING,
    ORR_LOG_INFO,
};

/*
 * Called like lua_Alloc: `size` 0 frees `block` and answers NULL; else it answers a block of `size` bytes,
 * moved from `block` if that is not NULL, or NULL when it cannot.  Must be thread-safe if there is more than one
 * worker, or if other threads spawn tasks or use timers, and outlive the last timer.  Everything goes through it except what a waker may touch after the runtime is gone
 * (16 bytes for each task that a worker ever had at once, and one eventfd a worker), which the process
 * keeps and uses again, and what libc and the kernel take for threads and rings.
 */
typedef void *orr_alloc_fn(void *data, void *block, size_t old_size, size_t size);

/* Receives one line, without a newline, from whichever thread has something to say. */
typedef void orr_log_fn(void *data, enum orr_log level, const char *message);

struct orr_options {
    unsigned workers;         /* 1 to ORR_WORKERS_MAX; default 1 */
    unsigned max_tasks;       /* live tasks a worker, 1 to ORR_TASKS_MAX; default ORR_TASKS_DEFAULT */
    enum orr_reactor reactor; /* default ORR_REACTOR_AUTO */
    enum orr_clock clock;     /* default ORR_CLOCK_MONOTONIC */
    int spin_us;              /* look for work so long before sleeping; default 0 on machines with fewer
                                 than four cores, else 20; -1 for never; at most 1000 */
    orr_alloc_fn *alloc;      /* default: realloc and free */
    void *alloc_data;
    orr_log_fn *log; /* default: errors and warnings to stderr */
    void *log_data;
};

/*
 * Make a runtime and start the threads of workers 2 and up.  `options` may be NULL, and is not kept.
 * NULL on failure, with errno and a line to the log that says what was wrong:
 *   EINVAL   an option is out of its range
 *   ENOMEM, EMFILE, ENFILE, EAGAIN   no memory, no descriptors, no threads
 *   ENOSYS, EPERM   ORR_REACTOR_URING was asked for and the kernel has it not, or forbids it
 *   ENOSPC   the process has ORR_WORKERS_MAX workers already, or watches as many descriptors as its user may
 * Any thread.
 */
ORR_API struct orr_runtime *orr_runtime_new(const struct orr_options *options);

/*
 * Stop, end every task that is left, and free everything.  Each task's destructor runs once: on its
 * worker's thread, and for worker 1 on the caller's.  Other threads may go on using wakers and timers; nothing else
 * of this runtime may be used once the call has begun.  NULL is allowed and does nothing.
 *   -EINVAL   not a runtime
 *   -EBUSY    a turn is under way (called from inside a poll function, or another thread drives it now);
 *             nothing was done
 */
ORR_API int orr_runtime_free(struct orr_runtime *rt);

/*
 * Drive worker 1 until no worker has a task or a timer left, or until orr_runtime_stop().  Sleeps when there is
 * nothing to do.  Answers 0 when all is done; it may be called again, after more was spawned.
 *   -EINVAL      not a runtime
 *   -EBUSY       a turn is under way already
 *   -ECANCELED   stopped
 */
ORR_API int orr_runtime_run(struct orr_runtime *rt);

/*
 * Ask the runtime to stop, for good: workers 2 and up end their tasks and their threads,
 * orr_runtime_run() returns, orr_spawn() and orr_runtime_turn() answer -ESHUTDOWN.  What is left for
 * orr_runtime_free().  Any thread, and signal handlers.
 *   -EINVAL   not a runtime
 */
ORR_API int orr_runtime_stop(struct orr_runtime *rt);

/*
 * For hosts with a loop of their own: a descriptor that is readable while orr_runtime_turn() has something
 * to do: a task ready, a wake from another thread, finished I/O, a time that has come.  Watch it for input
 * (poll, epoll level-triggered, any main loop); do not read it.  It belongs to the runtime.  Always the
 * same answer.  Call it between turns, on the thread that drives them.
 *   -EINVAL, -EBUSY   as above
 *   -EMFILE, -ENFILE, -ENOMEM, -ENOSPC   no descriptor to be had, or none to be watched
 * With ORR_REACTOR_URING, finishing I/O may interrupt the host's own poll with EINTR, as a signal would.
 */
ORR_API int orr_runtime_fd(struct orr_runtime *rt);

/*
 * One turn of worker 1: collect what has finished, take in wakes, poll the tasks that are ready.  Never
 * blocks.  Polls at least one ready task, then goes on until none is ready, `budget_ns` is used up, or 256
 * were polled; a task that wakes itself is polled again in the next turn, not in this one.  Answers 1 if
 * there is more to do now, 0 if the host may sleep.  Turns may move from thread to thread, one at a time.
 *   -EINVAL      not a runtime
 *   -EBUSY       a turn is under way already, here or on another thread
 *   -ESHUTDOWN   stopped
 */
ORR_API int orr_runtime_turn(struct orr_runtime *rt, uint64_t budget_ns);

/*
 * When the host must turn next even if the descriptor stays silent: 0 for now, ORR_NEVER for not at all.
 * Call it between turns, on the thread that drives them.  ORR_NEVER for what is not a runtime.
 */
ORR_API uint64_t orr_runtime_next_deadline(struct orr_runtime *rt);

/* The time by the runtime's clock.  Any thread.  0 for what is not a runtime. */
ORR_API uint64_t orr_runtime_now(struct orr_runtime *rt);

/*
 * The time as a worker last read it, a load where the above reads the clock.  While a worker is in a long turn, the
 * time service keeps its reading fresh to about a millisecond, as long as somebody asks.  Two readings, or one and
 * orr_runtime_now(), may be out of order by as much.  Any thread.  0 for what is not a runtime, or no such worker.
 */
ORR_API uint64_t orr_worker_now(struct orr_runtime *rt, unsigned worker);

/*
 * Move a virtual or manual clock forward; timers that have become due fire in the next turns.  Any thread.
 *   -EINVAL   not a runtime
 *   -EPERM    its clock is the machine's
 */
ORR_API int orr_runtime_advance(struct orr_runtime *rt, uint64_t ns);

/*
 * End one worker other than the first, for good: its tasks are dropped on its thread, its timers go on elsewhere,
 * spawning on it answers -ESHUTDOWN.  Returns at once; the thread ends when its turn does.  Any thread.
 *   -EINVAL   not a runtime, no such worker, or worker 1, which the host ends by not driving it
 */
ORR_API int orr_worker_stop(struct orr_runtime *rt, unsigned worker);

struct orr_stats {
    uint64_t tasks_spawned;
    uint64_t tasks_live;
    uint64_t polls;
    uint64_t wakes_local;     /* by the worker's own thread, that made a task ready */
    uint64_t wakes_foreign;   /* by other threads, one for each entry in an inbox */
    uint64_t wakes_coalesced; /* by other threads, that found their task in the inbox already */
    uint64_t eventfd_writes;  /* to wake a worker that has I/O in flight, or a host that watches the descriptor */
    uint64_t futex_wakes;     /* to wake any other */
    uint64_t sleeps;
    uint64_t turns;

    uint64_t timers_pending;
    uint64_t timers_fired;
    uint64_t timers_cancelled;
    uint64_t timers_rearmed;
    uint64_t timers_migrated; /* left a worker that shut down */
    uint64_t timers_held;     /* of those, waiting for a worker that lives; only for all workers together */
    uint64_t timers_stale;    /* cancelled by another thread, not yet removed from the wheel */
    uint64_t timers_scrubbed; /* and removed since */
    uint64_t lateness_p50_ns; /* from a timer's deadline to its firing */
    uint64_t lateness_p99_ns;
    uint64_t lateness_max_ns;
    uint64_t service_wake_ups; /* of the time service; only for all workers together, as is its lag */
    uint64_t service_lag_ns;   /* the most by which one of its ticks was late */

    unsigned workers;
    enum orr_reactor reactor; /* the one in use, never AUTO; for all workers together, that of worker 1 */
};

/*
 * The counters of one worker, or of all together for worker 0.  Read one by one while the workers run, so
 * they need not add up to the last unit.  Any thread.
 *   -EINVAL   not a runtime, no such worker, or no place to write to
 */
ORR_API int orr_runtime_stats(struct orr_runtime *rt, unsigned worker, struct orr_stats *stats);

/* ------------------------------------------------------------------------------------------------------
 * Tasks
 *
 * A task is a function that is polled until it is done.  It is first polled soon after it is spawned, then
 * whenever somebody wakes it.  It may be polled without need, so it looks at what it waits for each time.
 * A task stays on its worker for life: its poll function and its destructor run on that worker's thread.
 */
enum orr_poll {
    ORR_DONE,    /* end the task: its destructor runs, its wakers do nothing from now on */
    ORR_PENDING, /* wait for a wake */
};

typedef enum orr_poll orr_poll_fn(struct orr_task *task, void *data);

#define ORR_HERE 0 /* the calling thread's worker; in plain code of the host, worker 1 */

struct orr_spawn {
    orr_poll_fn *poll;        /* required */
    void *data;               /* given to poll and drop */
    void (*drop)(void *data); /* runs once when the task ends, however it ends; may be NULL */
    unsigned worker;          /* a worker's number, or ORR_HERE */
    struct orr_waker *waker;  /* if not NULL, receives the new task's waker before orr_spawn() returns;
                                 only for tasks made on the calling thread's own worker */
};

/*
 * Make a task.  On failure nothing is kept and `drop` is not called.  Any thread.
 *   -EINVAL     not a runtime, no poll function, no such worker
 *   -EXDEV      `waker` was given, and the calling thread does not run that worker
 *   -EAGAIN     that worker has max_tasks tasks
 *   -ENOMEM
 *   -ESHUTDOWN  the runtime was stopped
 * A spawn on another worker, or from plain code of the host, is on its way when this returns.  Should that worker
 * then find no memory for it, the log is told and `drop` runs.
 */
ORR_API int orr_spawn(struct orr_runtime *rt, const struct orr_spawn *what);

/* The task's own waker; the zero waker for NULL, and for a task that is ending.  The worker's thread. */
ORR_API struct orr_waker orr_task_waker(const struct orr_task *task);

/* Wakes the task itself, for `return orr_task_yield(task);`: let the others go first, then go on. */
ORR_API enum orr_poll orr_task_yield(struct orr_task *task);

/* Where the task lives.  The worker's thread.  For NULL: NULL and 0. */
ORR_API struct orr_runtime *orr_task_runtime(const struct orr_task *task);
ORR_API unsigned orr_task_worker(const struct orr_task *task);

/*
 * End a task from outside its poll function: its destructor has run when this returns, unless I/O of it is
 * in flight; then the I/O is cancelled, and the destructor runs when the kernel has let go of the buffers.
 * The worker's thread.
 *   -ESRCH   it has finished already, or the waker names nobody
 *   -EPERM   it lives on another thread's worker
 *   -EBUSY   it is being polled now: let it return ORR_DONE
 */
ORR_API int orr_task_drop(struct orr_waker task);

/* ------------------------------------------------------------------------------------------------------
 * Timers
 *
 * A timer wakes a waker, or calls a function, at a time or from a time on.  Any thread may use it, unless it was made
 * local.  It never fires early.  It lives until orr_timer_free(), outlives its worker and its runtime, and goes on
 * elsewhere when the worker that held it shuts down: so a callback must not care which worker it runs on.
 */
struct orr_timer;

/*
 * `status` is 0 when the time has come, and -ECANCELED when the runtime ended first.  Runs on a worker's thread (at
 * the end, on the one that ends the runtime), outside any task, and never twice at once for one timer.  It may start,
 * cancel and free any timer, its own too.
 */
typedef void orr_timer_fn(struct orr_timer *timer, void *data, int status);

struct orr_timer_options {
    struct orr_waker waker; /* either this */
    orr_timer_fn *fire;     /* or this, with its data */
    void *data;
    bool local; /* used only on one worker's thread (in its tasks, destructors and callbacks), and so a little quicker;
                   it does not outlive that worker */
};

/*
 * Make a timer, not yet started.  Any thread.
 *   -EINVAL   not a runtime, NULL, neither a waker nor a function, or both
 *   -ENOMEM
 */
ORR_API int orr_timer_new(struct orr_runtime *rt, const struct orr_timer_options *options, struct orr_timer **timer);

/*
 * Start it, or start it anew, to fire after `delay` or at `deadline` of the runtime's clock, then every `repeat`
 * nanoseconds (0: once).  Repeats keep their rate: a late one does not put off the next, and those missed altogether
 * are skipped and counted.  A time in the past means the next turn.  It is held by the calling thread's worker, or
 * from other threads by the one with the fewest, worker 1 included whether the host drives it or not.  Timers with equal
 * deadlines, started on one worker's own thread, fire in the order started.
 *   -EINVAL      NULL, or freed while its callback runs
 *   -EPERM       it is local, and the calling thread runs no worker
 *   -ESHUTDOWN   the runtime, or for a local timer the worker, has ended
 */
ORR_API int orr_timer_start(struct orr_timer *timer, uint64_t delay, uint64_t repeat);
ORR_API int orr_timer_start_at(struct orr_timer *timer, uint64_t deadline, uint64_t repeat);

/* Start it anew, one `repeat` from now.  -EINVAL if it has none; else as above. */
ORR_API int orr_timer_again(struct orr_timer *timer);

enum orr_cancel {
    ORR_CANCELLED, /* it was to fire, and will not */
    ORR_TOO_LATE,  /* it has fired, or was cancelled or never started */
    ORR_RUNNING,   /* its callback runs at this moment; it will not be repeated */
};

/* Answers one of those, or -EINVAL for NULL.  It may be started again. */
ORR_API int orr_timer_cancel(struct orr_timer *timer);

/* Nanoseconds until it fires; 0 if it is due; ORR_NEVER if it is not started, or NULL. */
ORR_API uint64_t orr_timer_due_in(struct orr_timer *timer);

/* How many repeats were skipped because their time had passed. */
ORR_API uint64_t orr_timer_missed(struct orr_timer *timer);

/* Cancel it and give it up.  Its callback may be running; then it is gone when that returns.  NULL is allowed. */
ORR_API void orr_timer_free(struct orr_timer *timer);

/* ------------------------------------------------------------------------------------------------------
 * I/O for tasks
 *
 * A task starts an operation in its poll function, returns ORR_PENDING, and is woken when it has finished:
 *
 *     if (!s->started) {
 *         s->started = true;
 *         if (orr_io_read(task, &s->io, s->fd, s->buf, sizeof s->buf) < 0)
 *             return ORR_DONE;
 *     }
 *     if (!orr_io_done(&s->io))
 *         return ORR_PENDING;
 *     use(s->buf, s->io.result);
 *
 * The struct and the buffer belong to the library from the start of the operation until orr_io_done();
 * keep them where they are.  A task that ends with I/O in flight has it cancelled, and its destructor runs
 * when the kernel is done.  Close a descriptor only after what is in flight on it has finished.
 */
struct orr_link {
    struct orr_link *prev, *next;
};

struct orr_io {
    int result; /* once done: a count of bytes (0 at the end of input), or events, or a negative errno */

    /* The rest is the library's.  Start from all zeroes. */
    int fd;
    uint8_t kind, state, phase;
    bool cancelled;
    unsigned events;
    size_t length;
    void *buffer;
    struct orr_task *task;
    struct orr_link in_task, in_reactor;
};

/*
 * Wait, once, until `fd` is ready for one of `events`, as poll(2) names them: POLLIN, POLLOUT, POLLPRI,
 * POLLRDHUP.  The result is what it is ready for, POLLERR and POLLHUP included.  A regular file is always ready.
 */
ORR_API int orr_io_wait(struct orr_task *task, struct orr_io *io, int fd, unsigned events);

/*
 * As read(2) and write(2), at the file's own position, except that they wait in the background, whether the
 * descriptor is in non-blocking mode or not.  (With epoll, a regular file is read and written at once, which
 * may wait for the disk.)  At most INT_MAX bytes; the result may be short.  A write to a pipe or socket that
 * nobody reads raises SIGPIPE as write(2) does, unless that is ignored; the threads of workers 2 and up block it.
 *
 * Two exceptions.  A terminal must be in non-blocking mode, or a write to it may block all the same.  And of several
 * reads of one descriptor in flight at once, or several writes, it is not said which is served first.
 */
ORR_API int orr_io_read(struct orr_task *task, struct orr_io *io, int fd, void *buffer, size_t length);
ORR_API int orr_io_write(struct orr_task *task, struct orr_io *io, int fd, const void *buffer, size_t length);

/*
 * All three answer 0, and every failure of the operation itself, a closed descriptor included (-EBADF),
 * arrives as its result.  They refuse:
 *   -EINVAL   a NULL argument, no event or an unknown one, more than INT_MAX bytes
 *   -EPERM    not the worker's thread
 *   -EBUSY    this orr_io is in flight
 *   -ESRCH    the task is ending
 *   -ENOMEM
 */

/*
 * Ask for an operation in flight to be given up.  It finishes as always, soon, with -ECANCELED, or with
 * its result if that came first; until then the buffer is not yours.  The worker's thread.
 *   -EINVAL     NULL
 *   -EALREADY   it is not in flight
 *   -EPERM      not the worker's thread
 */
ORR_API int orr_io_cancel(struct orr_io *io);

/* Whether the operation has finished.  False for one that was never started. */
ORR_API bool orr_io_done(const struct orr_io *io);

#ifdef __cplusplus
}
#endif
#endif
