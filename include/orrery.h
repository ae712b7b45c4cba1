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
#include <string.h>

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

/* How the library strings together what lives in its users' memory. */
struct orr_link {
    struct orr_link *prev, *next;
};

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

/*
 * Receives the failure of a task, itself and its causes done, that nobody awaited or looked at, and that no parent was
 * left to be told of.  Look at it with orr_task_result(), orr_task_cause() and orr_task_errors().  On the worker's thread.
 */
typedef void orr_sink_fn(void *data, struct orr_task *task);

/*
 * Told, on a virtual clock, that tasks wait and nothing can ever happen any more: nothing is ready, no timer is set, no I/O is in
 * flight, and no future is to be completed from outside.  On the thread that drives worker 1, inside orr_runtime_run() or
 * orr_runtime_turn(), outside any task.  It may look at the tree, and it may make something happen: cancel a task, complete a future,
 * call into an isolate; then the runtime goes on.  Else it is told again in each turn that ends like that.
 */
typedef void orr_deadlock_fn(void *data);

struct orr_options {
    unsigned workers;      /* 1 to ORR_WORKERS_MAX; default 1 */
    unsigned pool_threads; /* for jobs of Lua's `worker`, started with the first; 1 to ORR_WORKERS_MAX; default: as many
                                 as there are cores */
    unsigned max_tasks;    /* live tasks a worker, 1 to ORR_TASKS_MAX; default ORR_TASKS_DEFAULT */
    enum orr_reactor reactor; /* default ORR_REACTOR_AUTO */
    enum orr_clock clock;     /* default ORR_CLOCK_MONOTONIC */
    int spin_us;              /* look for work so long before sleeping; default 0 on machines with fewer
                                 than four cores, else 20; -1 for never; at most 1000 */
    orr_alloc_fn *alloc;      /* default: realloc and free */
    void *alloc_data;
    orr_log_fn *log; /* default: errors and warnings to stderr */
    void *log_data;
    orr_sink_fn *sink; /* for failures that nobody saw; default: the log */
    void *sink_data;
    int preempt_signal; /* interrupts Lua that runs for too long; default SIGRTMIN + 4 */
    unsigned
        grace_ms; /* how long the tasks of a worker, an isolate or a script may take to clean up, all together, when
                           they are cancelled at its end; default 1000 */
    orr_deadlock_fn *deadlock; /* default: the log is shown the tree */
    void *deadlock_data;
    uint64_t shuffle_seed; /* for tests: chooses among ready tasks where no order is promised; default 0: the first */
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
 * Stop, end every task that is left, and free everything.  Tasks are cancelled, and have the grace period to clean up,
 * in real time; one that waits for nothing the runtime knows of is not waited for.  Then the log is told what the tree of those
 * left looks like, and they are ended; no Lua of theirs runs any more.  Each task's destructor runs once: on its
 * worker's thread, and for worker 1 on the caller's.  Other threads may go on using wakers, timers and futures; nothing else
 * of this runtime may be used once the call has begun, references to tasks included.  NULL is allowed and does nothing.
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
 *   -EINTR       interrupted: see orr_runtime_interrupt()
 *   -EDEADLK     on a virtual clock: tasks wait, and nothing is ready, set, in flight or to be completed from outside (see
 *                orr_future_new()).  The log is shown the tree, or `deadlock` was told and did nothing about it
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
 * Have orr_runtime_run() return -EINTR between two turns, so that the host can look to something, a signal above all, and run on: the
 * one that is under way, or the next.  Asked several times before that, it returns once.  Nothing is stopped or lost.  Any thread, and
 * signal handlers.
 *   -EINVAL   not a runtime
 */
ORR_API int orr_runtime_interrupt(struct orr_runtime *rt);

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
 * Hand over time that the host has left, between two frames, say: the garbage of the Lua states of worker 1 is collected, in short
 * steps, for at most `budget_ns`.  What is collected now need not be in a later turn.  No task is polled, and no Lua runs but
 * finalizers.  Answers 1 if there is more that could be done, 0 if not.
 *   -EINVAL, -EBUSY   as above
 */
ORR_API int orr_runtime_idle(struct orr_runtime *rt, uint64_t budget_ns);

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
 *
 * Timers go on at workers that turn.  Worker 1 is one of those while orr_runtime_run() drives it, or its descriptor is in use; when
 * orr_runtime_run() returns, it gives back what it was given like that.  With no other worker, they are held until the host turns.
 *   -EINVAL   not a runtime, no such worker, or worker 1, which the host ends by not driving it
 */
ORR_API int orr_worker_stop(struct orr_runtime *rt, unsigned worker);

/*
 * For plain code of the host that is to do what belongs on the worker's thread: between the two, outside any task, the
 * calling thread is that of worker 1.
 *   -EINVAL   not a runtime; for leave, one that this thread has not entered
 *   -EBUSY    a turn is under way, here or on another thread
 */
ORR_API int orr_runtime_enter(struct orr_runtime *rt);
ORR_API int orr_runtime_leave(struct orr_runtime *rt);

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
    uint64_t timers_migrated; /* left a worker that shut down, or worker 1 when the host stopped driving it */
    uint64_t
        timers_held; /* of those, with no worker: waiting for one that turns, or on their way there; they are pending,
                                 too; only for all workers together */
    uint64_t timers_stale;    /* cancelled by another thread, not yet removed from the wheel */
    uint64_t timers_scrubbed; /* and removed since */
    uint64_t lateness_p50_ns; /* from a timer's deadline to its firing */
    uint64_t lateness_p99_ns;
    uint64_t lateness_max_ns;
    uint64_t service_wake_ups; /* of the time service; only for all workers together, as is its lag */
    uint64_t service_lag_ns;   /* the most by which one of its ticks was late */

    unsigned workers;
    enum orr_reactor reactor; /* the one in use, never AUTO; for all workers together, that of worker 1 */

    uint64_t
        timers_dropped; /* given up because their worker had ended, of local ones, or the runtime; only for all together */
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
 *
 * Tasks form a tree.  A task spawned while another is polled is that one's child, unless it says otherwise, and
 *
 *   - a task is done when its body and all its children are.  A body that has said ORR_DONE is not polled again;
 *   - a child's failure goes up: it interrupts what the parent waits for, once, and the parent goes on before tasks that are
 *     merely ready, siblings of the child among them; if the parent does not take it there, the parent fails with it, after
 *     its other children have been cancelled and are done.  A child that was cancelled does not count as failed.  A failure is
 *     not passed up if somebody awaits the child, or has looked at its result;
 *   - cancellation goes down: to the task, then to its children in the order in which they were made, and so on.  It
 *     stays: every wait of a cancelled task says so.
 */
enum orr_poll {
    ORR_DONE,    /* the body is over; the task ends, as said by orr_task_finish(), when its children are done */
    ORR_PENDING, /* wait for a wake */
};

typedef enum orr_poll orr_poll_fn(struct orr_task *task, void *data);

#define ORR_HERE 0 /* the calling thread's worker; in plain code of the host, worker 1 */

struct orr_spawn {
    orr_poll_fn *poll;        /* required */
    void *data;               /* given to poll and drop */
    void (*drop)(void *data); /* runs once when the task is done, its children included, however it ends; may be NULL */
    unsigned worker;          /* a worker's number, or ORR_HERE */
    const char *name;         /* for people; may be NULL */
    struct orr_task
        *parent;    /* default: the task that is being polled here; on another worker, and outside tasks, none */
    bool detached;  /* no parent */
    bool supervise; /* a failed child neither interrupts it nor ends the others; it fails at its end */

    /* Only for tasks made on the calling thread's own worker, written before orr_spawn() returns: */
    struct orr_waker *waker; /* the new task's waker; may be NULL */
    struct orr_task **task;  /* a reference to it, to be given up with orr_task_unref(); may be NULL */
};

/*
 * Make a task.  On failure nothing is kept and `drop` is not called.  Any thread.
 *   -EINVAL     not a runtime, no poll function, no such worker; a parent, and detached
 *   -EXDEV      `waker`, `task` or `parent` was given, and the calling thread does not run that worker
 *   -ESRCH      the parent is done
 *   -EAGAIN     that worker has max_tasks tasks
 *   -ENOMEM
 *   -ESHUTDOWN  the runtime was stopped; only a task that cleans up may still make children
 * A spawn on another worker, or from plain code of the host, is on its way when this returns.  Should that worker
 * then find no memory for it, the log is told and `drop` runs.
 */
ORR_API int orr_spawn(struct orr_runtime *rt, const struct orr_spawn *what);

/* The task's own waker; the zero waker for NULL, and for a task whose body is over.  The worker's thread. */
ORR_API struct orr_waker orr_task_waker(const struct orr_task *task);

/* Wakes the task itself, for `return orr_task_yield(task);`: let the others go first, then go on. */
ORR_API enum orr_poll orr_task_yield(struct orr_task *task);

/* Where the task lives, and what it is called.  The worker's thread.  For NULL: NULL and 0. */
ORR_API struct orr_runtime *orr_task_runtime(const struct orr_task *task);
ORR_API unsigned orr_task_worker(const struct orr_task *task);
ORR_API const char *orr_task_name(const struct orr_task *task);

/* The task being polled on this thread; NULL outside poll functions. */
ORR_API struct orr_task *orr_task_current(void);

/*
 * End the body of a task from outside, at once and without asking; orr_task_cancel() asks.  What it waits for is given up, its
 * children are cancelled.  If there are none, and no I/O of it is in flight, its destructor has run when this returns;
 * else it runs when they are done and the kernel has let go of the buffers.  The worker's thread.
 *   -ESRCH   it has finished already, or the waker names nobody
 *   -EPERM   it lives on another thread's worker
 *   -EBUSY   it is being polled now: let it return ORR_DONE
 */
ORR_API int orr_task_drop(struct orr_waker task);

/*
 * References.  A struct orr_task * is valid inside its own poll function and while somebody holds a reference to it: as
 * long as that, what it has come to can be read, though the task and its whole tree be gone.  The worker's thread, and
 * not longer than the runtime.
 */
ORR_API struct orr_task *orr_task_ref(struct orr_task *task);
ORR_API void orr_task_unref(struct orr_task *task); /* NULL is allowed */

/* ------------------------------------------------------------------------------------------------------
 * Results
 *
 * What a task has come to: a value, or an error, which may come with a value too.  The value belongs to the task, or
 * to the future, and is dropped with the last reference to it.
 */
struct orr_result {
    int error;                 /* 0, or a negative errno */
    const char *message;       /* for people; lives as long as the value; may be NULL */
    void *value;               /* may be NULL */
    void (*drop)(void *value); /* may be NULL; for a future, on whichever thread gives it up last */
};

/* For `return orr_task_finish(task, (struct orr_result){ .value = answer, .drop = free });`.  Without it, 0 and no value. */
ORR_API enum orr_poll orr_task_finish(struct orr_task *task, struct orr_result result);

/*
 * The same for an error alone: `return orr_task_fail(task, error);`.  With what a wait has answered, it does what is
 * right: -ECHILD passes on the failure of the child, -ECANCELED in a cancelled task is not a failure.
 */
ORR_API enum orr_poll orr_task_fail(struct orr_task *task, int error);

/* Whether it is done, its children included.  The worker's thread, as for all that follow. */
ORR_API bool orr_task_done(const struct orr_task *task);

/*
 * Its result; NULL until it is done.  A task that failed because of a child has that child's.  Looking at it counts as
 * having seen it: a failure is not passed on any more if it has not been yet.
 */
ORR_API const struct orr_result *orr_task_result(struct orr_task *task);

/* The child because of which a done task has failed; NULL if it has not, or failed by itself. */
ORR_API struct orr_task *orr_task_cause(const struct orr_task *task);

/* The child whose failure a wait of this task has answered -ECHILD for last; until it waits again. */
ORR_API struct orr_task *orr_task_failed_child(const struct orr_task *task);

/*
 * Shows every error in a task, the one that it failed with first, then those that came after it, each with the task in
 * which it arose.  Also inside a body that was told -ECHILD.
 */
ORR_API void orr_task_errors(struct orr_task *task,
                             void (*each)(void *data, struct orr_task *origin, const struct orr_result *result),
                             void *data);

/*
 * Settle a task's result from outside.  Its body and its children are cancelled, and when they are done, so is it, with
 * this result whatever they say.
 *   -EINVAL     NULL
 *   -EALREADY   it has a result; the value is still the caller's
 *   -EPERM      not the worker's thread
 */
ORR_API int orr_task_complete(struct orr_task *task, struct orr_result result);

/*
 * Have a function called when the task is done; at once if it is.  Those who wait and those who observe are told in the order
 * in which they came.  `observer` is the caller's memory, and free again when it has been called, or taken back.
 *   -EINVAL   NULL, no function
 *   -EBUSY    the observer is in use
 *   -EPERM    not the worker's thread
 */
struct orr_observer;
ORR_API int orr_task_observe(struct orr_task *task, struct orr_observer *observer);
ORR_API void orr_task_unobserve(struct orr_observer *observer);

/*
 * Make a task independent of its parent.  A failure of it that has not been delivered yet is not.
 *   -EINVAL   NULL
 *   -ESRCH    it is done and was never a child's failure to deliver
 *   -EPERM    not the worker's thread
 */
ORR_API int orr_task_detach(struct orr_task *task);

/*
 * Cancel a task and all below it.  One that waits is woken at once, and its wait answers -ECANCELED; one that runs hears
 * of it when it next waits.  I/O in flight is cancelled.  `reason` is for people, lives long (a literal), and may be NULL.
 *   -EINVAL   NULL
 *   -ESRCH    it is done
 *   -EPERM    not the worker's thread
 */
ORR_API int orr_task_cancel(struct orr_task *task, const char *reason);

/* Why the next wait of this task would answer -ECANCELED; NULL if it would not. */
ORR_API const char *orr_task_cancelled(const struct orr_task *task);

/* ------------------------------------------------------------------------------------------------------
 * Waiting
 *
 * All waits are called alike, with the task that is being polled and a struct orr_wait in its memory, zeroed once:
 *
 *     int error = orr_sleep(task, &self->wait, 100 * MILLISECONDS);
 *     if (error == -EAGAIN)
 *         return ORR_PENDING;           call it again, with the same arguments, when polled again
 *     if (error)
 *         return orr_task_fail(task, error);
 *
 * They answer
 *   0            it has happened, and what was waited for is the task's
 *   -EAGAIN      not yet; the task will be woken
 *   -ECANCELED   the task is cancelled, and was not given what it waited for
 *   -ECHILD      a child has failed: see orr_task_failed_child().  Said once for each such child
 *   -EPERM       this task is not being polled, or what it wants to wait for belongs to another worker
 *   -EBUSY       this orr_wait waits for something else
 *   -EINVAL      NULL
 * and sometimes others, named there.  After any answer but -EAGAIN the orr_wait is free to be used again.  A task may
 * wait for several things at once, with one orr_wait each; those it wants no more it withdraws.  Nothing that was
 * granted to a task is lost when its body ends before it has picked it up: it passes on to the next in line.
 */
struct orr_wait {
    /* All of it is the library's.  Start from all zeroes. */
    struct orr_link in_owner;
    uint64_t word;
    struct orr_link in_source;
    uint64_t value;
    void *owner;
    const struct orr_wait_kind *kind;
    void *source;
    uint64_t since;
    uint8_t state;
    bool grouped;
};

struct orr_observer {
    void (*done)(struct orr_task *task, void *data);
    void *data;
    struct orr_wait wait; /* the library's; start from all zeroes */
};

/* Give up waiting.  Safe on one that does not wait.  The worker's thread. */
ORR_API void orr_wait_withdraw(struct orr_wait *wait);

/* Wait for a task to be done.  0 means done: how, orr_task_result() says.  -EDEADLK: it is this task, or waits for it by
 * being above it in the tree. */
ORR_API int orr_task_await(struct orr_task *task, struct orr_wait *wait, struct orr_task *other);

/* Wait for an amount of time from the first call on, or until a time of the runtime's clock.  0 ns lets others go first. */
ORR_API int orr_sleep(struct orr_task *task, struct orr_wait *wait, uint64_t ns);
ORR_API int orr_sleep_until(struct orr_task *task, struct orr_wait *wait, uint64_t deadline);

/* Wait for nothing: 0, -ECANCELED or -ECHILD, at once. */
ORR_API int orr_checkpoint(struct orr_task *task);

/*
 * Many waits together.  A group is zeroed memory of one task.  Waits are added before they are begun, then begun as ever; those
 * that answer -EAGAIN are pending in the group, any others have left it.  Each that is granted comes out of
 * orr_group_next(), in the order in which that happened; call its own function once more to pick up what it has.
 */
struct orr_group {
    /* All of it is the library's.  Start from all zeroes. */
    struct orr_wait wait;
    struct orr_link *pending, *granted;
};

/* -EINVAL NULL; -EBUSY the wait waits already. */
ORR_API int orr_group_add(struct orr_group *group, struct orr_wait *wait);

/* Wait for the next one.  0 and `*next`, or NULL there if none is left. */
ORR_API int orr_group_next(struct orr_task *task, struct orr_group *group, struct orr_wait **next);

/* Wait for the first, and withdraw all others; or until all are granted. */
ORR_API int orr_wait_any(struct orr_task *task, struct orr_group *group, struct orr_wait **first);
ORR_API int orr_wait_all(struct orr_task *task, struct orr_group *group);

/* Withdraws all that are left. */
ORR_API void orr_group_clear(struct orr_group *group);

/* ------------------------------------------------------------------------------------------------------
 * Scopes
 *
 * A scope is a block of a task's body, which may take many polls.  Children made in it are done when it is left; it can
 * have a deadline, be shielded from cancellation outside, or supervise.  Scopes nest.
 *
 *     orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .timeout_ns = SECOND });
 *     ... waits, children ...
 *     error = orr_scope_leave(task, &self->wait, &self->scope, error);     to be called again while it is -EAGAIN
 */
struct orr_nest {
    struct orr_link *children, *failures;
    const char *reason;
    uint32_t flags;
    uint32_t serial;
};

struct orr_scope {
    /* All of it is the library's.  Start from all zeroes. */
    struct orr_nest nest;
    int error;
    struct orr_task *task;
    struct orr_scope *outer, *inner;
    struct orr_wait *leaving;
    uint64_t word;
    struct orr_link in_wheel;
    uint64_t deadline;
};

struct orr_scope_options {
    uint64_t timeout_ns; /* cancel what is inside after so long; 0: never */
    bool move_on;        /* and then leave with 0, instead of -ETIMEDOUT */
    bool shield;         /* neither cancellation nor failure from outside reaches what is inside */
    bool supervise;      /* a failed child neither interrupts the others nor the block; leaving it tells */
};

/*
 * `options` may be NULL.  The memory must stay until the scope has been left, or the task's destructor runs.
 *   -EINVAL   NULL
 *   -EBUSY    this scope is in use
 *   -EPERM    the task is not being polled
 */
ORR_API int orr_scope_enter(struct orr_task *task, struct orr_scope *scope, const struct orr_scope_options *options);

/*
 * Leave the innermost scope, with what the block has come to: 0 or an error.  If that is an error, or a child has failed,
 * the other children are cancelled.  Waits until they are done, cancelled or not; then answers
 *   0            the block is done; or it was cancelled by orr_scope_cancel(), or by its deadline and was to move on
 *   -ETIMEDOUT   its deadline has cut it short
 *   -ECHILD      a child has failed, and nobody has seen it
 *   -ECANCELED   the task was cancelled from outside meanwhile
 *   -EINVAL      not the innermost scope of this task
 *   or what it was given.
 */
ORR_API int orr_scope_leave(struct orr_task *task, struct orr_wait *wait, struct orr_scope *scope, int error);

/* Cancel what is inside a scope, and all below.  -EINVAL NULL, not in use; -EPERM not the worker's thread. */
ORR_API int orr_scope_cancel(struct orr_scope *scope, const char *reason);

/* ------------------------------------------------------------------------------------------------------
 * What tasks wait for
 *
 * All but the future are for the tasks of one worker, the one on whose thread they were made, and cost no atomic
 * operation.  They serve in order of arrival: whoever comes later never overtakes whoever waits.  None is freed while
 * somebody waits for it: that answers -EBUSY and does nothing.  NULL may be freed.  Making one answers -EINVAL, -ENOMEM, or
 * -EPERM where the calling thread runs no worker.  All but the waits answer -EINVAL for NULL and -EPERM on other threads.
 */

/* Stays set until it is cleared. */
struct orr_event;
ORR_API int orr_event_new(struct orr_event **event);
ORR_API int orr_event_free(struct orr_event *event);
ORR_API int orr_event_wait(struct orr_task *task, struct orr_wait *wait, struct orr_event *event);
ORR_API int orr_event_set(struct orr_event *event);              /* answers how many were woken */
ORR_API int orr_event_wake(struct orr_event *event, unsigned n); /* at most n, without setting it; answers how many */
ORR_API int orr_event_clear(struct orr_event *event);
ORR_API bool orr_event_is_set(const struct orr_event *event);

/* So many permits, of which each taker gives one back.  Releasing more than were taken answers -EOVERFLOW. */
struct orr_semaphore;
ORR_API int orr_semaphore_new(uint32_t permits, struct orr_semaphore **semaphore);
ORR_API int orr_semaphore_free(struct orr_semaphore *semaphore);
ORR_API int orr_semaphore_acquire(struct orr_task *task, struct orr_wait *wait, struct orr_semaphore *semaphore);
ORR_API int orr_semaphore_try(struct orr_semaphore *semaphore); /* 0, or -EAGAIN */
ORR_API int orr_semaphore_release(struct orr_semaphore *semaphore);
ORR_API uint32_t orr_semaphore_free_permits(const struct orr_semaphore *semaphore);

/*
 * Belongs to one task at a time; freed while one has it, it is nobody's.  Locking it twice answers -EDEADLK, unlocking another's -EPERM.  A task that ends
 * without unlocking it leaves it locked to nobody: the next in line gets -EOWNERDEAD, and has it.
 */
struct orr_mutex;
ORR_API int orr_mutex_new(struct orr_mutex **mutex);
ORR_API int orr_mutex_free(struct orr_mutex *mutex);
ORR_API int orr_mutex_lock(struct orr_task *task, struct orr_wait *wait, struct orr_mutex *mutex);
ORR_API int orr_mutex_try(struct orr_task *task, struct orr_mutex *mutex); /* 0, -EAGAIN, -EDEADLK */
ORR_API int orr_mutex_unlock(struct orr_task *task, struct orr_mutex *mutex);
ORR_API bool orr_mutex_locked(const struct orr_mutex *mutex);

/*
 * Waiting gives up the mutex, which the task must have (-EPERM), and has it again when it answers anything else but
 * -EAGAIN, cancellation included: until then a cancelled wait goes on.  It may answer 0 without having been notified: look
 * again at what you wait for.
 */
struct orr_condition;
ORR_API int orr_condition_new(struct orr_condition **condition);
ORR_API int orr_condition_free(struct orr_condition *condition);
ORR_API int orr_condition_wait(struct orr_task *task, struct orr_wait *wait, struct orr_condition *condition,
                               struct orr_mutex *mutex);
ORR_API int orr_condition_notify(struct orr_condition *condition, unsigned n); /* at most n; answers how many */

/*
 * Items in order.  Putting waits while there are `capacity` in it, getting while there is none.  Once closed, putting answers
 * -EPIPE, and getting too when all that was put has been got.  Items are the getter's; those left in a queue that is
 * freed go to `drop`.
 */
struct orr_queue;
ORR_API int orr_queue_new(size_t capacity, void (*drop)(void *item), struct orr_queue **queue); /* 0: no bound */
ORR_API int orr_queue_free(struct orr_queue *queue);
ORR_API int orr_queue_put(struct orr_task *task, struct orr_wait *wait, struct orr_queue *queue,
                          void *item); /* -ENOMEM */
ORR_API int orr_queue_get(struct orr_task *task, struct orr_wait *wait, struct orr_queue *queue, void **item);
ORR_API int orr_queue_try_put(struct orr_queue *queue, void *item);  /* 0, -EAGAIN, -EPIPE, -ENOMEM */
ORR_API int orr_queue_try_get(struct orr_queue *queue, void **item); /* 0, -EAGAIN, -EPIPE */
ORR_API int orr_queue_close(struct orr_queue *queue);                /* those who wait are told */
ORR_API size_t orr_queue_length(const struct orr_queue *queue);

/*
 * A result that is to come, from anywhere: the bridge from callbacks and from other threads.  Any thread may complete it,
 * at any time, also when the runtime is gone.  The tasks of one worker can wait for it.
 */
struct orr_future;

struct orr_future_options {
    unsigned worker; /* whose tasks will wait for it; default ORR_HERE */
    bool foreign;    /* something outside the runtime will complete it: a virtual clock stands still until then */
};

/* `options` may be NULL.  Makes one reference.  Any thread.  -EINVAL, -ENOMEM, -ESHUTDOWN. */
ORR_API int orr_future_new(struct orr_runtime *rt, const struct orr_future_options *options,
                           struct orr_future **future);

/* Any thread.  NULL is allowed. */
ORR_API struct orr_future *orr_future_ref(struct orr_future *future);
ORR_API void orr_future_unref(struct orr_future *future);

/* Once.  -EALREADY: it has been, and the value is still the caller's.  -EINVAL.  Any thread, but not a signal handler. */
ORR_API int orr_future_complete(struct orr_future *future, struct orr_result result);

/* 0 when it is completed: with what, orr_future_result() says. */
ORR_API int orr_future_wait(struct orr_task *task, struct orr_wait *wait, struct orr_future *future);

/* NULL until it is completed.  Any thread. */
ORR_API const struct orr_result *orr_future_result(const struct orr_future *future);

/* ------------------------------------------------------------------------------------------------------
 * Lua
 *
 * An isolate is a Lua 5.4 state bound to one worker: the calling thread's, or worker 1 in plain code.  Its Lua runs as
 * tasks of that worker, in its turns.  A state is named by its lua_State; any coroutine of it will do.
 */
struct lua_State;

/* What a script may reach. */
enum orr_lua_profile {
    ORR_LUA_UNTRUSTED, /* an allow-list: nothing that could harm or hold up the host; see docs/limits.md */
    ORR_LUA_TRUSTED,   /* all of Lua */
};

/* How Lua that runs for too long is noticed. */
enum orr_lua_mode {
    ORR_LUA_SIGNAL, /* by a timer's signal to the worker's thread: costs nothing until then; where the system refuses the
                       timer, by counting instructions and looking at the clock: see ORR_LUA_COUNTED */
    ORR_LUA_COUNT,  /* by counting instructions: two to three times slower, but the same each time */
    ORR_LUA_OFF,    /* not at all */
};

/* What Lua is entered for.  Each has a deadline of its own. */
enum orr_lua_entry {
    ORR_LUA_TASK,      /* async.run */
    ORR_LUA_SCRIPT,    /* loading and running a file: orr_lua_start() */
    ORR_LUA_CALL,      /* orr_lua_call() */
    ORR_LUA_HANDLER,   /* of an event */
    ORR_LUA_TIMER,     /* the callback of one */
    ORR_LUA_SCHEDULED, /* by schedule() */
    ORR_LUA_JOB,       /* of a worker thread */
    ORR_LUA_ENTRIES,
};

/* What a host may want to know at once. */
enum orr_lua_notice {
    ORR_LUA_TIMED_OUT, /* something was ended at its deadline: the text is the report */
    ORR_LUA_DISABLED, /* a handler timed out so often in a row that it is not called any more; after the sink has heard of that */
    ORR_LUA_MEMORY_SOFT, /* the soft limit was passed */
    ORR_LUA_ENDED,       /* a limit was broken that no error can hold: none of the state's Lua runs any more */
    ORR_LUA_COUNTED, /* no timer can be had to interrupt Lua, and the text says why: instructions are counted, as often as
                            check_interval says, and limits of time hold as before; once */
};

/* What becomes of an event that finds the queue of its isolate full. */
enum orr_events_policy {
    ORR_EVENTS_REFUSE,      /* the host is told */
    ORR_EVENTS_DROP_OLDEST, /* it takes the place of the first in the queue */
    ORR_EVENTS_COALESCE,    /* of one with the same name, the data are replaced; without one, it is refused */
};

typedef void orr_lua_notice_fn(void *data, struct lua_State *L, enum orr_lua_notice notice, const char *text);

typedef void orr_lua_prepare_fn(void *data, struct lua_State *L);

/*
 * Zeroed, it is the default.  Times are in nanoseconds; ORR_NEVER is no limit.  A deadline counts the time that a call has
 * run since it last waited of its own accord.
 */
struct orr_lua_options {
    const char *mount;            /* the API as a global of this name, besides require "orrery"; default: none */
    enum orr_lua_profile profile; /* default ORR_LUA_UNTRUSTED */
    enum orr_lua_mode mode;       /* default ORR_LUA_SIGNAL */
    uint64_t slice_ns;            /* what Lua may run before the host goes on; default 2 ms */
    uint64_t deadline_ns
        [ORR_LUA_ENTRIES]; /* default: a task 1 s if untrusted, none if trusted; a script 5 s; a job 300 s if untrusted, and
                                              its own time-out;
                                              the others 1 s */
    uint64_t
        max_instructions; /* of ORR_LUA_COUNT: a call's, since it last waited; default 1,000,000; ORR_NEVER for none */
    unsigned check_interval; /* instructions between looks; default 10,000 */
    unsigned strikes;        /* time-outs in a row that disable a handler; default 3; UINT_MAX for never */
    unsigned max_tasks;      /* at once; default: the worker's if trusted, 10,000 if not */
    size_t
        memory_limit; /* bytes, for the isolate, what the library holds for it, the jobs of its workers and what it sends,
                                together; default: none if trusted, 64 MB if not; SIZE_MAX for none */
    size_t memory_soft;    /* the host is told when it is passed; default: none */
    size_t longest_string; /* default: none if trusted, 8 MB if not; SIZE_MAX for none */
    size_t longest_source; /* of a script or a module; default: none if trusted, 128 KB if not; SIZE_MAX for none */
    /* What may be large in one piece.  Defaults are for untrusted states; trusted ones have no limit; UINT_MAX, ORR_NEVER for none. */
    unsigned longest_list;  /* elements in the list part of a table; 262,144 */
    unsigned most_keys;     /* in the hash part of a table; 32,768 */
    unsigned most_strings;  /* different strings of up to 40 bytes; 65,536 */
    unsigned deepest_stack; /* values on the stack of a coroutine; 131,072 */
    unsigned
        max_objects; /* events, semaphores, mutexes, conditions, queues, futures, channels, timers together; 50,000 */
    uint64_t
        longest_step_ns; /* a script is ended that keeps the collector at work for longer than this in one piece, or an instruction for twice as long; 8 ms */
    const char *const
        *roots; /* folders in which an untrusted script's `require` looks; NULL-terminated; default: none */
    const char *const *modules; /* of the API that scripts have: "async", "eventloop", "events", "json", "loop",
                           "runtime", "schedule", "values", "worker"; NULL-terminated; default: all.  The others are neither in the module nor to be required */
    bool safe_patterns;         /* a trusted script, too, gets pattern functions that can be interrupted */
    bool
        may_sleep; /* C functions of the host's that scripts call may sleep in system calls: these are not interrupted by our signal, for
                       which the process has one more thread.  Scripts that load C libraries have it by themselves */
    unsigned schedule_limit;    /* callbacks that wait; default 1,000 */
    unsigned schedule_per_turn; /* that are started in a turn; default 16 */
    unsigned events_limit;      /* that wait while a task is suspended in the middle of a slice; default 1,024 */
    enum orr_events_policy events_policy; /* for those beyond; default ORR_EVENTS_REFUSE */
    orr_lua_notice_fn *notice; /* on the worker's thread, when no Lua runs; default: the log, in its order with
                                             failures of tasks; of a task that timed out, the sink hears alone */
    void *notice_data;
    const char *const *
        worker_modules; /* of the API that scripts of workers have; default: all but "events" and "worker"; never more than those above */
    orr_lua_prepare_fn
        *worker_prepare; /* called with each state that is made for a worker, on that worker's thread, before the
                                           worker's script: it may give it functions and modules; default: none */
    void *worker_data;
    bool testing; /* for test runners: the module `testing`; and things remember where they were made */
};

/*
 * Make a state with Lua's libraries, as its profile has them, or take one that the host has made, with what it has, and give it
 * the API: `require "orrery"`, and the global `mount`.  Options may be NULL, and are not kept.  The profile, the memory limits and
 * the longest string are of no account for a state of the host's own.
 *   -EINVAL   not a runtime, NULL; an option out of its range, and a line to the log
 *   -EALREADY   it has it
 *   -ENOMEM
 *   what opening one of the roots came to, and a line to the log
 */
ORR_API int orr_lua_new(struct orr_runtime *rt, const struct orr_lua_options *options, struct lua_State **L);
ORR_API int orr_lua_open(struct orr_runtime *rt, struct lua_State *L, const struct orr_lua_options *options);

/*
 * Cancel what is left of its tasks, let them clean up for at most the runtime's grace period, all together (those that have not run yet do not begin,
 * and nor does anything else but their children), and free all that the library has for
 * the state; a state from orr_lua_new() too.  Past the period none of its Lua runs, finalizers included; the log names the tasks that were ended by force.  One that the host has made is the host's to close, afterwards, and before the runtime is
 * freed.  References to its tasks keep their error, but not its value.
 *   -EINVAL        not an isolate
 *   -EINPROGRESS   its Lua is running: it is closed when the outermost call has returned
 *   -EBUSY         another thread drives its worker
 */
ORR_API int orr_lua_close(struct lua_State *L);

/*
 * Start a function, with its arguments, both on top of the stack and taken off, as a task at the top.  `task` receives a
 * reference, to be given up on the worker's thread; it may be NULL.  A Lua task that was cancelled ends with -ECANCELED, whatever its
 * function returns, unless it fails by itself.
 *   -EINVAL   not an isolate, no function there
 *   -ENOMEM   and a line to the log
 */
ORR_API int orr_lua_start(struct lua_State *L, int arguments, const char *name, struct orr_task **task);

/*
 * Give a task that runs Lua another deadline, in the place of the one that it began with: ORR_NEVER for none.  It counts what the task has
 * run since it last waited, what it has run already included; so a short one ends what is in an endless loop.  The worker's thread,
 * outside the isolate's Lua.
 *   -EINVAL    NULL, not a Lua task, 0
 *   -ESRCH     its body is over
 *   -ENOTSUP   its isolate counts instructions, or nothing at all
 */
ORR_API int orr_lua_set_deadline(struct orr_task *task, uint64_t deadline_ns);

/* Either a text or a file. */
struct orr_lua_source {
    const char *name; /* what messages call it; default: the path */
    const char *text;
    size_t size; /* of the text; 0: it ends with a NUL */
    const char *path;
    bool own_globals; /* see below */
};

/*
 * Compile a script and push it, a function, for orr_lua_start() or lua_pcall().  For an untrusted state it must be text, no longer than
 * its longest source.
 *
 * Scripts share the state's globals, unless they are to have their own.  Those begin with `_G`, `load` and `require` alone, and read
 * through to the shared ones: the tables there, Lua's libraries and the API too, and all that is in them, can be read but not changed.
 * A change of the host's to a library or to a function of Lua's is seen from the next such script on; all others at once.  Modules are
 * loaded for each such script anew, with its globals.  What its tasks make is its own: it neither lists nor removes the handlers of
 * other scripts.
 *   -EINVAL    not an isolate; neither a text nor a path, or both
 *   -ENOTSUP   globals of its own, but the state is not an untrusted one made by orr_lua_new()
 *   -EPROTO    it does not compile: the message is pushed.  Nothing is, for the others
 *   -EFBIG     too long
 *   -ENOMEM, and a line to the log
 *   -EBUSY, -EPERM   as for orr_lua_call()
 *   what opening or reading the file came to: -ENOENT, ...
 */
ORR_API int orr_lua_load(struct lua_State *L, const struct orr_lua_source *source);

/*
 * Make what is on top of the stack, and is taken off, a module for `require`: a function is called, with the name, by the first
 * that requires it, and what it returns is the module; anything else is the module.  Scripts with globals of their own call the
 * function each for itself, and cannot change a table that is the module.
 *   -EINVAL   not an isolate, no name, nothing there, nil
 *   -ENOMEM
 */
ORR_API int orr_lua_register(struct lua_State *L, const char *name);

/*
 * Call a function, with its arguments, both on top of the stack and taken off, and wait for it to return.  As lua_pcall(), but
 * the call has a deadline: `deadline_ns`, or the isolate's for ORR_LUA_CALL if that is 0; ORR_NEVER for none.  It cannot wait
 * itself, but may start tasks.  Answers 0, with as many results on the stack as asked for; or, with one value there that says why:
 *   -EREMOTEIO   it raised that
 *   -ETIME       "Script execution timeout": it was ended at its deadline, and the notice, or the log, has had the report
 *   -ENOMEM
 * or, with nothing changed:
 *   -EBUSY    a task of the isolate has been suspended in the middle of a slice, and must go on first; or another thread drives the
 *             worker
 *   -EPERM    it is not of worker 1, and the thread is not its worker's
 *   -EINVAL   not an isolate, or closing; no function there
 */
ORR_API int orr_lua_call(struct lua_State *L, int arguments, int results, uint64_t deadline_ns);

/*
 * Whether a task of the isolate has been suspended in the middle of a slice: 1 if so, when orr_lua_call() would answer -EBUSY and events
 * are queued, until a turn has let it go on; else 0.  -EINVAL, -EBUSY, -EPERM as above.  The thread that drives the worker, or plain code.
 */
ORR_API int orr_lua_is_held(struct lua_State *L);

/*
 * Emit an event, with the value on top of the stack, which is taken off.  Its handlers are started, in the order of their
 * registration, as tasks that run in the next turns; the host does not wait for them.  While a task of the isolate is suspended in the
 * middle of a slice, or orr_script_load() has loaded a script whose body has not begun, events are queued, and keep their order.
 *   -ENOBUFS   the queue is full, and the policy says so
 *   -EINVAL    not an isolate, no name, a star in it, no value
 *   -EBUSY, -EPERM   as for orr_lua_call()
 *   -ENOMEM
 */
ORR_API int orr_events_emit(struct lua_State *L, const char *name);

/* From now on only the host may emit this event; with a star at the end, all that begin so.  -EINVAL, -EBUSY, -EPERM, -ENOMEM. */
ORR_API int orr_events_reserve(struct lua_State *L, const char *name);

/* A handler that was disabled because it timed out is called again.  -ENOENT: there is none of this id.  The rest as above. */
ORR_API int orr_events_enable(struct lua_State *L, int64_t id);

/*
 * In a notice of ORR_LUA_DISABLED: the id of the handler, for orr_events_enable(), and as events:on() has returned it; 0 if it was a
 * timer's callback, which starts anew with timer:start().  0 anywhere else.  The thread that the notice is given on.
 */
ORR_API int64_t orr_events_disabled(struct lua_State *L);

/* ------------------------------------------------------------------------------------------------------
 * Scripts that come and go
 *
 * All that a script makes is its own: tasks, timers, handlers, scheduled callbacks, and what those make in turn.  When it is unloaded,
 * they end.  Scripts that share an isolate neither list nor remove each other's handlers.  What the host calls acts for the script that
 * has the isolate to itself, or that has given the host the function; in an isolate that scripts share, for the host.  All calls are for the thread that drives the worker, or plain code, as for orr_lua_call().
 */
struct orr_script;

struct orr_script_options {
    struct orr_lua_source source; /* copied */
    struct lua_State *shared;     /* an isolate that it shares with others; default: one of its own */
    struct orr_lua_options lua;   /* for its own.  What it points at must stay as long as the script */
    void (*prepare)(void *data,
                    struct lua_State *L); /* before it is compiled, each time: to give it functions of the host's */
    void *prepare_data;
    bool
        end_on_failure; /* when its body fails, all that it has made ends, as when it is unloaded; its state stays until it is.
                            Default: its tasks, timers and handlers go on */
};

/*
 * Compile a script and start it as a task.
 *   -EINVAL   not a runtime, NULL; neither a text nor a path, or both; `shared` is not an isolate, or closing
 *   -EPROTO   it does not compile: the log is told why
 *   what orr_lua_new(), orr_lua_load() and orr_lua_start() answer
 */
ORR_API int orr_script_load(struct orr_runtime *rt, const struct orr_script_options *options,
                            struct orr_script **script);

/*
 * End all that is a script's: tasks are cancelled and have the runtime's grace period to clean up, all together, as for orr_lua_close(); the rest is taken away; an
 * isolate of its own is closed, and all its memory freed.  Then the script is freed, or loaded again.  If that fails, the log is told, and it
 * is a script without a state, that can be unloaded, or reloaded again.
 *
 * In plain code they turn the worker until the tasks have cleaned up, and return when that is done: which may take as long as the grace
 * period (`grace_ms` of the runtime), if a script's cleanup waits for so long.  A host that must not stand still meanwhile calls them in a
 * task, such as one that it spawns for this: then they answer -EINPROGRESS at once, and the rest happens in the turns that follow, a
 * stretch in each.
 *   -EINVAL        NULL
 *   -EALREADY      that is under way
 *   -EINPROGRESS   Lua of the isolate is running: it is done when the outermost call has returned
 *   -EBUSY, -EPERM   as for orr_lua_call(), and nothing was done
 *   -ENOMEM
 *   and orr_script_reload(): what orr_script_load() answers, if it cannot be loaded again
 */
ORR_API int orr_script_unload(struct orr_script *script);
ORR_API int orr_script_reload(struct orr_script *script);

/* NULL while it has none. */
ORR_API struct lua_State *orr_script_state(const struct orr_script *script);

/* Push the report of a failed task as text: the error, where it arose, and the way that it took.  -EINVAL, -ENOMEM. */
ORR_API int orr_lua_push_report(struct lua_State *L, struct orr_task *task);

/*
 * Push a function that scripts await simply by calling it.  `start` begins the work, with the script's arguments on the stack from
 * index `first` on, keeps a reference to the future, and completes it from any thread; it answers 0, or a negative errno, or
 * raises.  `push` turns the result into what the call returns, or raises; without it, an error is raised, and nothing returned.
 *   -EINVAL   not an isolate, no function
 */
typedef int orr_lua_start_fn(struct lua_State *L, struct orr_future *future, int first);
typedef int orr_lua_push_fn(struct lua_State *L, const struct orr_result *result);
ORR_API int orr_lua_push_async(struct lua_State *L, orr_lua_start_fn *start, orr_lua_push_fn *push);

/* ------------------------------------------------------------------------------------------------------
 * Values
 *
 * For hosts that would rather not touch Lua's stack, nor include lua.h.  A value is a plain struct, and zeroed it is nil:
 *
 *     struct orr_pair size[] = { { orr_value_string("width"), orr_value_integer(1920) },
 *                                { orr_value_string("height"), orr_value_integer(1080) } };
 *     struct orr_value screen = { .type = ORR_TABLE, .table = { .pairs = size, .count = 2 } };
 *     orr_events_emit_value(L, "screen", &screen);
 *
 * What a host passes in is borrowed until the call returns: Lua has copies.  What a host is given says in each case whose it is:
 * *borrowed*, it may be looked at for a while and is not to be freed; *owned*, it is the host's until orr_values_free().
 *
 * "As for orr_lua_call()" means: the worker's thread; or, for worker 1, any one thread at a time while nobody drives it.  Those
 * answer -EBUSY if another thread drives it, and -EPERM on the wrong thread.
 */
enum orr_value_type {
    ORR_NIL,
    ORR_BOOLEAN,
    ORR_INTEGER, /* of Lua's two kinds of numbers */
    ORR_NUMBER,
    ORR_STRING,
    ORR_TABLE,
    ORR_FUNCTION,
    ORR_OTHER, /* userdata or a coroutine: a host may see that there is one, and no more */
};

/* Any bytes, NULs too.  From the library there is always one more, a NUL, behind them. */
struct orr_string {
    const char *bytes;
    size_t length;
};

/* The items are at 1 to `length`, the pairs are the rest; either may be missing. */
struct orr_table {
    const struct orr_value *items;
    size_t length;
    const struct orr_pair *pairs;
    size_t count;
};

/* A reference to a function of a script's: see orr_function_ref(). */
struct orr_function;

struct orr_value {
    enum orr_value_type type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct orr_string string;
        struct orr_table table;
        struct orr_function *function;
    };
};

struct orr_pair {
    struct orr_value key, value; /* the key neither nil nor NaN */
};

/* Tables in tables: at most so deep. */
#define ORR_VALUE_DEPTH 64

/* For short.  `text` ends with a NUL, and is borrowed. */
static inline struct orr_value orr_value_boolean(bool boolean)
{
    struct orr_value value;
    value.type = ORR_BOOLEAN;
    value.boolean = boolean;
    return value;
}

static inline struct orr_value orr_value_integer(int64_t integer)
{
    struct orr_value value;
    value.type = ORR_INTEGER;
    value.integer = integer;
    return value;
}

static inline struct orr_value orr_value_number(double number)
{
    struct orr_value value;
    value.type = ORR_NUMBER;
    value.number = number;
    return value;
}

static inline struct orr_value orr_value_string(const char *text)
{
    struct orr_value value;
    value.type = ORR_STRING;
    value.string.bytes = text;
    value.string.length = strlen(text);
    return value;
}

/*
 * Push a value, for what is done on the stack by hand.  As for orr_lua_call().
 *   -EINVAL   not an isolate, or closing; NULL; somewhere in it a type that there is not, or ORR_OTHER, or a NULL with a length, or a
 *             key that is nil or NaN
 *   -EXDEV    a function of another isolate
 *   -ELOOP    deeper than ORR_VALUE_DEPTH
 *   -ENOMEM
 *   -EBUSY, -EPERM
 * With any of these, nothing is pushed.
 */
ORR_API int orr_lua_push_value(struct lua_State *L, const struct orr_value *value);

/*
 * Look at what is at an index of the stack.  Never copies or converts, and so is for all but tables and functions.  A string is
 * borrowed, for as long as it is on the stack.  As for orr_lua_call(), but nobody checks.
 *   -EINVAL    not an isolate, NULL, nothing at that index
 *   -ENOTSUP   a table or a function
 */
ORR_API int orr_lua_read_value(struct lua_State *L, int index, struct orr_value *value);

/*
 * Copy what is there, tables and functions too; the copy is owned.  Tables are copied as they are, without asking metamethods, and
 * one that is in two places becomes two.  As for orr_lua_call().
 *   -EINVAL   not an isolate, or closing; NULL; nothing at that index
 *   -ELOOP    deeper than ORR_VALUE_DEPTH; a table inside itself always is
 *   -EFBIG    larger, all in all, than the isolate's longest string
 *   -ENOMEM
 *   -EBUSY, -EPERM
 * With any of these, the value is nil.
 */
ORR_API int orr_lua_copy_value(struct lua_State *L, int index, struct orr_value *value);

/*
 * Free what is owned, with all that is in it, and make it nil; freeing nil does nothing.  At the latest before the runtime is freed.
 * Any thread; with functions in it, as for orr_function_unref().
 */
ORR_API void orr_values_free(struct orr_value *values, size_t count);

/*
 * Call the function at a path, such as "on_key" or "game.hooks.draw", among the globals that scripts share, looked up without asking
 * metamethods; and wait for it to return, as orr_lua_call() does, with its deadline.  `result_count` says how many results there is
 * room for, and is told how many there are; those beyond are lost.  They are owned.  Both may be NULL.
 *
 *     struct orr_value sum, numbers[] = { orr_value_integer(1), orr_value_integer(2) };
 *     size_t room = 1;
 *     int error = orr_lua_call_values(L, "add", numbers, 2, &sum, &room, 0);
 *     if (error == -EREMOTEIO && room && sum.type == ORR_STRING)
 *         complain(sum.string.bytes);
 *     orr_values_free(&sum, room);
 *
 * As for orr_lua_call().  The stack is left as it was.  With one result, if there is room, that says why:
 *   -EREMOTEIO   it raised that
 *   -ETIME       "Script execution timeout"
 *   -ENOMEM      or without
 * and with none:
 *   -ENOENT   there is no function
 *   -EINVAL, -EXDEV, -ELOOP   as for orr_lua_push_value(), of the arguments: it was not called; no path
 *   -ELOOP, -EFBIG   as for orr_lua_copy_value(), of the results: it was
 *   -EBUSY    as for orr_lua_call()
 *   -EPERM
 */
ORR_API int orr_lua_call_values(struct lua_State *L, const char *path, const struct orr_value *arguments, size_t count,
                                struct orr_value *results, size_t *result_count, uint64_t deadline_ns);

/*
 * References to functions, as values have them.  Whoever wants to keep one that is borrowed, or beyond orr_values_free(), takes one
 * more.  It keeps the function, but not the isolate: when that is closed, it can only be given up, before the runtime is freed.  NULL
 * is allowed.  As for orr_lua_call(), but nobody checks.
 */
ORR_API struct orr_function *orr_function_ref(struct orr_function *function);
ORR_API void orr_function_unref(struct orr_function *function);

/* As orr_lua_call_values().  -EINVAL: NULL, or its isolate has been closed. */
ORR_API int orr_function_call(struct orr_function *function, const struct orr_value *arguments, size_t count,
                              struct orr_value *results, size_t *result_count, uint64_t deadline_ns);

/* Emit an event, as orr_events_emit(), with data made by the host; NULL for nil.  And as orr_lua_push_value(). */
ORR_API int orr_events_emit_value(struct lua_State *L, const char *name, const struct orr_value *data);

#define ORR_CALL_RESULTS 8

/* A call of a function of the host's, while it lasts. */
struct orr_call {
    struct lua_State *L;
    const struct orr_value *arguments; /* borrowed until the function returns */
    size_t count;
    struct orr_value results[ORR_CALL_RESULTS]; /* for the function to fill in, from the first on; all nil before */
    size_t result_count;
    void (*drop)(void *data); /* called, if set, when the results have been copied: to free what they have borrowed */
    void *drop_data;
    char message[256]; /* of orr_call_fail() */
};

/*
 * Answers 0, or a negative errno, which is raised in the script.  It runs on the worker's thread, and must neither take long nor raise
 * an error of Lua's itself; it may call the isolate.
 */
typedef int orr_call_fn(void *data, struct orr_call *call);

/*
 * Make a function of the host's one that scripts call, at a path among the globals that scripts share, in the place of what is there.
 * Tables on the way are made if they are missing.  `data` must live as long as the isolate.
 *
 *     static int screen_size(void *data, struct orr_call *call)
 *     {
 *         struct screen *screen = find_screen(data, call);
 *         if (!screen)
 *             return orr_call_fail(call, -ENOENT, "there is no such screen");
 *         call->results[0] = orr_value_integer(screen->width);
 *         call->results[1] = orr_value_integer(screen->height);
 *         call->result_count = 2;
 *         return 0;
 *     }
 *     orr_lua_set_function(L, "game.screen.size", screen_size, screens);
 *
 * As for orr_lua_call().  For functions that wait: orr_lua_push_async().
 *   -EINVAL    not an isolate, or closing; no function, no path or one with an empty part
 *   -ENOTDIR   there is something else than a table on the way
 *   -ENOMEM
 *   -EBUSY, -EPERM
 */
ORR_API int orr_lua_set_function(struct lua_State *L, const char *path, orr_call_fn *fn, void *data);

/*
 * For `return orr_call_fail(call, -EINVAL, "expected a name, got %d", n);`: says what the script is told, after its place and the
 * function's path.  Without it, that is what strerror() says.  Answers the error.  Inside the function.
 */
ORR_API int orr_call_fail(struct orr_call *call, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct orr_lua_stats {
    uint64_t tasks; /* that are not done */

    size_t memory_used;
    size_t memory_peak;  /* 0 for a state of the host's own */
    size_t memory_limit; /* 0 for none */

    uint64_t preemptions; /* slices that were suspended */
    uint64_t timeouts;    /* what was ended at its deadline */

    uint64_t events_emitted;   /* by the host, and of those: */
    uint64_t events_refused;   /* the queue was full */
    uint64_t events_dropped;   /* took the place of another */
    uint64_t events_coalesced; /* took the place of another with the same name */

    uint64_t schedule_waiting; /* callbacks */
    uint64_t schedule_errors;  /* callbacks that failed */
    uint64_t schedule_run;     /* callbacks that have begun */

    /* Timers of the module `loop`.  Sleeping tasks are not among them; those of a worker, orr_runtime_stats() counts. */
    uint64_t timers_pending; /* to fire, or to fire again */
    uint64_t timers_fired;
    uint64_t timers_cancelled; /* by scripts, before they fired */
    uint64_t timers_rearmed;   /* started once more before they fired */
    uint64_t timers_migrated;  /* always 0: they stay with the worker of their isolate, and end with it */
    uint64_t timers_dropped;   /* still to fire when their script ended, or when they had timed out too often */
};

/* What an isolate has come to so far.  As for orr_lua_call(), at any time: while a task is suspended, too.  -EINVAL, -EBUSY, -EPERM. */
ORR_API int orr_lua_stats(struct lua_State *L, struct orr_lua_stats *stats);

/* ------------------------------------------------------------------------------------------------------
 * Looking in
 */
enum orr_task_state {
    ORR_TASK_RUNNING, /* is being polled */
    ORR_TASK_READY,   /* will be, soon */
    ORR_TASK_WAITING,
    ORR_TASK_JOINING, /* its body is over, it waits for its children */
    ORR_TASK_ENDING,  /* only I/O that was in flight keeps it */
};

struct orr_task_info {
    struct orr_task *task;
    const char *name;  /* may be NULL */
    unsigned depth;    /* 0 for those at the top */
    unsigned children; /* that are not done */
    enum orr_task_state state;
    const char *waits_for; /* "sleep", "queue get", ...; NULL if nothing that the runtime knows of */
    uint64_t since;        /* it waits, by the runtime's clock, to about a millisecond; 0 if unknown */
    const char *cancelled; /* why; NULL if it is not */
    bool shielded;         /* it is in a shielded scope */
};

/*
 * Shows the tree of the calling thread's worker, or of one task, each task before its children, those in the order in which
 * they were made.  `each` must change nothing.  Answers how many were shown.  -EPERM the calling thread runs no worker.
 */
ORR_API int orr_tree_visit(struct orr_task *top, void (*each)(void *data, const struct orr_task_info *info),
                           void *data);

/* The same as text, a line a task, indented. */
ORR_API int orr_tree_print(struct orr_task *top, void (*line)(void *data, const char *text), void *data);

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
 *   -ECANCELED   the task is cancelled
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

/*
 * Wait for it as for anything else: 0 when it has finished.  If the task is cancelled, or a child fails, the operation is
 * cancelled, and this answers -ECANCELED or -ECHILD when the kernel has let go of the buffer; or 0, if it had finished first.
 *   -EALREADY   it was never started
 */
ORR_API int orr_io_await(struct orr_task *task, struct orr_io *io);

#ifdef __cplusplus
}
#endif
#endif
