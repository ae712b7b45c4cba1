/*
 * orrery.h: run concurrent, structured work inside any program, without ever freezing it.
 *
 * SPDX-License-Identifier: MIT
 *
 * This header is the whole public C API.  A minimal host runs one task, written in C, to its end:
 *
 *     struct orr_runtime *rt = orr_runtime_new(NULL);
 *     orr_spawn(rt, &(struct orr_spawn){ .poll = my_poll, .data = my_data });
 *     orr_runtime_run(rt);
 *     orr_runtime_free(rt);
 *
 * A minimal host of Lua runs one script to its end:
 *
 *     struct lua_State *L;
 *     struct orr_runtime *rt = orr_runtime_new(NULL);
 *     orr_lua_new(rt, NULL, &L);
 *     orr_lua_load(L, &(struct orr_lua_source){ .path = "script.lua" });
 *     orr_lua_start(L, 0, "script", NULL);
 *     orr_runtime_run(rt);
 *     orr_lua_close(L);
 *     orr_runtime_free(rt);
 *
 * Both leave out the checks for errors.
 *
 * Sections
 *
 *   - Every host: Runtimes.
 *   - Hosts of Lua: Lua isolates, Events, Scripts that come and go, Values, Lua statistics.
 *   - Tasks in C: Wakers, Tasks, Results, Waiting, Scopes, Synchronisation, Timers, I/O for tasks,
 *     Inspecting tasks.
 *   - Sockets, pipes and files in C: Streams, Files, Addresses, Sockets and pipes, Datagrams,
 *     Simulated networks.
 *
 * Conventions
 *
 *   - Functions that can fail return a negative errno; their comments name each one.  Success is 0
 *     unless the comment says otherwise.  orr_runtime_new() is the exception: it returns NULL and
 *     sets errno.
 *   - Times are nanoseconds of CLOCK_MONOTONIC, unless the runtime was given another clock.
 *   - Options are structs made with designated initialisers.  A field that is left out is zero, and
 *     zero always means the default.
 *   - After fork() without exec(), the child must not use a runtime of its parent.
 *
 * Threads
 *
 *   - "Any thread": any thread of the process, at any time while the runtime exists.
 *   - "The worker's thread": inside a poll function, a destructor or a timer callback that runs on
 *     that worker; for worker 1 also between orr_runtime_enter() and orr_runtime_leave().
 *   - "Plain code": code of the host that runs outside all of those.
 *   - "The isolate's thread": the thread of the worker that owns the isolate.  If that is worker 1,
 *     plain code too, on any thread while no other thread drives worker 1.  On the wrong thread
 *     these functions return -EPERM, and while another thread drives worker 1 -EBUSY.
 */
#ifndef ORRERY_H
#define ORRERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORR_API __attribute__((visibility("default")))

#define ORR_VERSION_MAJOR 0
#define ORR_VERSION_MINOR 1
#define ORR_VERSION_PATCH 0

/*
 * Returns the version of the library that is running, as "major.minor.patch".  Any thread, and
 * signal handlers.
 */
ORR_API const char *orr_version(void);

/* A point in time that never comes; as an amount of time, no limit. */
#define ORR_NEVER UINT64_MAX

struct orr_runtime;
struct orr_task;

/* A link of the library's lists, inside structs that live in the caller's memory. */
struct orr_link {
    struct orr_link *prev, *next;
};

/* ------------------------------------------------------------------------------------------------
 * Runtimes
 *
 * A runtime is a set of workers, numbered from 1.  Each worker runs tasks on one thread.  Worker 1
 * has no thread of its own: the host drives it, one turn at a time from the host's own loop, or
 * with orr_runtime_run().  The other workers have a thread each.  A process may have any number of
 * runtimes; together they may have ORR_WORKERS_MAX workers.
 */
#define ORR_WORKERS_MAX 1000
#define ORR_TASKS_MAX 4194240
#define ORR_TASKS_DEFAULT 1048576

/*
 * How workers do I/O.  Each worker, and each pool thread, has a reactor of its own.
 *
 * AUTO never fails for want of io_uring.  A worker whose ring the kernel refuses, for any reason,
 * uses epoll, and so do the workers that open after it; the log says so in one line.  So the
 * workers of one runtime may differ: struct orr_stats tells which reactor each one has.  Common
 * reasons are an old kernel, a container that forbids io_uring, and the limit of the user's locked
 * memory (`ulimit -l`): many kernels count a ring towards it, with about 30 KB.
 *
 * A reactor that is asked for by name is the one that all workers have; if one worker cannot have
 * it, orr_runtime_new() fails.
 */
enum orr_reactor {
    ORR_REACTOR_AUTO,  /* io_uring where the kernel allows it, else epoll */
    ORR_REACTOR_URING, /* Linux 5.13 or later */
    ORR_REACTOR_EPOLL,
};

enum orr_clock {
    /* CLOCK_MONOTONIC: never goes back, stops while the machine is suspended. */
    ORR_CLOCK_MONOTONIC,
    /* Stops while anything is ready or in flight, then jumps to the next deadline. */
    ORR_CLOCK_VIRTUAL,
    ORR_CLOCK_MANUAL, /* moves only by orr_runtime_advance() */
};

/* Returns "auto", "uring" or "epoll"; NULL for any other value. */
ORR_API const char *orr_reactor_name(enum orr_reactor reactor);

enum orr_log {
    ORR_LOG_ERROR,
    ORR_LOG_WARNING,
    ORR_LOG_INFO,
};

/*
 * Allocates, moves and frees memory.  With `size` 0 it frees `block` and returns NULL.  Else it
 * returns a block of `size` bytes, with the contents of `block` if that is not NULL; or NULL, if
 * there is no memory.
 *
 * The function must be thread-safe if the runtime has more than one worker, or if other threads
 * spawn tasks or use timers.  It must stay usable until the last timer has been freed.
 *
 * All memory of the runtime comes from it, with two exceptions.  Memory that a waker may read after
 * the runtime is gone belongs to the process, which reuses it: 16 bytes for each task that a worker
 * had at once, and one eventfd for each worker.  libc and the kernel allocate threads and rings.
 */
typedef void *orr_alloc_fn(void *data, void *block, size_t old_size, size_t size);

/*
 * Receives one line, without a newline, on the thread that logs it.  A message of several lines,
 * such as an error with its stack, comes in as many calls, one after the other; if several threads
 * log, their lines may come in between.  Lines about an isolate begin with its name and a colon.
 *
 * A line has at most 1,000 bytes, and a message about 100 lines.  What is left out is counted, as
 * in "... (517 bytes more)" or "... (20 lines more)".
 */
typedef void orr_log_fn(void *data, enum orr_log level, const char *message);

/*
 * Receives a failed task whose failure nobody awaited or read, and that has no parent left to fail.
 * The task and the children that caused its failure are done.  orr_task_result(), orr_task_cause()
 * and orr_task_errors() say why it failed.  Called on the worker's thread.
 */
typedef void orr_sink_fn(void *data, struct orr_task *task);

/*
 * Receives the news of a deadlock on a virtual clock: tasks wait, and nothing can wake them.  No
 * task is ready, no timer is set, no I/O is in flight, and no future awaits completion from
 * outside.
 *
 * Called inside orr_runtime_run() or orr_runtime_turn(), outside any task, on the thread that
 * drives worker 1.  The function may inspect the tree of tasks.  It may also end the deadlock:
 * cancel a task, complete a future or call into an isolate.  If it does not, it is called again in
 * each turn that ends in a deadlock.
 */
typedef void orr_deadlock_fn(void *data);

struct orr_options {
    unsigned workers; /* 1 to ORR_WORKERS_MAX; default 1 */

    /* Threads for jobs of Lua's `worker` module, started with the first job: 1 to ORR_WORKERS_MAX.
     * Default: one for each core. */
    unsigned pool_threads;

    /* Live tasks of each worker: 1 to ORR_TASKS_MAX; default ORR_TASKS_DEFAULT. */
    unsigned max_tasks;
    enum orr_reactor reactor; /* default ORR_REACTOR_AUTO */
    enum orr_clock clock;     /* default ORR_CLOCK_MONOTONIC */

    /* Microseconds that an idle worker looks for work before it sleeps, at most 1000; -1 for none.
     * Default: 20.  With two or three cores that the process may run on: 50, but only while its
     * sleeps are short and looking finds something.  With one: none. */
    int spin_us;

    orr_alloc_fn *alloc; /* default: realloc and free */
    void *alloc_data;
    orr_log_fn *log; /* default: errors and warnings go to stderr */
    void *log_data;
    orr_sink_fn *sink; /* receives failures that nobody observed; default: the log */
    void *sink_data;
    int preempt_signal; /* interrupts Lua that runs for too long; default SIGRTMIN + 4 */

    /* Milliseconds in which the tasks of a worker, an isolate or a script must clean up when
     * they are cancelled at its end.  One period for all of these tasks together.  Default:
     * 1000. */
    unsigned grace_ms;

    orr_deadlock_fn *deadlock; /* default: the tree of tasks goes to the log */
    void *deadlock_data;

    /* For tests: seeds the random choice among ready tasks whose order is not promised.
     * Default 0: the first one. */
    uint64_t shuffle_seed;
};

/*
 * Creates a runtime and starts the threads of workers 2 and up.  `options` may be NULL; it is not
 * kept.  Any thread.  Returns NULL on failure, sets errno and logs one line that says why:
 *   EINVAL   an option is out of range
 *   ENOMEM, EMFILE, ENFILE, EAGAIN   no memory, descriptors or threads are left.  ENOMEM also if
 *            ORR_REACTOR_URING was asked for and the user's locked memory is used up
 *   ENOSYS, EPERM   ORR_REACTOR_URING was asked for, and the kernel has no io_uring or forbids it
 *   ENOSPC   the process has ORR_WORKERS_MAX workers, or its user watches too many descriptors
 */
ORR_API struct orr_runtime *orr_runtime_new(const struct orr_options *options);

/*
 * Stops the runtime, ends every task and frees everything.  NULL is allowed and does nothing.
 *
 * Tasks are cancelled and get the grace period, in real time, to clean up.  The runtime does not
 * wait for a task that waits for nothing the runtime knows of.  After the period, the tree of the
 * remaining tasks goes to the log and these tasks are ended; their Lua does not run again.  Each
 * task's destructor runs once: on its worker's thread, and for worker 1 on the calling thread.
 *
 * Other threads may go on using wakers, timers and futures.  Nothing else of the runtime may be
 * used once this call has begun; that includes references to tasks.
 *   -EINVAL   not a runtime
 *   -EBUSY    a turn is under way: this is a poll function, or another thread drives the runtime.
 *             Nothing was done
 */
ORR_API int orr_runtime_free(struct orr_runtime *rt);

/*
 * Drives worker 1 until no worker has a task or a timer left, or until orr_runtime_stop().  Sleeps
 * while there is nothing to do.  Returns 0 when everything is done.  It may be called again, after
 * more tasks were spawned.
 *   -EINVAL      not a runtime
 *   -EBUSY       a turn is under way already
 *   -ECANCELED   the runtime was stopped
 *   -EINTR       orr_runtime_interrupt() was called
 *   -EDEADLK     on a virtual clock: tasks wait, and nothing can wake them (see orr_deadlock_fn).
 *                The log has received the tree of tasks, or `deadlock` was called and did not help
 */
ORR_API int orr_runtime_run(struct orr_runtime *rt);

/*
 * Stops the runtime for good.  Workers 2 and up end their tasks and their threads,
 * orr_runtime_run() returns, and orr_spawn() and orr_runtime_turn() return -ESHUTDOWN.
 * orr_runtime_free() does the rest.  Any thread, and signal handlers.
 *   -EINVAL   not a runtime
 */
ORR_API int orr_runtime_stop(struct orr_runtime *rt);

/*
 * Makes orr_runtime_run() return -EINTR between two turns: the call under way, or the next one.
 * The host can then handle a signal, for example, and call orr_runtime_run() again.  Several
 * interrupts before that return count as one.  Nothing is stopped or lost.  Any thread, and signal
 * handlers.
 *   -EINVAL   not a runtime
 */
ORR_API int orr_runtime_interrupt(struct orr_runtime *rt);

/*
 * Returns a descriptor for hosts with a loop of their own.  It is readable while orr_runtime_turn()
 * has something to do: a task is ready, another thread has woken one, I/O has finished, or a
 * deadline has passed.  Watch it for input with poll, level-triggered epoll or any main loop.  Do
 * not read or close it: it belongs to the runtime.  The result is always the same.  Call it between
 * turns, on the thread that drives them.
 *
 * With ORR_REACTOR_URING, I/O that finishes may interrupt the host's own poll with EINTR, as a
 * signal would.
 *   -EINVAL   not a runtime
 *   -EBUSY    a turn is under way
 *   -EMFILE, -ENFILE, -ENOMEM, -ENOSPC   no descriptor can be created or watched
 */
ORR_API int orr_runtime_fd(struct orr_runtime *rt);

/*
 * Runs one turn of worker 1: collects finished I/O, takes in wakes and polls ready tasks.  Never
 * blocks.  Polls at least one ready task.  Then goes on until no task is ready, `budget_ns` is used
 * up, or 256 tasks were polled.  A task that wakes itself is polled again in the next turn.
 *
 * Returns 1 if there is more to do now, 0 if the host may sleep.  Turns may move from thread to
 * thread, one at a time.
 *   -EINVAL      not a runtime
 *   -EBUSY       a turn is under way already, on this or another thread
 *   -ESHUTDOWN   the runtime was stopped
 */
ORR_API int orr_runtime_turn(struct orr_runtime *rt, uint64_t budget_ns);

/*
 * Uses time that the host has left, for example between two frames: collects garbage of worker 1's
 * Lua states in short steps, for at most `budget_ns`.  Later turns then have less to collect.
 * Polls no task, and runs no Lua except finalizers.  Returns 1 if more could be collected, else 0.
 *   -EINVAL   not a runtime
 *   -EBUSY    a turn is under way
 */
ORR_API int orr_runtime_idle(struct orr_runtime *rt, uint64_t budget_ns);

/*
 * Returns the time of the next turn, as far as it is known now: 0 if there is something to do at
 * once, ORR_NEVER if nothing is ready and no timer is set.  Other threads and I/O may make a turn
 * necessary earlier.
 *
 * A host that watches the descriptor does not need it: the descriptor becomes readable at that
 * time, and earlier if I/O or another thread wants a turn.  It is for
 *   - hosts that turn in a rhythm of their own, such as a game that turns once in each frame, and
 *     want to know how long they may sleep, or whether a script has work left (0);
 *   - main loops that ask for a timeout before they poll, as a GSource is asked;
 *   - a manual clock (ORR_CLOCK_MANUAL), which has no descriptor for its deadlines: it says how far
 *     to advance.
 * A host that sleeps until then without the descriptor hears of I/O and of other threads late.
 *
 * Call it between turns, on the thread that drives them.  Returns ORR_NEVER if `rt` is not a
 * runtime.
 */
ORR_API uint64_t orr_runtime_next_deadline(struct orr_runtime *rt);

/* Returns the time of the runtime's clock.  Any thread.  0 if `rt` is not a runtime. */
ORR_API uint64_t orr_runtime_now(struct orr_runtime *rt);

/*
 * Returns the time as a worker last read it.  This is one load, while orr_runtime_now() reads the
 * clock.  During a long turn the time service refreshes the worker's reading about every
 * millisecond, as long as somebody asks for it.  Two readings, or a reading and orr_runtime_now(),
 * may be out of order by as much.  Any thread.  Returns 0 if `rt` is not a runtime or has no such
 * worker.
 */
ORR_API uint64_t orr_worker_now(struct orr_runtime *rt, unsigned worker);

/*
 * Moves a virtual or manual clock forward.  Timers that become due fire in the next turns.  Any
 * thread.
 *   -EINVAL   not a runtime
 *   -EPERM    the runtime uses the machine's clock
 */
ORR_API int orr_runtime_advance(struct orr_runtime *rt, uint64_t ns);

/*
 * Ends one worker for good, other than the first.  Its tasks are ended on its thread, its timers
 * move to other workers, and spawning on it returns -ESHUTDOWN.  The call returns at once; the
 * thread ends after its turn.  Any thread.
 *
 * Timers move to workers that take turns.  Worker 1 is one of them while orr_runtime_run() drives
 * it or its descriptor is in use.  When orr_runtime_run() returns, worker 1 hands these timers on.
 * If no other worker takes turns, the timers are held until the host turns worker 1.
 *   -EINVAL   not a runtime, no such worker, or worker 1, which ends when the host stops driving it
 */
ORR_API int orr_worker_stop(struct orr_runtime *rt, unsigned worker);

/*
 * Makes the calling thread the thread of worker 1, until orr_runtime_leave().  Plain code can then
 * call functions that belong on the worker's thread.
 *   -EINVAL   not a runtime; for orr_runtime_leave(), a runtime that this thread has not entered
 *   -EBUSY    a turn is under way, on this or another thread
 */
ORR_API int orr_runtime_enter(struct orr_runtime *rt);
ORR_API int orr_runtime_leave(struct orr_runtime *rt);

struct orr_stats {
    uint64_t tasks_spawned;
    uint64_t tasks_live;
    uint64_t polls;
    uint64_t wakes_local;     /* wakes by the worker's own thread that made a task ready */
    uint64_t wakes_foreign;   /* wakes by other threads: one for each entry in an inbox */
    uint64_t wakes_coalesced; /* wakes by other threads whose task was in the inbox already */
    /* Wake-ups of a worker with I/O in flight, or of a host's descriptor. */
    uint64_t eventfd_writes;
    uint64_t futex_wakes; /* all other wake-ups of a worker */
    uint64_t sleeps;
    uint64_t turns;

    uint64_t timers_pending;
    uint64_t timers_fired;
    uint64_t timers_cancelled;
    uint64_t timers_rearmed;
    /* Left a worker that ended, or worker 1 when the host stopped driving it. */
    uint64_t timers_migrated;

    /* Migrated timers that no worker has: they wait for a worker that takes turns, or are on
     * their way to one.  They count as pending, too.  Only in the sum over all workers. */
    uint64_t timers_held;

    uint64_t timers_stale;    /* cancelled by another thread, and still in the wheel */
    uint64_t timers_scrubbed; /* stale timers that were removed from the wheel */
    uint64_t lateness_p50_ns; /* from a timer's deadline to its firing */
    uint64_t lateness_p99_ns;
    uint64_t lateness_max_ns;
    uint64_t service_wake_ups; /* wake-ups of the time service; only in the sum over all workers */
    /* Longest delay of one of its ticks; only in the sum over all workers. */
    uint64_t service_lag_ns;

    unsigned workers;
    enum orr_reactor reactor; /* the one in use, never AUTO; in the sum, that of worker 1 */

    /* Timers given up because the runtime ended, or their worker if they were local.  Only in
     * the sum over all workers. */
    uint64_t timers_dropped;
};

/*
 * Reads the counters of one worker, or their sum over all workers for worker 0.  Counters are read
 * one by one while the workers run, so they need not add up exactly.  Any thread.
 *   -EINVAL   not a runtime, no such worker, or `stats` is NULL
 */
ORR_API int orr_runtime_stats(struct orr_runtime *rt, unsigned worker, struct orr_stats *stats);

/* ------------------------------------------------------------------------------------------------
 * Wakers
 *
 * A waker names one task, for ever.  It is a value: copy it by assignment, store it anywhere,
 * forget it at any time.  Waking does nothing once the task is done, also when another task uses
 * its slot or the runtime is gone.  The zero value names no task.
 */
struct orr_waker {
    uint64_t bits;
};

/*
 * Makes the task be polled again, soon.  Several wakes before that poll cause one poll.  The poll
 * sees everything that the caller wrote before this call.  Any thread, but not a signal handler.
 */
ORR_API void orr_waker_wake(struct orr_waker waker);

/*
 * Wakes a task from a signal handler.  The handler may have interrupted anything, the library
 * included.  Preserves errno.
 */
ORR_API void orr_waker_wake_signal(struct orr_waker waker);

/* ------------------------------------------------------------------------------------------------
 * Tasks
 *
 * A task is a function that is polled until it is done.  It is polled first soon after it was
 * spawned, then after each wake.  It may also be polled without a wake, so it checks its condition
 * each time.  A task stays on its worker for life: its poll function and its destructor run on that
 * worker's thread.
 *
 * Tasks form a tree.  A task spawned while another one is polled is a child of that one, unless the
 * options say otherwise.
 *
 *   - A task is done when its body and all its children are done.  A body that has returned
 *     ORR_DONE is not polled again.
 *   - A child's failure goes up.  It interrupts what the parent waits for, once, and the parent
 *     runs before other ready tasks, the child's siblings included.  If the parent does not handle
 *     the failure there, the parent's other children are cancelled, and when they are done the
 *     parent fails with the child's error.
 *   - A cancelled child has not failed.  A failure does not go up if somebody awaits the child, or
 *     has read its result.
 *   - Cancellation goes down: to the task, then to its children in the order of their creation, and
 *     so on.  It is permanent: every later wait of a cancelled task returns -ECANCELED.
 */
enum orr_poll {
    ORR_DONE,    /* the body is over; the task ends, with its result, when its children are done */
    ORR_PENDING, /* the body waits for a wake */
};

/* Polls a task: runs its body until it waits or is done.  `data` is that of struct orr_spawn. */
typedef enum orr_poll orr_poll_fn(struct orr_task *task, void *data);

#define ORR_HERE 0 /* the calling thread's worker; in plain code, worker 1 */

struct orr_spawn {
    orr_poll_fn *poll; /* required */
    void *data;        /* passed to `poll` and `drop` */
    /* Destructor: called once, when the task and its children are done; may be NULL. */
    void (*drop)(void *data);
    unsigned worker;  /* a worker's number, or ORR_HERE */
    const char *name; /* for people; copied; may be NULL */

    /* Default: the task that is being polled on the calling thread.  No parent outside tasks,
     * and for a task on another worker. */
    struct orr_task *parent;

    bool detached;  /* the task has no parent */
    bool supervise; /* a failed child neither interrupts this task nor ends its siblings; the task
                       fails at its end */

    /* Written before orr_spawn() returns; only for tasks on the calling thread's own worker. */
    struct orr_waker *waker; /* receives the task's waker; may be NULL */
    /* Receives a reference, for orr_task_unref() to give up; may be NULL. */
    struct orr_task **task;
};

/*
 * Creates a task.  On failure nothing is kept, and `drop` is not called.  Any thread.
 *   -EINVAL     not a runtime, no poll function, no such worker, or both a parent and `detached`
 *   -EXDEV      `waker`, `task` or `parent` was given, but the calling thread does not run that
 *               worker
 *   -ESRCH      the parent is done
 *   -EAGAIN     the worker has max_tasks tasks
 *   -ENOMEM
 *   -ESHUTDOWN  the runtime was stopped; now only a task that cleans up may create children
 *
 * A spawn on another worker, or from plain code, is sent to that worker.  If the worker then has no
 * memory for the task, it logs that and calls `drop`.
 */
ORR_API int orr_spawn(struct orr_runtime *rt, const struct orr_spawn *what);

/*
 * Returns the task's waker.  The zero waker for NULL, and for a task whose body is over.  The
 * worker's thread.
 */
ORR_API struct orr_waker orr_task_waker(const struct orr_task *task);

/* Wakes the task itself, so that other tasks run first: `return orr_task_yield(task);`. */
ORR_API enum orr_poll orr_task_yield(struct orr_task *task);

/* Return the task's runtime, worker and name; NULL, 0 and NULL for NULL.  The worker's thread. */
ORR_API struct orr_runtime *orr_task_runtime(const struct orr_task *task);
ORR_API unsigned orr_task_worker(const struct orr_task *task);
ORR_API const char *orr_task_name(const struct orr_task *task);

/* Returns the task that is being polled on this thread; NULL outside poll functions. */
ORR_API struct orr_task *orr_task_current(void);

/*
 * Ends the body of a task at once, without asking it; orr_task_cancel() asks.  The task's waits are
 * given up and its children are cancelled.  If it has no children and no I/O in flight, its
 * destructor has run when this returns.  Else the destructor runs when the children are done and
 * the kernel has released the buffers.  The worker's thread.
 *   -ESRCH   the task has finished, or the waker names no task
 *   -EPERM   the task lives on another thread's worker
 *   -EBUSY   the task is being polled: let it return ORR_DONE
 */
ORR_API int orr_task_drop(struct orr_waker task);

/*
 * References.  A struct orr_task * is valid inside its own poll function and while somebody holds a
 * reference to it.  A reference keeps the task's result readable after the task and its whole tree
 * are done.  Give it up before the runtime is freed.  The worker's thread.
 */
ORR_API struct orr_task *orr_task_ref(struct orr_task *task);
ORR_API void orr_task_unref(struct orr_task *task); /* NULL is allowed */

/* ------------------------------------------------------------------------------------------------
 * Results
 *
 * The result of a task or a future is a value, or an error that may come with a value too.  The
 * value belongs to the task or the future, and is dropped with the last reference to it.
 */
struct orr_result {
    int error;                 /* 0, or a negative errno */
    const char *message;       /* for people; must live as long as the value; may be NULL */
    void *value;               /* may be NULL */
    void (*drop)(void *value); /* may be NULL; a future calls it on the thread of its last unref */
};

/*
 * Sets the task's result and returns ORR_DONE, for
 * `return orr_task_finish(task, (struct orr_result){ .value = answer, .drop = free });`.
 * A task that never calls it has the result 0 without a value.
 */
ORR_API enum orr_poll orr_task_finish(struct orr_task *task, struct orr_result result);

/*
 * Sets an error as the task's result and returns ORR_DONE, for `return orr_task_fail(task,
 * error);`.  `error` may be what a wait returned: -ECHILD passes the child's failure on, and
 * -ECANCELED in a cancelled task is not a failure.
 */
ORR_API enum orr_poll orr_task_fail(struct orr_task *task, int error);

/*
 * Returns whether the task and its children are done.  The worker's thread, as for all functions in
 * the rest of this section.
 */
ORR_API bool orr_task_done(const struct orr_task *task);

/*
 * Returns the task's result; NULL until the task is done.  A task that failed because of a child
 * has the child's result.  Reading the result observes it: a failure that has not been passed up
 * yet stays here.
 */
ORR_API const struct orr_result *orr_task_result(struct orr_task *task);

/* Returns the child that made a done task fail; NULL if it did not fail, or failed by itself. */
ORR_API struct orr_task *orr_task_cause(const struct orr_task *task);

/*
 * Returns the child for whose failure a wait of this task last returned -ECHILD; NULL once the task
 * waits again.
 */
ORR_API struct orr_task *orr_task_failed_child(const struct orr_task *task);

/*
 * Calls `each` with every error of a task and the task in which it arose: first the error that the
 * task failed with, then the later ones.  It works inside a body that was told -ECHILD, too.
 */
ORR_API void orr_task_errors(struct orr_task *task,
                             void (*each)(void *data, struct orr_task *origin, const struct orr_result *result),
                             void *data);

/*
 * Sets a task's result from outside.  Its body and its children are cancelled; when they are done,
 * the task is done with this result, whatever they return.
 *   -EINVAL     NULL
 *   -EALREADY   the task has a result; the value still belongs to the caller
 *   -EPERM      not the worker's thread
 */
ORR_API int orr_task_complete(struct orr_task *task, struct orr_result result);

/*
 * Calls a function when the task is done, or at once if it is done already.  Observers and waiting
 * tasks are told in the order in which they came.  `observer` is the caller's memory; it may be
 * reused after the call, or after orr_task_unobserve().
 *   -EINVAL   NULL, or no function
 *   -EBUSY    the observer is in use
 *   -EPERM    not the worker's thread
 */
struct orr_observer;
ORR_API int orr_task_observe(struct orr_task *task, struct orr_observer *observer);
ORR_API void orr_task_unobserve(struct orr_observer *observer);

/*
 * Makes a task independent of its parent.  An undelivered failure is discarded.
 *   -EINVAL   NULL
 *   -ESRCH    the task is done, and has no undelivered failure
 *   -EPERM    not the worker's thread
 */
ORR_API int orr_task_detach(struct orr_task *task);

/*
 * Cancels a task and all tasks below it.  A waiting task is woken at once and its wait returns
 * -ECANCELED; a running task learns of it at its next wait.  I/O in flight is cancelled.  `reason`
 * is for people and may be NULL.  It is not copied: pass a string literal.
 *   -EINVAL   NULL
 *   -ESRCH    the task is done
 *   -EPERM    not the worker's thread
 */
ORR_API int orr_task_cancel(struct orr_task *task, const char *reason);

/*
 * Returns the reason for which the task's next wait would return -ECANCELED; NULL if it would not.
 */
ORR_API const char *orr_task_cancelled(const struct orr_task *task);

/* ------------------------------------------------------------------------------------------------
 * Waiting
 *
 * All waits have one form.  They take the task that is being polled and a struct orr_wait in the
 * task's memory, zeroed once:
 *
 *     int error = orr_sleep(task, &self->wait, 100 * MILLISECONDS);
 *     if (error == -EAGAIN)
 *         return ORR_PENDING;           call it again with the same arguments in the next poll
 *     if (error)
 *         return orr_task_fail(task, error);
 *
 * A wait returns 0 when what it waited for has happened or belongs to the task.  Else it returns
 *   -EAGAIN      not yet; the task will be woken
 *   -ECANCELED   the task is cancelled, and did not get what it waited for
 *   -ECHILD      a child has failed: see orr_task_failed_child().  Returned once for each such
 *                child
 *   -EPERM       this task is not being polled, or the object belongs to another worker
 *   -EBUSY       this orr_wait waits for something else
 *   -EINVAL      NULL
 * and sometimes other errors, which the function's comment names.
 *
 * After any result but -EAGAIN the orr_wait may be used again.  A task may wait for several things
 * at once, with one orr_wait each, and withdraw those it no longer wants.  Nothing is lost when a
 * body ends before it has taken what it was granted: that passes on to the next waiter.
 */
struct orr_wait {
    /* Owned by the library.  Zero it before the first use. */
    struct orr_link in_owner;
    union {
        void *source;
        uint64_t word;
    };
    struct orr_link in_source;
    uint64_t value;
    void *owner;
    const struct orr_wait_kind *kind;
    uint32_t since;
    uint16_t since_high;
    uint8_t state;
    bool grouped;
};

/* A callback for orr_task_observe(). */
struct orr_observer {
    void (*done)(struct orr_task *task, void *data);
    void *data;
    struct orr_wait wait; /* owned by the library; zero it before the first use */
};

/* Gives up a wait.  Does nothing if it does not wait.  The worker's thread. */
ORR_API void orr_wait_withdraw(struct orr_wait *wait);

/*
 * Waits until another task is done.  orr_task_result() then says how it ended.
 *   -EDEADLK   `other` is this task, or is above it in the tree and so waits for it
 */
ORR_API int orr_task_await(struct orr_task *task, struct orr_wait *wait, struct orr_task *other);

/*
 * Waits for an amount of time, counted from the first call; or until a time of the runtime's clock.
 * 0 ns lets other tasks run first.
 */
ORR_API int orr_sleep(struct orr_task *task, struct orr_wait *wait, uint64_t ns);
ORR_API int orr_sleep_until(struct orr_task *task, struct orr_wait *wait, uint64_t deadline);

/* Returns at once, as a wait for nothing: 0, -ECANCELED or -ECHILD. */
ORR_API int orr_checkpoint(struct orr_task *task);

/*
 * A group waits for several things together.  It is zeroed memory of one task.  First add each
 * wait, then begin it with its own function.  Waits that return -EAGAIN are pending in the group;
 * the others have left it.  orr_group_next() returns the granted waits in the order in which they
 * were granted; call the function of each once more to take what it was granted.
 */
struct orr_group {
    /* Owned by the library.  Zero it before the first use. */
    struct orr_wait wait;
    struct orr_link *pending, *granted;
};

/*
 * Adds a wait that has not begun.
 *   -EINVAL   NULL
 *   -EBUSY    the wait has begun already
 */
ORR_API int orr_group_add(struct orr_group *group, struct orr_wait *wait);

/* Waits for the next granted wait and stores it in `*next`; NULL there if none is left. */
ORR_API int orr_group_next(struct orr_task *task, struct orr_group *group, struct orr_wait **next);

/* Wait for the first wait and withdraw the others; or wait until all are granted. */
ORR_API int orr_wait_any(struct orr_task *task, struct orr_group *group, struct orr_wait **first);
ORR_API int orr_wait_all(struct orr_task *task, struct orr_group *group);

/* Withdraws all waits that are left in the group. */
ORR_API void orr_group_clear(struct orr_group *group);

/* ------------------------------------------------------------------------------------------------
 * Scopes
 *
 * A scope is a block of a task's body; it may last many polls.  Children created in it are done
 * when the task has left it.  A scope can have a deadline, shield its contents from cancellation
 * outside, or supervise its children.  Scopes nest.
 *
 *     orr_scope_enter(task, &self->scope, &(struct orr_scope_options){ .timeout_ns = SECOND });
 *     ... waits, children ...
 *     error = orr_scope_leave(task, &self->wait, &self->scope, error);   repeat while it is -EAGAIN
 */
struct orr_nest {
    struct orr_link *children, *failures;
    const char *reason;
    uint32_t flags;
    uint32_t serial;
};

struct orr_scope {
    /* Owned by the library.  Zero it before the first use. */
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
    uint64_t timeout_ns; /* cancels the contents after this time; 0: never */
    bool move_on;        /* after a timeout, orr_scope_leave() returns 0 instead of -ETIMEDOUT */
    bool shield;         /* cancellation and failures outside do not reach the contents */
    bool supervise;      /* a failed child interrupts neither its siblings nor the block;
                            orr_scope_leave() reports it */
};

/*
 * Enters a scope.  `options` may be NULL.  The scope's memory must stay valid until the task has
 * left the scope, or the task's destructor runs.
 *   -EINVAL   NULL
 *   -EBUSY    this scope is in use
 *   -EPERM    the task is not being polled
 */
ORR_API int orr_scope_enter(struct orr_task *task, struct orr_scope *scope, const struct orr_scope_options *options);

/*
 * Leaves the innermost scope.  `error` is the result of the block: 0 or a negative errno.  If it is
 * an error, or a child has failed, the other children are cancelled.  Waits until the children are
 * done; a cancelled task waits for them, too.  Then returns 0 if the block is done, if it was
 * cancelled by orr_scope_cancel(), or if it timed out and `move_on` is set.  Else
 *   -ETIMEDOUT   the deadline ended the block
 *   -ECHILD      a child has failed, and nobody has observed it
 *   -ECANCELED   the task was cancelled from outside
 *   -EINVAL      not the innermost scope of this task
 *   or `error`.
 */
ORR_API int orr_scope_leave(struct orr_task *task, struct orr_wait *wait, struct orr_scope *scope, int error);

/*
 * Cancels the contents of a scope, and all tasks below.
 *   -EINVAL   NULL, or a scope that is not in use
 *   -EPERM    not the worker's thread
 */
ORR_API int orr_scope_cancel(struct orr_scope *scope, const char *reason);

/* ------------------------------------------------------------------------------------------------
 * Synchronisation
 *
 * Events, semaphores, mutexes, conditions and queues serve the tasks of one worker: the worker on
 * whose thread they were created.  They need no atomic operation.  Futures serve any thread.
 *
 * Waiting tasks are served in the order of their arrival; no task overtakes another.  An object
 * that tasks wait for is not freed: freeing it returns -EBUSY and does nothing.  NULL may be freed.
 *
 * Creating an object returns -EINVAL for NULL, -ENOMEM, or -EPERM if the calling thread runs no
 * worker.  The other functions, except the waits, return -EINVAL for NULL and -EPERM on other
 * threads.
 */

/*
 * An event stays set until it is cleared.  Tasks wait until it is set.  orr_event_set() returns how
 * many tasks it woke.  orr_event_wake() wakes at most `n` tasks without setting the event, and
 * returns how many.
 */
struct orr_event;
ORR_API int orr_event_new(struct orr_event **event);
ORR_API int orr_event_free(struct orr_event *event);
ORR_API int orr_event_wait(struct orr_task *task, struct orr_wait *wait, struct orr_event *event);
ORR_API int orr_event_set(struct orr_event *event);
ORR_API int orr_event_wake(struct orr_event *event, unsigned n);
ORR_API int orr_event_clear(struct orr_event *event);
ORR_API bool orr_event_is_set(const struct orr_event *event);

/*
 * A semaphore has a number of permits.  A task acquires one and gives it back with a release.
 * orr_semaphore_try() returns 0 or -EAGAIN, without waiting.  Releasing more than were acquired
 * returns -EOVERFLOW.  A semaphore made with 0 permits counts: each release adds one.
 */
struct orr_semaphore;
ORR_API int orr_semaphore_new(uint32_t permits, struct orr_semaphore **semaphore);
ORR_API int orr_semaphore_free(struct orr_semaphore *semaphore);
ORR_API int orr_semaphore_acquire(struct orr_task *task, struct orr_wait *wait, struct orr_semaphore *semaphore);
ORR_API int orr_semaphore_try(struct orr_semaphore *semaphore);
ORR_API int orr_semaphore_release(struct orr_semaphore *semaphore);
ORR_API uint32_t orr_semaphore_free_permits(const struct orr_semaphore *semaphore);

/*
 * A mutex belongs to one task at a time.  Locking it twice returns -EDEADLK; unlocking it in
 * another task returns -EPERM.  orr_mutex_try() does not wait; it returns -EAGAIN instead.  If the
 * owner ends without unlocking the mutex, the next task that locks it owns it and gets
 * -EOWNERDEAD.  A locked mutex may be freed; its owner then owns nothing.
 */
struct orr_mutex;
ORR_API int orr_mutex_new(struct orr_mutex **mutex);
ORR_API int orr_mutex_free(struct orr_mutex *mutex);
ORR_API int orr_mutex_lock(struct orr_task *task, struct orr_wait *wait, struct orr_mutex *mutex);
ORR_API int orr_mutex_try(struct orr_task *task, struct orr_mutex *mutex);
ORR_API int orr_mutex_unlock(struct orr_task *task, struct orr_mutex *mutex);
ORR_API bool orr_mutex_locked(const struct orr_mutex *mutex);

/*
 * A condition lets tasks wait for a change of what a mutex protects.  orr_condition_wait() unlocks
 * the mutex, which the task must own (-EPERM), and locks it again before it returns anything but
 * -EAGAIN.  That includes cancellation: a cancelled wait goes on until it has the mutex.  It may
 * return 0 without a notification, so check again what you wait for.  orr_condition_notify() wakes
 * at most `n` tasks and returns how many.
 */
struct orr_condition;
ORR_API int orr_condition_new(struct orr_condition **condition);
ORR_API int orr_condition_free(struct orr_condition *condition);
ORR_API int orr_condition_wait(struct orr_task *task, struct orr_wait *wait, struct orr_condition *condition,
                               struct orr_mutex *mutex);
ORR_API int orr_condition_notify(struct orr_condition *condition, unsigned n);

/*
 * A queue passes items on in order.  Putting waits while the queue holds `capacity` items (0: no
 * bound), and may return -ENOMEM; getting waits while the queue is empty.  orr_queue_try_put() and
 * orr_queue_try_get() return -EAGAIN instead of waiting.  After orr_queue_close(), putting returns
 * -EPIPE, and getting returns -EPIPE once the queue is empty; tasks that wait are told.  An item
 * belongs to the task that gets it; `drop` receives the items left in a queue that is freed.
 */
struct orr_queue;
ORR_API int orr_queue_new(size_t capacity, void (*drop)(void *item), struct orr_queue **queue);
ORR_API int orr_queue_free(struct orr_queue *queue);
ORR_API int orr_queue_put(struct orr_task *task, struct orr_wait *wait, struct orr_queue *queue, void *item);
ORR_API int orr_queue_get(struct orr_task *task, struct orr_wait *wait, struct orr_queue *queue, void **item);
ORR_API int orr_queue_try_put(struct orr_queue *queue, void *item);
ORR_API int orr_queue_try_get(struct orr_queue *queue, void **item);
ORR_API int orr_queue_close(struct orr_queue *queue);
ORR_API size_t orr_queue_length(const struct orr_queue *queue);

/*
 * A future is a result that will come from anywhere: the bridge from callbacks and from other
 * threads.  Any thread may complete it, at any time, also after the runtime is gone.  The tasks of
 * one worker can wait for it.
 */
struct orr_future;

struct orr_future_options {
    unsigned worker; /* the worker whose tasks will wait for it; default ORR_HERE */
    /* Something outside the runtime completes it: a virtual clock stops until then. */
    bool foreign;
};

/*
 * Creates a future with one reference.  `options` may be NULL.  Any thread.
 *   -EINVAL   not a runtime, NULL, or no such worker
 *   -ENOMEM
 *   -ESHUTDOWN   the runtime or the worker has ended
 */
ORR_API int orr_future_new(struct orr_runtime *rt, const struct orr_future_options *options,
                           struct orr_future **future);

/* References to a future.  NULL is allowed.  Any thread. */
ORR_API struct orr_future *orr_future_ref(struct orr_future *future);
ORR_API void orr_future_unref(struct orr_future *future);

/*
 * Completes a future with its result, once.  Any thread, but not a signal handler.
 *   -EINVAL     NULL
 *   -EALREADY   it has been completed; the value still belongs to the caller
 */
ORR_API int orr_future_complete(struct orr_future *future, struct orr_result result);

/* Waits until the future is completed.  orr_future_result() then returns its result. */
ORR_API int orr_future_wait(struct orr_task *task, struct orr_wait *wait, struct orr_future *future);

/* Returns the future's result; NULL until it is completed.  Any thread. */
ORR_API const struct orr_result *orr_future_result(const struct orr_future *future);

/* ------------------------------------------------------------------------------------------------
 * Timers
 *
 * A timer wakes a waker or calls a function, at one time or again and again.  Any thread may use
 * it, unless it was created local.  It never fires early.  It lives until orr_timer_free(); it
 * outlives its worker and its runtime.  When the worker that holds it shuts down, it moves to
 * another worker, so a callback must not care on which worker it runs.
 */
struct orr_timer;

/*
 * Called when a timer fires.  `status` is 0 at the timer's time, and -ECANCELED if the runtime
 * ended first.  It runs on a worker's thread, outside any task; at the end of the runtime, on the
 * thread that ends it.  It never runs twice at once for one timer.  It may start, cancel and free
 * any timer, its own included.
 */
typedef void orr_timer_fn(struct orr_timer *timer, void *data, int status);

struct orr_timer_options {
    struct orr_waker waker; /* either a waker */
    orr_timer_fn *fire;     /* or a function with its data */
    void *data;

    /* Used on one worker's thread only (its tasks, destructors and callbacks), and a little faster.
     * A local timer ends with its worker. */
    bool local;
};

/*
 * Creates a timer that is not started.  Any thread.
 *   -EINVAL   not a runtime, NULL, neither a waker nor a function, or both
 *   -ENOMEM
 */
ORR_API int orr_timer_new(struct orr_runtime *rt, const struct orr_timer_options *options, struct orr_timer **timer);

/*
 * Starts or restarts a timer: it fires after `delay`, or at `deadline` of the runtime's clock, and
 * then every `repeat` nanoseconds (0: once).  A deadline in the past fires in the next turn.
 *
 * Repeats keep their rate.  A late one does not delay the next; those whose time has passed
 * altogether are skipped and counted.  Timers with equal deadlines that were started on one
 * worker's own thread fire in the order of their start.
 *
 * The calling thread's worker holds the timer.  From other threads, the worker with the fewest
 * timers holds it; that may be worker 1, whether the host drives it or not.
 *   -EINVAL      NULL, or freed while its callback runs
 *   -EPERM       the timer is local, and the calling thread runs no worker
 *   -ESHUTDOWN   the runtime has ended; for a local timer, its worker
 */
ORR_API int orr_timer_start(struct orr_timer *timer, uint64_t delay, uint64_t repeat);
ORR_API int orr_timer_start_at(struct orr_timer *timer, uint64_t deadline, uint64_t repeat);

/*
 * Restarts a repeating timer: it fires one `repeat` from now.
 *   -EINVAL   the timer does not repeat
 *   and the errors of orr_timer_start()
 */
ORR_API int orr_timer_again(struct orr_timer *timer);

enum orr_cancel {
    ORR_CANCELLED, /* it was to fire, and will not */
    ORR_TOO_LATE,  /* it has fired, was cancelled before, or was never started */
    ORR_RUNNING,   /* its callback runs at this moment; it will not repeat */
};

/* Cancels a timer and returns an enum orr_cancel, or -EINVAL for NULL.  It may be started again. */
ORR_API int orr_timer_cancel(struct orr_timer *timer);

/*
 * Returns the nanoseconds until it fires; 0 if it is due; ORR_NEVER if it is not started, or NULL.
 */
ORR_API uint64_t orr_timer_due_in(struct orr_timer *timer);

/* Returns how many repeats were skipped because their time had passed. */
ORR_API uint64_t orr_timer_missed(struct orr_timer *timer);

/*
 * Cancels and frees a timer.  If its callback runs, it is freed when that returns.  NULL is
 * allowed.
 */
ORR_API void orr_timer_free(struct orr_timer *timer);

/* ------------------------------------------------------------------------------------------------
 * I/O for tasks
 *
 * A task starts an operation in its poll function and returns ORR_PENDING.  The end of the
 * operation wakes the task:
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
 * The struct and the buffer belong to the library from the start of the operation until
 * orr_io_done(); do not move them.  When a task ends with I/O in flight, the I/O is cancelled and
 * the task's destructor runs after the kernel is done.  Close a descriptor only after its
 * operations have finished.
 */
struct orr_io {
    int result; /* once done: bytes (0 at the end of input), events, or a negative errno */

    /* The rest is owned by the library.  Zero it before the first use. */
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
 * Waits, once, until `fd` is ready for one of `events`, as poll(2) names them: POLLIN, POLLOUT,
 * POLLPRI, POLLRDHUP.  The result holds the events that are ready, POLLERR and POLLHUP included.  A
 * regular file is always ready.
 */
ORR_API int orr_io_wait(struct orr_task *task, struct orr_io *io, int fd, unsigned events);

/*
 * Read and write as read(2) and write(2) do, at the file's own position, but in the background,
 * whether the descriptor is in non-blocking mode or not.  With epoll, a regular file is read and
 * written at once, and that may wait for the disk.  At most INT_MAX bytes; the result may be short.
 * A write to a pipe or socket without a reader raises SIGPIPE as write(2) does, unless SIGPIPE is
 * ignored; the threads of workers 2 and up block it.
 *
 * Two exceptions.  A terminal must be in non-blocking mode, or a write to it may block.  If several
 * reads of one descriptor are in flight, or several writes, their order is not defined.
 */
ORR_API int orr_io_read(struct orr_task *task, struct orr_io *io, int fd, void *buffer, size_t length);
ORR_API int orr_io_write(struct orr_task *task, struct orr_io *io, int fd, const void *buffer, size_t length);

/*
 * orr_io_wait(), orr_io_read() and orr_io_write() return 0 when the operation has started.  A
 * failure of the operation itself is its result, a closed descriptor (-EBADF) included.  They
 * return
 *   -EINVAL   NULL, no event or an unknown one, or more than INT_MAX bytes
 *   -EPERM    not the worker's thread
 *   -EBUSY    this orr_io is in flight
 *   -ESRCH    the task is ending
 *   -ECANCELED   the task is cancelled
 *   -ENOMEM
 */

/*
 * Asks the kernel to give up an operation in flight.  The operation still finishes, soon, with
 * -ECANCELED or with its result if that came first.  Until then the buffer belongs to the library.
 * The worker's thread.
 *   -EINVAL     NULL
 *   -EALREADY   the operation is not in flight
 *   -EPERM      not the worker's thread
 */
ORR_API int orr_io_cancel(struct orr_io *io);

/* Returns whether the operation has finished; false if it was never started. */
ORR_API bool orr_io_done(const struct orr_io *io);

/*
 * Waits until the operation has finished.  If the task is cancelled, or a child fails, the
 * operation is cancelled; this then returns -ECANCELED or -ECHILD when the kernel has released the
 * buffer, or 0 if the operation had finished first.
 *   -EALREADY   the operation was never started
 */
ORR_API int orr_io_await(struct orr_task *task, struct orr_io *io);

/* ------------------------------------------------------------------------------------------------
 * Streams
 *
 * A stream is read and written in order: a socket, a pipe, or something that the host implements.
 * Streams, listeners and datagram sockets belong to the worker on whose thread they were made.
 * Every function here is for that thread, and answers -EPERM on any other; NULL answers -EINVAL.
 *
 *   - Reading and writing are waits.  They are tried at once, and wait only while they would block.
 *     After many operations in one poll that did not wait, the next one lets other tasks run first.
 *   - One task reads and one task writes at a time; a second reader or writer gets -EBUSY at once.
 *   - Cancellation loses nothing.  A cancelled read has consumed no byte.  A cancelled write that
 *     had sent nothing leaves the stream as it was.  One that had sent some bytes breaks the
 *     output: see orr_stream_write().
 *   - Nothing is read that no task has asked for.  A stream whose input is empty holds no buffer.
 *   - An error of the kind is kept for its direction: later calls get the same error.  The end of
 *     the input is not an error, and does not close the output.
 *   - A task that waits for a stream while it is closed gets -EBADF.
 *   - A wait that a group hands out may have been woken in vain.  Then its function returns
 *     -EAGAIN, and it is an ordinary wait of the task: withdraw it and add it to the group again.
 *   - Time limits are those of scopes.  No function here has one of its own.
 *   - All descriptors that the library makes are closed on exec.  SIGPIPE is never raised.
 *
 * What is still open when its worker ends is closed and freed then.
 */
struct orr_stream;

/* What a task waits for, and what a stream is ready for. */
enum {
    ORR_READABLE = 1, /* input, its end, or an error */
    ORR_WRITABLE = 2, /* room for output, or an error */
    ORR_RESET = 4,    /* the connection has broken */
    ORR_ENDED = 8,    /* the peer has ended its output; there may be input left */
};

/* One end of a stream, as seen from here. */
enum orr_end {
    ORR_LOCAL,
    ORR_PEER,
};

/* Settings of a stream.  A kind supports some of them. */
enum orr_setting {
    ORR_SET_DELAY,          /* 1: the kernel may hold back small writes to join them */
    ORR_SET_KEEPALIVE,      /* seconds of silence after which the peer is probed; 0: it is not */
    ORR_SET_SEND_BUFFER,    /* bytes in the kernel */
    ORR_SET_RECEIVE_BUFFER, /* bytes in the kernel */
};

/*
 * How a kind of stream works.  A host fills in such a table to implement streams of its own; see
 * examples/stream.c.  No function of it may block, call tasks, or free the stream.  They are called
 * on the worker's thread, and only `drop` is called after `close`.
 *
 * The model is: try, then wait until it is worth trying again.  read and write transfer what they
 * can now, or answer -EAGAIN.  Then `want` is called, and the kind calls orr_stream_ready() when
 * another try is due; to call it too early is harmless.  A kind whose source completes operations
 * begins one in `want`, into a buffer of its own, and lets `read` copy from there.
 */
struct orr_stream_kind {
    const char *name; /* "tcp", "pipe", ...: for people */
    size_t size;      /* bytes of the kind's own in each stream, zeroed: see orr_stream_data() */

    /* Reads some bytes: how many, 0 at the end of the input, -EAGAIN, or the error.  NULL: no
     * input. */
    ssize_t (*read)(struct orr_stream *stream, const struct iovec *parts, int count);

    /* Writes some bytes, perhaps not all: how many, -EAGAIN, or the error.  NULL: no output. */
    ssize_t (*write)(struct orr_stream *stream, const struct iovec *parts, int count);

    /* Tasks wait for exactly these events from now on, which replace those of the last call; 0: no
     * task waits.  orr_stream_ready() removes the events that it is called with.  An error goes to
     * the task that was about to wait; -ENOTSUP for events that the kind cannot tell. */
    int (*want)(struct orr_stream *stream, unsigned events);

    /* Waits for the answer to what `write` took: 0, -EAGAIN, or the error.  Called at the end of a
     * write.  NULL: what `write` took has gone out. */
    int (*flush)(struct orr_stream *stream);

    /* Ends the output, after all that was written: 0, -EAGAIN, or the error.  NULL: it cannot. */
    int (*shutdown)(struct orr_stream *stream);

    /* Ends the stream.  What was written still reaches the peer, as far as that is possible. */
    void (*close)(struct orr_stream *stream);

    /* Writes the address of an end as text, such as "127.0.0.1:80".  Returns its length, or an
     * error.  May be NULL. */
    int (*describe)(const struct orr_stream *stream, enum orr_end end, char *text, size_t size);

    /* Changes a setting.  0 or an error.  NULL: there are none. */
    int (*set)(struct orr_stream *stream, enum orr_setting setting, int64_t value);

    /* Called last, when the memory of a closed stream is about to be freed.  May be NULL. */
    void (*drop)(struct orr_stream *stream);
};

/*
 * Keeps account of the memory behind streams and sockets: the structs and the input buffers.
 * charge() may refuse with -ENOMEM or -EDQUOT; then the operation fails with that error and nothing
 * was done.  Both are called on the worker's thread, must not call the stream, and get `data`.
 */
struct orr_account {
    int (*charge)(void *data, size_t bytes);
    void (*uncharge)(void *data, size_t bytes);
    void *data;
};

/* Decides which addresses may be reached.  Scripts have one that holds their grants. */
struct orr_gate;

/* What everything that can be opened has in common.  Account, label and gate live until it is
 * freed. */
struct orr_open {
    const struct orr_account *account; /* default: no account is kept */
    const char *label;                 /* where it was opened, for reports of leaks; may be NULL */
    /* Asked about every address, right before the system call: -EACCES.  Default: none, so that
     * everything can be reached.  See orr_lua_gate(). */
    const struct orr_gate *gate;
    /* Used by the call that opens only.  See Simulated networks. */
    struct orr_network_host *host; /* the simulated host to open it on; default: the task's */
    bool real;                     /* real sockets, whatever the clock */
};

/*
 * Makes a stream of a kind; `open` may be NULL.  The kind must live as long as the stream.
 *   -EINVAL   NULL, or the kind has no `close`, no `want`, or neither `read` nor `write`
 *   -EPERM    the calling thread runs no worker
 *   -ENOMEM, or what the account answered
 */
ORR_API int orr_stream_new(const struct orr_stream_kind *kind, const struct orr_open *open, struct orr_stream **stream);

/* Returns the kind's own bytes in a stream, and the kind. */
ORR_API void *orr_stream_data(const struct orr_stream *stream);
ORR_API const struct orr_stream_kind *orr_stream_kind(const struct orr_stream *stream);

/* For kinds: another try is due for these events.  Tasks that wait for them are woken. */
ORR_API void orr_stream_ready(struct orr_stream *stream, unsigned events);

/*
 * Closes a stream; again does nothing.  Input that nobody has read is lost.  What was written still
 * reaches the peer, unless it goes on sending: see orr_stream_finish().  Tasks that wait for the
 * stream get -EBADF, and so does every later operation.
 */
ORR_API int orr_stream_close(struct orr_stream *stream);

/*
 * Closes and frees a stream.  It must not be used any more, except that tasks which wait for it
 * call their wait function once more and get -EBADF.  NULL is allowed.
 */
ORR_API int orr_stream_free(struct orr_stream *stream);

/* Returns whether the stream is not closed.  False for NULL. */
ORR_API bool orr_stream_is_open(const struct orr_stream *stream);

/*
 * Waits until there is input, reads at most `size` bytes into `buffer` and stores their number; 0
 * at the end of the input.  The buffer is used during the call only, so it may be another one in
 * the next poll.
 *   -EBUSY   another task reads
 *   -EBADF   the stream is closed, or has no input
 *   or the error of the kind
 */
ORR_API int orr_stream_read(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream, void *buffer,
                            size_t size, size_t *got);

/*
 * Waits until the stream's own buffer holds at least `least` bytes, and reads ahead until it holds
 * at most `most`.  orr_stream_peek() shows these bytes, and orr_stream_consume() removes some: for
 * lines, exact numbers of bytes, and bytes that stay readable.  The buffer is on the stream's
 * account, and is given back when it is empty.
 *   -ENODATA   the input ended before there were `least` bytes; what came stays readable
 *   -EINVAL    `least` is 0 or greater than `most`
 *   -ENOMEM, or what the account answered
 *   and the errors of orr_stream_read()
 */
ORR_API int orr_stream_fill(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream, size_t least,
                            size_t most);

/* Returns how many bytes are in the buffer and points `*bytes` to them, until the next call. */
ORR_API size_t orr_stream_peek(const struct orr_stream *stream, const void **bytes);

/* Removes bytes from the buffer.
 *   -EINVAL   there are fewer */
ORR_API int orr_stream_consume(struct orr_stream *stream, size_t bytes);

/*
 * Writes all parts, and waits while the peer does not read.  The parts and their bytes must be the
 * same in each poll.  `*written`, unless it is NULL, receives how many bytes have gone out so far,
 * whatever is returned.
 *
 * A write that is cancelled or withdrawn after some bytes went out breaks the output: the peer has
 * an unfinished message, which another write must not continue.  Then orr_stream_written() returns
 * how many of its bytes went out, and later writes get -ECONNABORTED.
 *   -EBUSY   another task writes
 *   -EBADF   the stream is closed, or has no output
 *   -EPIPE   orr_stream_shutdown() was called, or the peer is gone
 *   -ECONNABORTED   the output is broken
 *   or the error of the kind
 */
ORR_API int orr_stream_write(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream,
                             const struct iovec *parts, int count, size_t *written);

/* Returns how many bytes of the write that broke the output had gone out; 0 if none did. */
ORR_API size_t orr_stream_written(const struct orr_stream *stream);

/*
 * Ends the output; the input goes on.  A second call returns 0.
 *   -ENOTSUP   the kind cannot end its output alone
 *   and the errors of orr_stream_write()
 */
ORR_API int orr_stream_shutdown(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream);

/*
 * Ends the output, then reads and drops the input until its end.  For the last step of a
 * connection whose peer may still be sending: a peer that sends to a closed connection resets it,
 * and a reset drops output that is still on its way.  Call it in a scope with a time limit, since
 * a peer may send for ever; then close the stream.
 *   the errors of orr_stream_shutdown() and orr_stream_read()
 */
ORR_API int orr_stream_finish(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream);

/*
 * Waits until the peer is gone, without reading: `events` is ORR_RESET, ORR_ENDED, or both.  For a
 * task that works for a peer and is to hear that nobody wants its answer any more.  One task at a
 * time, besides the reader and the writer.
 *   -EINVAL    other events
 *   -ENOTSUP   the kind cannot tell
 *   and -EBUSY, -EBADF as for orr_stream_read()
 */
ORR_API int orr_stream_await_loss(struct orr_task *task, struct orr_wait *wait, struct orr_stream *stream,
                                  unsigned events);

/*
 * Cancels a task and everything below it when the peer is gone, or at once if it is gone already;
 * `events` as above.  It needs no wait and no task of its own, and reaches a task that does not
 * read or write.  Lasts until the stream is closed, or the task's body is over.  A stream has one
 * such task: another call puts another in its place, or none for NULL.
 *   -EINVAL    NULL, or other events
 *   -ENOTSUP   the kind cannot tell
 *   -EBADF     the stream is closed
 */
ORR_API int orr_stream_cancel_on_loss(struct orr_stream *stream, struct orr_task *task, unsigned events);

/*
 * Writes the address of one end, in the form of orr_address_parse(), and returns its length.
 * `size` ORR_ADDRESS_TEXT is always enough.
 *   -ENOTSUP   the kind has no addresses
 *   -ENOSPC    it does not fit
 */
ORR_API int orr_stream_describe(const struct orr_stream *stream, enum orr_end end, char *text, size_t size);

/*
 * Changes a setting.
 *   -ENOTSUP   the kind does not have it
 *   -EINVAL    the value is out of range
 *   -EBADF     the stream is closed
 */
ORR_API int orr_stream_set(struct orr_stream *stream, enum orr_setting setting, int64_t value);

/* A copy under way.  Zero it before the first use. */
struct orr_copy {
    uint64_t bytes; /* went through so far */

    /* The rest is owned by the library. */
    struct orr_wait wait, hold;
    struct orr_stream *from, *to;
    int pipe[2];
    size_t piped, room;
    uint8_t state;
};

/*
 * Copies everything up to the end of the input of `from` to `to`, which may be the same stream.  It
 * does not end the output of `to`.  It is the reader of the one and the writer of the other until
 * it returns anything but -EAGAIN.  It moves bytes inside the kernel where it can.
 *
 * On an error or a cancellation, `copy->bytes` is how many bytes went through.  What was read and
 * did not go through stays readable in `from`, and `to` is not broken.
 *   the errors of orr_stream_fill() for `from` and of orr_stream_write() for `to`
 */
ORR_API int orr_stream_copy(struct orr_task *task, struct orr_copy *copy, struct orr_stream *from,
                            struct orr_stream *to);

/* Something that is open. */
struct orr_open_info {
    const char *kind;                  /* "tcp", "tcp listener", "udp", ... */
    const char *label;                 /* that of struct orr_open; may be NULL */
    const struct orr_account *account; /* may be NULL */
    struct orr_stream *stream;         /* NULL for what is no stream */
    void *object;                      /* the stream, listener or datagram socket */
};

/*
 * Calls `each` with everything that is open on the calling thread's worker and, unless it is NULL,
 * on this account; the oldest comes first.  `each` may close and free what it is called with, and
 * nothing else.  Returns how many there were.
 *   -EINVAL   no function
 *   -EPERM    the thread runs no worker
 */
ORR_API int orr_open_visit(const struct orr_account *account,
                           void (*each)(void *data, const struct orr_open_info *info), void *data);

/* ------------------------------------------------------------------------------------------------
 * Files
 *
 * Operations on files run outside the worker's turns, on a few threads of the process: no turn
 * waits for a disk.  A task starts an operation, waits for it and looks at its answer:
 *
 *     error = orr_file_start(&(struct orr_file_request){ .call = ORR_FILE_STAT, .path = path },
 *                            &open, &self->work);
 *     ...
 *     error = orr_file_await(task, &self->wait, self->work);        again while it is -EAGAIN
 *     if (!error)
 *         use(orr_file_answer(self->work)->stat);
 *     orr_file_work_free(self->work);
 *
 *   - An operation owns copies of all that it needs.  One that is freed before it is over goes on
 *     unseen, if it has begun; what it opens is closed then.
 *   - Clients take turns: at most four operations on one account run at a time.  So a slow disk of
 *     one isolate does not keep others from theirs.
 *   - On a virtual clock, time stands still while an operation runs.
 *   - Files are opened without waiting for anything: a FIFO that nobody writes to holds no thread.
 *
 * All functions are for the worker's thread and answer -EPERM on any other, and -EINVAL to NULL.
 */
struct orr_file_work;

/*
 * A name in the file system.  With `beneath`, nothing in it leads out of the directory: an absolute
 * path, "..", a symbolic link or a link of /proc that does answers -EXDEV.
 */
struct orr_path {
    const char *text;
    int directory; /* a descriptor, for the two flags */
    bool at;       /* relative to `directory`; default: to the working directory of the process */
    bool beneath;  /* as `at`, and only what is beneath it */
};

enum orr_file_type {
    ORR_TYPE_UNKNOWN, /* only in lists of directories that do not tell */
    ORR_TYPE_REGULAR,
    ORR_TYPE_DIRECTORY,
    ORR_TYPE_SYMLINK,
    ORR_TYPE_FIFO,
    ORR_TYPE_SOCKET,
    ORR_TYPE_CHARACTER,
    ORR_TYPE_BLOCK,
};

struct orr_file_stat {
    enum orr_file_type type;
    unsigned mode; /* the permissions, as chmod(2) has them */
    unsigned uid, gid;
    uint64_t links, inode, device, size;
    int64_t modified_ns; /* since the epoch */
};

enum orr_file_call {
    /* By name. */
    ORR_FILE_OPEN,      /* flags of open(2), mode: see orr_file_take() */
    ORR_FILE_STAT,      /* a path, or a file; flags: AT_SYMLINK_NOFOLLOW */
    ORR_FILE_MAKE_DIR,  /* mode */
    ORR_FILE_REMOVE,    /* flags: AT_REMOVEDIR for a directory */
    ORR_FILE_RENAME,    /* path, to; flags of renameat2(2) */
    ORR_FILE_LINK,      /* path, to: a hard link; a symbolic link is not followed */
    ORR_FILE_SYMLINK,   /* bytes: the target, a text; to: the new link */
    ORR_FILE_READ_LINK, /* the target comes as bytes */

    /* On an open file. */
    ORR_FILE_READ,     /* size bytes, at offset; fewer only at the end */
    ORR_FILE_WRITE,    /* bytes, size, at offset; all of them, or an error */
    ORR_FILE_TRUNCATE, /* to offset bytes */
    ORR_FILE_SYNC,     /* to the disk; flags: 1 without what only describes the file */
    ORR_FILE_LOCK,     /* flags: LOCK_SH, LOCK_EX or LOCK_UN of flock(2); never waits: -EAGAIN */
    ORR_FILE_COPY,     /* size bytes at offset to the same place of `other`; 0 at the end */
    ORR_FILE_LIST,     /* of an open directory: the next names; size bytes of memory */
};

struct orr_file_request {
    enum orr_file_call call;
    struct orr_path path, to;
    struct orr_stream *file, *other;
    int flags;
    unsigned mode;
    uint64_t offset;
    const void *bytes;
    size_t size; /* at most 1 GiB */
};

/*
 * Starts an operation; everything it is given is copied.  `open` may be NULL; the memory is on its
 * account.
 *   -EINVAL   no text, an unknown operation, a size that is too large, or a stream that is no file
 *   -EBADF    the file is closed
 *   -ENAMETOOLONG   a path has more than 4,095 bytes
 *   -ENOMEM, -EMFILE, -EAGAIN (there is no thread), or what the account answered
 */
ORR_API int orr_file_start(const struct orr_file_request *request, const struct orr_open *open,
                           struct orr_file_work **work);

/* Waits until the operation is over.  The answer says how it went. */
ORR_API int orr_file_await(struct orr_task *task, struct orr_wait *wait, struct orr_file_work *work);

struct orr_file_answer {
    int64_t result;            /* bytes that were moved, or 0; or a negative errno */
    const void *bytes;         /* `result` of them, for READ and READ_LINK */
    uint64_t moved;            /* bytes that WRITE had written when it failed */
    struct orr_file_stat stat; /* of STAT and OPEN */
};

/* Returns the answer of an operation that is over; NULL before.  It lives as long as the work. */
ORR_API const struct orr_file_answer *orr_file_answer(const struct orr_file_work *work);

/*
 * Goes through the names that LIST has found, without "." and "..": returns false after the last
 * one.  `*cursor` is 0 at first.  There are more names to ask for until LIST answers 0.
 */
ORR_API bool orr_file_next_name(const struct orr_file_work *work, size_t *cursor, const char **name,
                                enum orr_file_type *type);

/*
 * Makes a stream of what OPEN has opened.  It is of the kind "file" or "directory", or "fifo" or
 * "device", which wait like other descriptors.
 *
 * A file is read and written at its position, which both share.  Its input ends for good where the
 * file did, until orr_file_seek() is called.  Bytes count as written once they are handed over: a
 * write waits for the answer to the last of them.
 *   -EALREADY   this was done before
 *   -ENXIO      the operation is not over, has failed, or was no OPEN
 *   -ENOMEM, or what the account answered
 */
ORR_API int orr_file_take(struct orr_file_work *work, const struct orr_open *open, struct orr_stream **stream);

/* Gives up an operation, over or not, and the memory of its answer.  NULL is allowed. */
ORR_API void orr_file_work_free(struct orr_file_work *work);

/*
 * Returns the position of a file, and changes it.  What was read ahead is dropped.
 *   -EINVAL   the position is beyond INT64_MAX
 *   -ESPIPE   the stream is no file
 *   -EBUSY    another task reads or writes
 *   -EBADF    it is closed
 */
ORR_API int orr_file_tell(const struct orr_stream *file, uint64_t *position);
ORR_API int orr_file_seek(struct orr_stream *file, uint64_t position);

/* Returns the path by which a stream was opened here; NULL if it was not. */
ORR_API const char *orr_file_path(const struct orr_stream *stream);

/*
 * Returns the descriptor of an open file or directory, for paths that are relative to it.  It
 * belongs to the stream.
 *   -ESPIPE   the stream is neither
 *   -EBADF    it is closed
 */
ORR_API int orr_file_descriptor(const struct orr_stream *file);

/* ------------------------------------------------------------------------------------------------
 * Addresses
 *
 * An address is text of one of these forms:
 *
 *     127.0.0.1:80   [::1]:80   [fe80::1%eth0]:80   unix:/path   unix:@abstract   name:80
 *
 * A name must be looked up first; all others can be used as they are.
 */
struct orr_address {
    uint32_t length;
    uint64_t bytes[16]; /* a struct sockaddr of that length */
};

#define ORR_ADDRESS_TEXT 512 /* room for every address as text */
#define ORR_HOST_TEXT 254    /* room for every host name */

/*
 * Reads an address, any thread.  The text need not end with a NUL.
 *   -EINVAL         malformed, or NULL
 *   -ENAMETOOLONG   the path is longer than the kernel allows (107 bytes)
 *   -ENODEV         no such network interface behind the %
 *   -EDESTADDRREQ   the host is a name: see orr_address_split()
 */
ORR_API int orr_address_parse(const char *text, size_t length, struct orr_address *address);

/*
 * Splits "name:80", "127.0.0.1:80" or "[::1]:80" into host and port.  Any thread.
 *   -EINVAL   malformed, NULL, or a path
 */
ORR_API int orr_address_split(const char *text, size_t length, char host[ORR_HOST_TEXT], uint16_t *port);

/*
 * Writes an address as text that orr_address_parse() accepts; returns its length.  Any thread.  A
 * socket without a name is "unix:".
 *   -EINVAL   not an address, or NULL
 *   -ENOSPC   it does not fit
 */
ORR_API int orr_address_print(const struct orr_address *address, char *text, size_t size);

/* ------------------------------------------------------------------------------------------------
 * Sockets and pipes
 */
struct orr_socket_options {
    struct orr_open open;
    const struct orr_address *local; /* the address to connect from; default: the kernel chooses */
    bool delay;                      /* ORR_SET_DELAY; default: small writes go out at once */
    unsigned keepalive_s;            /* ORR_SET_KEEPALIVE; default 0: the peer is not probed */
    unsigned send_buffer;            /* ORR_SET_SEND_BUFFER; default: the kernel's */
    unsigned receive_buffer;         /* ORR_SET_RECEIVE_BUFFER; default: the kernel's */
};

/*
 * Connects to an address and stores the stream.  `options` may be NULL.  Address and options are
 * the same in each poll.  A cancelled connect leaves no descriptor behind.
 *   -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -ENOENT, ...   as connect(2)
 *   -EADDRINUSE, -EADDRNOTAVAIL   the local address, as bind(2)
 *   -EINVAL    NULL, or not an address
 *   -EMFILE, -ENFILE, -ENOMEM, or what the account answered
 */
ORR_API int orr_connect(struct orr_task *task, struct orr_wait *wait, const struct orr_address *address,
                        const struct orr_socket_options *options, struct orr_stream **stream);

struct orr_listener;

struct orr_listen_options {
    /* `open` is for the listener, the rest for the connections.  `local` is not used. */
    struct orr_socket_options socket;
    int backlog;     /* connections that the kernel keeps until they are accepted; default 4,096 */
    bool reuse_port; /* several listeners, each on its own thread, share the address */
    bool v6_only;    /* [::] does not take IPv4 connections */
};

/*
 * Listens on an address; port 0 lets the kernel choose one.  A path that a dead process has left
 * behind is replaced; the path is removed when the listener is closed.
 *   -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, -ENOENT, ...   as bind(2) and listen(2)
 *   -EINVAL   NULL, or not an address
 *   -EMFILE, -ENFILE, -ENOMEM, or what the account answered
 */
ORR_API int orr_listen(const struct orr_address *address, const struct orr_listen_options *options,
                       struct orr_listener **listener);

/*
 * Waits for a connection and stores its stream; `open` may be NULL.  Tasks are served in the order
 * of their arrival.  A connection is accepted only for a task that waits.
 *   -EBADF   the listener is closed
 *   -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM, or what the account answered: the connection stays in the
 *            kernel's backlog, and a later call gets it
 */
ORR_API int orr_accept(struct orr_task *task, struct orr_wait *wait, struct orr_listener *listener,
                       const struct orr_open *open, struct orr_stream **stream);

/* Gets the address, with the port that the kernel has chosen.  -EBADF, if it is closed. */
ORR_API int orr_listener_address(const struct orr_listener *listener, struct orr_address *address);

/*
 * Closes a listener: connections in the backlog are refused, tasks that wait get -EBADF.  As for
 * streams, closing again does nothing, and freeing closes.
 */
ORR_API int orr_listener_close(struct orr_listener *listener);
ORR_API int orr_listener_free(struct orr_listener *listener);

/*
 * Makes two connected streams; or a pipe, whose reader has no output and whose writer no input.
 *   -EMFILE, -ENFILE, -ENOMEM, or what the account answered
 */
ORR_API int orr_pair(const struct orr_open *open, struct orr_stream *ends[2]);
ORR_API int orr_pipe(const struct orr_open *open, struct orr_stream **reader, struct orr_stream **writer);

struct orr_descriptor_options {
    struct orr_open open;
    bool keep; /* the descriptor stays open when the stream is closed */

    /* The descriptor is 0, 1 or 2, and C's stdin, stdout or stderr uses it, too.  Then a write lets
     * what C has buffered go first, and a read begins with what C has read ahead.  If the host has
     * put another FILE in the place of stdout or stderr, writes go to that. */
    bool standard;
};

/*
 * Makes a stream of a descriptor that somebody else has opened: a terminal, a pipe, a socket, a
 * file.  Its mode is not changed, so other processes that share it notice nothing.  Where another
 * process reads or writes the same pipe in blocking mode on a kernel before 6.4, or the descriptor
 * is a device, an operation may block for a moment.  A write to a terminal that may not be opened
 * again, as one of another user, may block until somebody reads there.  The end of a terminal's
 * input is an end.
 *   -EBADF    not a descriptor, or one that was opened with O_PATH
 *   -EINVAL   a directory, a socket that is not a connected stream, or with `standard` another
 *             descriptor than 0, 1 and 2
 *   -EMFILE, -ENFILE, -ENOMEM, or what the account answered
 */
ORR_API int orr_stream_open_descriptor(int descriptor, const struct orr_descriptor_options *options,
                                       struct orr_stream **stream);

/* Returns the descriptor behind a stream, which still owns it; -ENOTSUP, -EBADF. */
ORR_API int orr_stream_descriptor(const struct orr_stream *stream);

/* ------------------------------------------------------------------------------------------------
 * Datagrams
 */
struct orr_datagram;

struct orr_datagram_options {
    struct orr_open open;
    const struct orr_address *local;      /* default: the kernel chooses, of the peer's family */
    const struct orr_address *peer;       /* connected: sends to and receives from this address */
    bool broadcast;                       /* may send to broadcast addresses */
    bool reuse;                           /* others may use the local address, too: for multicast */
    unsigned send_buffer, receive_buffer; /* bytes in the kernel; default: the kernel's */
};

/*
 * Opens a datagram socket.  At least one address must be given.
 *   -EINVAL   NULL, no address, or not one
 *   and the errors of orr_listen()
 */
ORR_API int orr_datagram_open(const struct orr_datagram_options *options, struct orr_datagram **datagram);

#define ORR_DESCRIPTORS_MAX 16 /* descriptors in one message */

/* A message, to send or as received. */
struct orr_message {
    const struct iovec *parts; /* its bytes, or room for them */
    int count;
    /* The receiver; NULL if the socket is connected.  Gets the sender, if it is not NULL. */
    struct orr_address *address;
    /* Descriptors that go along, on unix sockets only.  The sender keeps its own. */
    int descriptors[ORR_DESCRIPTORS_MAX];
    unsigned descriptor_count; /* to receive: how many may come; further ones are closed */
    size_t size;               /* received: bytes of the message, more than fit if it was cut */
    bool cut;                  /* received: bytes or descriptors did not fit */
};

/*
 * Send a message, or receive one.  One task sends and one receives at a time.  A cancelled receive
 * takes no message; a cancelled send has sent nothing.  The message is used during the call only.
 *   -EBUSY       another task sends or receives
 *   -EBADF       the socket is closed
 *   -EMSGSIZE    the message is too long for the socket
 *   -ECONNREFUSED, ...   the kernel's answer to an earlier message; later calls go on
 */
ORR_API int orr_datagram_send(struct orr_task *task, struct orr_wait *wait, struct orr_datagram *datagram,
                              const struct orr_message *message);
ORR_API int orr_datagram_receive(struct orr_task *task, struct orr_wait *wait, struct orr_datagram *datagram,
                                 struct orr_message *message);

/* Gets the address of an end.  -EBADF; -ENOTCONN for the peer of a socket that has none. */
ORR_API int orr_datagram_address(const struct orr_datagram *datagram, enum orr_end end, struct orr_address *address);

/*
 * Join or leave a multicast group; `interface` is an index, 0 for the kernel's choice.  Set how far
 * messages to groups go (1: this network, the default), and whether this machine gets them, too.
 *   -EBADF, -EINVAL, -ENODEV, ...   as setsockopt(2)
 */
ORR_API int orr_datagram_join(struct orr_datagram *datagram, const struct orr_address *group, unsigned interface);
ORR_API int orr_datagram_leave(struct orr_datagram *datagram, const struct orr_address *group, unsigned interface);
ORR_API int orr_datagram_set_multicast(struct orr_datagram *datagram, unsigned hops, bool loop);

/* As for listeners. */
ORR_API int orr_datagram_close(struct orr_datagram *datagram);
ORR_API int orr_datagram_free(struct orr_datagram *datagram);

/* ------------------------------------------------------------------------------------------------
 * Simulated networks
 *
 * A simulated network is a network in memory.  The functions of Streams, Sockets and pipes, and
 * Datagrams work on it as they do on sockets, so a server is tested as it is.  Where an operation
 * goes is decided in this order:
 *
 *   1. what struct orr_open says: `real`, or `host`;
 *   2. orr_network_place(), for the task that calls, or the nearest task above it;
 *   3. orr_network_use(), for the worker;
 *   4. on a virtual clock, a network of the worker's own without faults and delays, made when it
 *      is first needed: real I/O would make time stand still;
 *   5. else real sockets.
 *
 * A network has hosts, each with a name and two addresses (10.0.0.1 and fd00::1, 10.0.0.2 and
 * fd00::2, ...).  127.0.0.1 and [::1] are the host itself.  Ports and paths belong to a host.  A
 * path is not made in the file system.  A network that is made has one host, named "main", on
 * which everything runs that was not placed on another one.
 *
 * Bytes and messages arrive by timers of the worker, so on a virtual clock no test ever waits.  All
 * chance comes from one seed: if tasks do the same, the same happens at the same time, on either
 * reactor.
 *
 *   - Delays, bandwidth, resets and partitions are for TCP and UDP, also inside one host; not for
 *     paths, pairs and pipes.  Short reads and writes are for all streams.
 *   - What is on its way is bounded: see `window`.  Its memory is on the account of the stream that
 *     sent it; when that one is closed, of the one that receives it.  If that account refuses it,
 *     the connection is reset.
 *   - A connection to an address that no host has answers -EHOSTUNREACH.  A connect whose listener
 *     has a full backlog waits until it has room.
 *   - A datagram whose receiver is opened only after it was sent is lost.
 *
 * A network belongs to the worker on whose thread it was made; every function here is for that
 * thread, and answers -EPERM on any other.  NULL answers -EINVAL unless the comment allows it.
 */
struct orr_network;
struct orr_network_host;

/* Probabilities are from 0 to 1.  The defaults, all 0, do nothing odd. */
struct orr_network_options {
    struct orr_open open; /* its account is charged with the network and its hosts */
    uint64_t seed;        /* any number */
    uint64_t latency;     /* ns from one end to the other */
    uint64_t jitter;      /* at most so many ns are added to it, evenly; messages may overtake */
    uint64_t bandwidth;   /* bytes a second, for each direction of a connection; 0: no limit */
    double short_reads;   /* probability that a read gets only a part of what is there */
    double short_writes;  /* probability that a write puts out only a part, and has to wait */
    double resets;        /* probability that a write breaks its connection */
    double loss;          /* probability that a datagram is lost */
    size_t window;        /* bytes on their way or unread, for each direction; default 256 KB */
};

/*
 * Makes a network; `options` may be NULL.  It lasts until it is freed, or its worker ends.
 *   -EINVAL   a probability is not one, or the window is greater than 16 MB
 *   -EPERM    the calling thread runs no worker
 *   -ENOMEM, or what the account answered
 */
ORR_API int orr_network_new(const struct orr_network_options *options, struct orr_network **network);

/*
 * Frees a network and its hosts.  Its connections are reset, accepting, connecting and datagrams
 * answer -ENETDOWN; these objects are still to be freed.  Nothing is placed there any more.  NULL
 * is allowed.
 */
ORR_API int orr_network_free(struct orr_network *network);

/*
 * Finds the host of this name, or makes it.  NULL: "main".  Names are not case-sensitive.
 *   -EINVAL   not a host name, or "localhost", which is each host's name for itself
 *   -ENOSPC   there are 65,000 hosts
 *   -ENOMEM, or what the account answered
 */
ORR_API int orr_network_host(struct orr_network *network, const char *name, struct orr_network_host **host);

/* Returns the name; NULL for NULL. */
ORR_API const char *orr_network_host_name(const struct orr_network_host *host);

/*
 * The task, and tasks below it that are not placed themselves, run on this host from now on.  NULL
 * for the host: on that of the task above it.
 *   -ESRCH    the task is done
 *   -ENOMEM
 */
ORR_API int orr_network_place(struct orr_task *task, struct orr_network_host *host);

/*
 * The calling thread's worker uses this network for what says nothing else, on whatever clock.
 * NULL: it goes by its clock again.
 */
ORR_API int orr_network_use(struct orr_network *network);

/*
 * Stores the host on which an operation with this `open` would happen if it were made now; NULL if
 * it would use real sockets.  `open` may be NULL.
 *   -ENOMEM   there is no network yet, and none can be made
 */
ORR_API int orr_network_here(const struct orr_open *open, struct orr_network_host **host);

/*
 * Looks up a name as a host of the network does: another host, or "localhost".  `family` is AF_INET
 * or AF_INET6; AF_UNSPEC is AF_INET.
 *   -ENOENT   no host has this name
 *   -EAFNOSUPPORT   another family
 */
ORR_API int orr_network_lookup(const struct orr_network_host *from, const char *name, uint16_t port, int family,
                               struct orr_address *address);

/*
 * Nothing passes between two hosts any more; with NULL, between `a` and all others.  Bytes of
 * connections are held back, connects wait, datagrams are lost.
 *   -EINVAL   twice the same host, or hosts of two networks
 *   -ENOMEM, or what the account answered
 */
ORR_API int orr_network_partition(struct orr_network_host *a, struct orr_network_host *b);

/* Ends all partitions.  What was held back sets out again. */
ORR_API int orr_network_heal(struct orr_network *network);

/*
 * Breaks a connection: both ends get -ECONNRESET, after what had arrived.
 *   -ENOTSUP   not a simulated connection of TCP
 *   -EBADF     the stream is closed
 */
ORR_API int orr_network_reset(struct orr_stream *stream);

/* ------------------------------------------------------------------------------------------------
 * Inspecting tasks
 */
enum orr_task_state {
    ORR_TASK_RUNNING, /* is being polled */
    ORR_TASK_READY,   /* will be polled soon */
    ORR_TASK_WAITING,
    ORR_TASK_JOINING, /* its body is over, and it waits for its children */
    ORR_TASK_ENDING,  /* its body is over, and it waits for I/O that was in flight */
};

struct orr_task_info {
    struct orr_task *task;
    const char *name;  /* may be NULL */
    unsigned depth;    /* 0 for a task without a parent */
    unsigned children; /* children that are not done */
    enum orr_task_state state;
    /* "sleep", "queue get", ...; NULL if nothing that the runtime knows of. */
    const char *waits_for;
    uint64_t since;        /* when it began to wait, to about a millisecond; 0 if unknown */
    const char *cancelled; /* the reason; NULL if it is not cancelled */
    bool shielded;         /* it is in a shielded scope */
};

/*
 * Calls `each` with every task of the calling thread's worker, or with `top` and the tasks below
 * it.  A task comes before its children; children come in the order of their creation.  `each` must
 * change nothing.  Returns the number of tasks shown.
 *   -EINVAL   no function
 *   -EPERM    the calling thread runs no worker, or `top` belongs to another one
 */
ORR_API int orr_tree_visit(struct orr_task *top, void (*each)(void *data, const struct orr_task_info *info),
                           void *data);

/* Calls `line` with the same tree as text: one line for each task, indented by its depth. */
ORR_API int orr_tree_print(struct orr_task *top, void (*line)(void *data, const char *text), void *data);

/* ------------------------------------------------------------------------------------------------
 * Lua isolates
 *
 * An isolate is a Lua state with its limits, bound to one worker: the calling thread's worker,
 * or worker 1 in plain code.  Its Lua runs as tasks of that worker, in the worker's turns.
 * Functions take an isolate as a lua_State; any coroutine of the state will do.
 *
 * The pointer is all there is: when the state is gone, it dangles, as after lua_close(), and using
 * it is undefined.  No function can tell; -EINVAL for "not an isolate" means another Lua state, or
 * one of the host's that was closed as an isolate.  A state ends with orr_lua_close(), with
 * lua_close() for a state of the host's, and with orr_script_unload() and orr_script_reload(), at
 * once or in a later turn.  So do not keep the state of a script: ask orr_script_state() each time.
 * The `L` that a callback receives is for that call; it may be a coroutine that ends sooner.
 *
 * A *slice* is one stretch of Lua, from resume to yield.  A slice that uses up its time is
 * suspended, between two instructions, and its task is *preempted*: it continues in a later turn,
 * before any other Lua of the isolate.  Until then the isolate is *held*: see orr_lua_is_held().
 */
struct lua_State;

/* What scripts may use. */
enum orr_lua_profile {
    /* An allow-list: nothing that could harm or block the host; see docs/sandbox.md. */
    ORR_LUA_UNTRUSTED,
    ORR_LUA_TRUSTED, /* all of Lua */
};

/* How the library notices Lua that runs for too long. */
enum orr_lua_mode {
    /* A timer sends a signal to the worker's thread; this costs nothing until then.  If the
     * system refuses the timer, the library counts instructions and reads the clock: see
     * ORR_LUA_COUNTED. */
    ORR_LUA_SIGNAL,
    /* The library counts instructions: two to three times slower, but reproducible. */
    ORR_LUA_COUNT,
    ORR_LUA_OFF, /* not at all */
};

/* The ways to enter Lua.  Each has its own deadline. */
enum orr_lua_entry {
    ORR_LUA_TASK,      /* async.run */
    ORR_LUA_SCRIPT,    /* orr_lua_start(): a script */
    ORR_LUA_CALL,      /* orr_lua_call() */
    ORR_LUA_HANDLER,   /* an event's handler */
    ORR_LUA_TIMER,     /* a timer's callback */
    ORR_LUA_SCHEDULED, /* a callback of schedule() */
    ORR_LUA_JOB,       /* a job on another thread */
    ORR_LUA_ENTRIES,
};

/* What a host may want to know at once. */
enum orr_lua_notice {
    /* Lua was ended at its deadline; the text is the report.  Its first line names the task or
     * handler, and the script or the isolate.  Sent once for each: a task's failure that consists
     * of such timeouts does not go to the sink as well.  See `timeouts_as_failures`. */
    ORR_LUA_TIMED_OUT,

    /* A handler or timer callback timed out too often in a row and is not called again.  Sent
     * after the notices of these timeouts, or after the sink has received them. */
    ORR_LUA_DISABLED,

    ORR_LUA_MEMORY_SOFT, /* the isolate uses more memory than its soft limit */
    /* The isolate broke a limit that no error can enforce; its Lua runs no more. */
    ORR_LUA_ENDED,

    /* No timer can interrupt Lua; the text says why.  The library counts instructions instead, at
     * `check_interval`.  Time limits still hold.  Sent once. */
    ORR_LUA_COUNTED,

    /* A C function that a script has called took longer than `slow_call_ns`.  Meanwhile nothing
     * else of the thread could run.  The text has the function, the script's line and the time.
     * Sent once for each line, and for 32 lines of an isolate. */
    ORR_LUA_BLOCKED,
};

/* What happens to an event when the isolate's queue is full. */
enum orr_events_policy {
    ORR_EVENTS_REFUSE,      /* orr_events_emit() returns -ENOBUFS */
    ORR_EVENTS_DROP_OLDEST, /* it replaces the first event in the queue */
    /* It replaces the data of an event with the same name; if there is none, it is refused. */
    ORR_EVENTS_COALESCE,
};

/* Receives a notice; `text` is for people.  See `notice` in struct orr_lua_options. */
typedef void orr_lua_notice_fn(void *data, struct lua_State *L, enum orr_lua_notice notice, const char *text);

/* Prepares a new Lua state of a worker.  See `worker_prepare` in struct orr_lua_options. */
typedef void orr_lua_prepare_fn(void *data, struct lua_State *L);

/* A kind of grant. */
enum orr_grant {
    ORR_GRANT_CONNECT, /* to connect to an address, to send messages there, to look up a name */
    ORR_GRANT_LISTEN,  /* to have an address of its own: to listen, to bind a socket */
};

/* What a script is about to do, and no rule grants. */
struct orr_grant_request {
    struct lua_State *L; /* the isolate, to tell isolates apart; it must not be called */
    enum orr_grant grant;
    /* The rule that would grant it, such as "192.168.1.7:80" or, for a lookup, "example.com:443".
     * Borrowed until the function returns. */
    const char *rule;
    struct orr_future *answer; /* for an answer that takes time */
};

/*
 * Decides about a request.  1: granted.  0: refused.  -EAGAIN: the host answers later, on any
 * thread: it has taken a reference to `answer` (orr_future_ref()), and completes it once, with
 * `error` 0 to grant and any other to refuse, and gives the reference up.  Until then the script's
 * task waits; if it is cancelled meanwhile, the answer has no effect.
 *
 * Runs on the isolate's thread, in the middle of Lua: it must not take long, raise a Lua error or
 * call the isolate.
 */
typedef int orr_grant_fn(void *data, const struct orr_grant_request *request);

/*
 * What an untrusted script may reach outside of its isolate.  A rule is text:
 *
 *     *                     every address that is not special, every name
 *     example.com           the addresses of this name; *.example.com for all names below it
 *     93.184.216.0/24       a network, or one address; IPv6 in brackets: [2001:db8::/32]
 *     localhost             127.0.0.1 and ::1
 *     unix:/run/app.sock    a Unix socket; unix:/run/app/ for all in and below a folder
 *     unix:@name            an abstract Unix socket
 *
 * All but Unix sockets may have a port or a range of ports: "example.com:443", "*:8000-8999".
 *
 * Special addresses are loopback, private, link-local (the metadata of clouds), CGNAT, multicast,
 * broadcast, unique-local, and those that are reserved.  They are granted only by a network that is
 * inside such a range: "10.0.0.0/8" grants 10.1.2.3; "*", "0.0.0.0/0" and names do not, whatever a
 * name leads to.  An address counts as what it is, however it is written: [::ffff:10.1.2.3] is
 * 10.1.2.3, and 0.0.0.0 is this machine.  The path of a Unix socket has no symbolic links in it.
 *
 * To listen, "*" is every address of this machine, and names cannot be used.  A port that others
 * may share (the options reuse_port, threads and reuse) must be granted by its number.
 *
 * Every address is checked right before the system call: see docs/grants.md.
 */
struct orr_grants {
    const char *const *connect; /* NULL-terminated; default: nothing */
    const char *const *listen;  /* NULL-terminated; default: nothing */

    /* Asked about what no rule grants, but not for jobs, and not about groups to join.  What it
     * grants holds for the isolate from then on; the last 128 of these are remembered.  Default:
     * all of it is refused. */
    orr_grant_fn *ask;
    void *ask_data;
};

/*
 * Options of an isolate.  All zeroes are the defaults.  Times are in nanoseconds; ORR_NEVER means
 * no limit.  A deadline counts the time that Lua has run since it last waited by itself.
 */
struct orr_lua_options {
    /* The isolate's name, for people: lines of the log about it begin with the name, and reports
     * have it.  Copied.  Default: "isolate 1", "isolate 2" and so on; for the isolate of a script
     * (orr_script_load()), the script's name.  With "" the lines begin without a name. */
    const char *name;
    /* A global name for the API, besides require "orrery"; default: none. */
    const char *mount;
    enum orr_lua_profile profile; /* default ORR_LUA_UNTRUSTED */
    enum orr_lua_mode mode;       /* default ORR_LUA_SIGNAL */
    uint64_t slice_ns;            /* how long Lua may run before the host continues; default 2 ms */

    /* Defaults: a task 1 s if untrusted, none if trusted; a script 5 s; a job 300 s if
     * untrusted, none if trusted, and its own timeout; the others 1 s. */
    uint64_t deadline_ns[ORR_LUA_ENTRIES];

    /* With ORR_LUA_COUNT: instructions of a call since it last waited.  Default 1,000,000;
     * ORR_NEVER for no limit. */
    uint64_t max_instructions;
    unsigned check_interval; /* instructions between two checks; default 10,000 */
    /* Timeouts in a row that disable a handler; default 3; UINT_MAX for never. */
    unsigned strikes;
    /* Tasks at once; default: the worker's limit if trusted, 10,000 if not. */
    unsigned max_tasks;

    /* Bytes for the isolate, the library's data for it, the jobs of its workers and the messages it
     * sends, together.  Default: no limit if trusted, 64 MB if not.  SIZE_MAX for no limit. */
    size_t memory_limit;
    size_t memory_soft; /* bytes; above it the host gets ORR_LUA_MEMORY_SOFT; default: none */
    /* Bytes; default: no limit if trusted, 8 MB if not; SIZE_MAX for no limit. */
    size_t longest_string;
    /* Bytes of a script or module; no limit if trusted, 128 KB if not; SIZE_MAX for none. */
    size_t longest_source;

    /* Limits on single large operations.  The defaults given here are for untrusted isolates;
     * trusted ones have no limit.  UINT_MAX or ORR_NEVER for no limit. */
    unsigned longest_list;  /* elements in the list part of a table; 262,144 */
    unsigned most_keys;     /* keys in the hash part of a table; 32,768 */
    unsigned most_strings;  /* different strings of up to 40 bytes; 65,536 */
    unsigned deepest_stack; /* values on the stack of a coroutine; 131,072 */
    /* Events, semaphores, mutexes, conditions, queues, futures, channels and timers together;
     * 50,000. */
    unsigned max_objects;
    unsigned max_sockets; /* streams, listeners and datagram sockets that are open at once; 64 */
    /* The isolate is ended if one step of the collector takes longer than this, or one
     * instruction twice as long; 8 ms. */
    uint64_t longest_step_ns;

    /* Folders that an untrusted script's `require` searches; NULL-terminated; default: none. */
    const char *const *roots;

    /* Modules of the API that scripts get: "async", "eventloop", "events", "fs", "json", "loop",
     * "net", "runtime", "schedule", "stdio" (the standard streams), "values", "worker".
     * NULL-terminated; default: all, but untrusted scripts cannot have "fs" and "stdio", and have
     * "net" only with `grants`.  The others are neither in the API's table nor can they be
     * required. */
    const char *const *modules;
    /* Gives a trusted isolate, too, pattern functions that can be interrupted. */
    bool safe_patterns;

    /* The host's C functions may sleep in system calls when scripts call them.  The library's
     * signal then does not interrupt these calls; the process has one more thread for this.
     * Scripts that load C libraries get this without the option. */
    bool may_sleep;

    unsigned schedule_limit; /* callbacks of schedule() that wait; default 1,000 */
    /* Callbacks of schedule() that are started in one turn; default 16. */
    unsigned schedule_per_turn;
    /* Events that wait while the isolate is held; default 1,024. */
    unsigned events_limit;
    /* For events beyond the limit; default ORR_EVENTS_REFUSE. */
    enum orr_events_policy events_policy;

    /* Called on the worker's thread while no Lua runs.  Default: notices go to the log, in order
     * with failures of tasks.  A task's timeout is then a failure: see `timeouts_as_failures`. */
    orr_lua_notice_fn *notice;
    void *notice_data;

    /* The timeout of a task is not a notice: those who await the task hear of it, or the sink.
     * Default: `notice` hears of every timeout, awaited or not, and the sink does not. */
    bool timeouts_as_failures;

    /* Modules of the API that scripts of workers get, never more than `modules`.  Default: all but
     * "events", "fs", "net", "stdio" and "worker". */
    const char *const *worker_modules;

    /* Called with each state that is created for a worker, on that worker's thread, before its
     * script runs: it may add functions and modules.  Default: none. */
    orr_lua_prepare_fn *worker_prepare;
    void *worker_data;

    /* The host gets ORR_LUA_BLOCKED when a C function that a script calls does not return for this
     * long.  Needs ORR_LUA_SIGNAL.  Jobs of workers have threads of their own, and may block.
     * Default: none. */
    uint64_t slow_call_ns;

    /* For test runners: adds the module `testing`, and objects remember where they were created. */
    bool testing;

    /* What an untrusted script may reach; copied.  With a rule, or with `ask`, it gets the module
     * "net".  Its jobs and the threads of its servers have the same grants.  Default: nothing.  A
     * trusted script has everything, and cannot have this. */
    const struct orr_grants *grants;
};

/*
 * Create an isolate: orr_lua_new() creates a Lua state with the libraries of its profile;
 * orr_lua_open() takes a state that the host has created, with the libraries it has.  The state
 * gets the API as `require "orrery"` and as the global `mount`.  `options` may be NULL; it is not
 * kept.  The profile, the memory limits and the longest string have no effect on a state of the
 * host's.
 *   -EINVAL     not a runtime, or NULL; or an option is out of range, and the log says which
 *   -EALREADY   the state is an isolate already
 *   -ENOMEM
 *   or why one of the `roots` could not be opened; the log says which
 */
ORR_API int orr_lua_new(struct orr_runtime *rt, const struct orr_lua_options *options, struct lua_State **L);
ORR_API int orr_lua_open(struct orr_runtime *rt, struct lua_State *L, const struct orr_lua_options *options);

/*
 * Closes an isolate.  Cancels its tasks and lets them clean up for the runtime's grace period, all
 * together.  Tasks that have not run yet do not begin, and nothing else begins except children of
 * tasks that clean up.  After the period none of the isolate's Lua runs, finalizers included, and
 * the log names the tasks that were ended by force.
 *
 * Then it frees everything that the library has for the state, and the state itself if
 * orr_lua_new() created it.  A state of the host's is the host's to close: after this call, and
 * before the runtime is freed.  References to tasks keep their error, but not its Lua value.
 *   -EINVAL        not an isolate
 *   -EINPROGRESS   its Lua is running; it is closed when the outermost call has returned
 *   -EBUSY         another thread drives its worker
 */
ORR_API int orr_lua_close(struct lua_State *L);

/* A script: either a text or a file. */
struct orr_lua_source {
    const char *name; /* its name in messages; default: the path */
    const char *text;
    size_t size; /* of the text; 0 if it ends with a NUL */
    const char *path;
    bool own_globals; /* see orr_lua_load() */
};

/*
 * Compiles a script and pushes it as a function, for orr_lua_start() or lua_pcall().  In an
 * untrusted isolate the script must be text, not bytecode, and no longer than `longest_source`.
 *
 * Scripts share the state's globals, unless `own_globals` is set.  A script's own globals begin
 * with `_G`, `load` and `require`; everything else is read from the shared ones.  The script can
 * read but not change the tables there, Lua's libraries and the API included.  If the host changes
 * a library or one of Lua's functions, scripts loaded later see it; any other change is seen at
 * once.  Modules are loaded separately for each such script, with its globals.  The script's tasks
 * own what they create: it neither lists nor removes the handlers of other scripts.
 *   -EINVAL    not an isolate; neither a text nor a path, or both
 *   -ENOTSUP   `own_globals`, but the state is not an untrusted one from orr_lua_new()
 *   -EPROTO    it does not compile: the message is pushed (orr_lua_pop_value() takes it).  The
 *              other errors push nothing
 *   -EFBIG     too long
 *   -ENOMEM    and the log has a line about it
 *   -EBUSY, -EPERM   not the isolate's thread
 *   or why the file could not be opened or read: -ENOENT, ...
 */
ORR_API int orr_lua_load(struct lua_State *L, const struct orr_lua_source *source);

/*
 * Starts a function as a task without a parent.  The function and its arguments are on top of the
 * stack, and are popped.  `task` receives a reference, to be given up on the worker's thread; it
 * may be NULL.  A cancelled Lua task ends with -ECANCELED, whatever its function returns, unless it
 * fails by itself.
 *   -EINVAL   not an isolate, or no function there
 *   -ENOMEM   and the log has a line about it
 */
ORR_API int orr_lua_start(struct lua_State *L, int arguments, const char *name, struct orr_task **task);

/*
 * Replaces the deadline of a Lua task; ORR_NEVER for none.  The deadline counts the time that the
 * task has run since it last waited, time before this call included.  So a short one ends a task
 * that is in an endless loop.  The worker's thread, outside the isolate's Lua.
 *   -EINVAL    NULL, not a Lua task, or a deadline of 0
 *   -ESRCH     the task's body is over
 *   -ENOTSUP   the isolate's mode is not ORR_LUA_SIGNAL
 */
ORR_API int orr_lua_set_deadline(struct orr_task *task, uint64_t deadline_ns);

/*
 * Makes the value on top of the stack a module for `require`, and pops it.  A function is called
 * with the name at the first `require`, and its result is the module; any other value is the module
 * itself.  Each script with its own globals calls the function for itself, and cannot change a
 * table that is the module.
 *   -EINVAL   not an isolate, no name, no value, or nil
 *   -ENOMEM
 */
ORR_API int orr_lua_register(struct lua_State *L, const char *name);

/*
 * Calls a function and returns when it has returned.  The function and its arguments are on top of
 * the stack, and are popped.  It works as lua_pcall(), with a deadline: `deadline_ns`; 0 for the
 * isolate's ORR_LUA_CALL deadline, ORR_NEVER for none.  With ORR_LUA_COUNT, `max_instructions`
 * limits the call instead.  The function cannot wait, but may start tasks.  The isolate's thread.
 *
 * Returns 0 with `results` results on the stack.  These errors push one value that says why:
 *   -EREMOTEIO   the function raised that value; without memory, "not enough memory"
 *   -ETIME       it was ended at its deadline: "Script execution timeout".  The notice, or the log,
 *                has the report
 *   -EPROTO      with ORR_LUA_COUNT: a C function yielded to the host
 *   -ENOMEM      with ORR_LUA_COUNT: there is no memory for the call
 *
 * These change nothing:
 *   -EBUSY    the isolate is held: a preempted task must continue first.  Or another thread drives
 *             its worker
 *   -EPERM    not the isolate's thread
 *   -EINVAL   not an isolate, it is closing, or no function there
 *   -ENOMEM   Lua's stack has no room for the results
 */
ORR_API int orr_lua_call(struct lua_State *L, int arguments, int results, uint64_t deadline_ns);

/*
 * Returns 1 if the isolate is held: a preempted task has not continued yet.  Until a turn has let
 * it continue, orr_lua_call() returns -EBUSY and events are queued.  Else returns 0.  The isolate's
 * thread.
 *   -EINVAL   not an isolate, or it is closing
 *   -EBUSY, -EPERM   not the isolate's thread
 */
ORR_API int orr_lua_is_held(struct lua_State *L);

/*
 * Stores the gate that holds the grants of an isolate; NULL for a trusted one, which has
 * everything. It is for struct orr_open: a function of the host that opens sockets on behalf of a
 * script passes it on, so that the script reaches no more than its grants.  What was opened with it
 * is closed before the isolate is.  The isolate's thread.
 *   -EINVAL   not an isolate, or NULL
 *   -EBUSY, -EPERM   not the isolate's thread
 */
ORR_API int orr_lua_gate(struct lua_State *L, const struct orr_gate **gate);

/*
 * Pushes the report of a failed task as text: the error, where it arose, and the tasks it passed
 * through.  orr_lua_pop_value() takes it from the stack.  An error pushes nothing.
 *   -EINVAL   not an isolate, NULL, or a task that is not done
 *   -ENOMEM
 */
ORR_API int orr_lua_push_report(struct lua_State *L, struct orr_task *task);

/*
 * Pushes a function that scripts await by calling it.  `start` begins the work.  It finds the
 * script's arguments on the stack from index `first` on, keeps a reference to the future, and
 * completes it later from any thread.  It returns 0 or a negative errno, or raises.  `push` turns
 * the result into the call's results, or raises.  Without `push`, an error is raised, and success
 * returns nothing.  orr_lua_set_async() does the same without lua.h, and with data of the host.
 *   -EINVAL   not an isolate, or no function
 *   -ENOMEM
 */
typedef int orr_lua_start_fn(struct lua_State *L, struct orr_future *future, int first);
typedef int orr_lua_push_fn(struct lua_State *L, const struct orr_result *result);
ORR_API int orr_lua_push_async(struct lua_State *L, orr_lua_start_fn *start, orr_lua_push_fn *push);

/* ------------------------------------------------------------------------------------------------
 * Events
 *
 * Events tell scripts what happens in the host.  Scripts register handlers with `events:on`.
 */

/*
 * Emits an event with the value on top of the stack as its data, and pops the value.  The event's
 * handlers are called in the order of their registration, in the next turns; the host does not wait
 * for them.  Each may wait: then it is a task.  A handler that never waits costs a call.  The
 * isolate's thread.
 *
 * Events are queued, and keep their order, while the isolate is held, or while a script of
 * orr_script_load() has been loaded but its body has not begun.
 *   -ENOBUFS   the queue is full, and the policy refuses the event
 *   -EINVAL    not an isolate, no name, a star in the name, or no value
 *   -EBUSY, -EPERM   not the isolate's thread
 *   -ENOMEM
 */
ORR_API int orr_events_emit(struct lua_State *L, const char *name);

/*
 * Reserves an event: from now on only the host may emit it.  A name that ends with a star reserves
 * all events that begin so.  The isolate's thread.
 *   -EINVAL   not an isolate, or no name
 *   -EBUSY, -EPERM   not the isolate's thread
 *   -ENOMEM
 */
ORR_API int orr_events_reserve(struct lua_State *L, const char *name);

/*
 * Enables a handler again that was disabled because of timeouts.  The isolate's thread.
 *   -ENOENT   no handler has this id
 *   -EINVAL   not an isolate
 *   -EBUSY, -EPERM   not the isolate's thread
 *   -ENOMEM
 */
ORR_API int orr_events_enable(struct lua_State *L, int64_t id);

/*
 * Returns, inside a notice of ORR_LUA_DISABLED, the id of the handler: the one that events:on()
 * returned, for orr_events_enable().  Returns 0 if it was a timer's callback, which timer:start()
 * enables again, and 0 outside such a notice.  The thread of the notice.
 */
ORR_API int64_t orr_events_disabled(struct lua_State *L);

/* ------------------------------------------------------------------------------------------------
 * Scripts that come and go
 *
 * A script owns everything that it creates: tasks, timers, handlers, scheduled callbacks, and what
 * those create in turn.  All of it ends when the script is unloaded.  Scripts that share an isolate
 * neither list nor remove each other's handlers.
 *
 * A call of the host acts for the script that has the isolate to itself, or for the script that
 * gave the host the function.  In an isolate that scripts share, other calls act for the host.
 *
 * The isolate's thread, for all functions of this section.
 */
struct orr_script;
struct orr_value;

struct orr_script_options {
    struct orr_lua_source source; /* copied */
    /* An isolate that it shares with others; default: its own isolate. */
    struct lua_State *shared;
    /* For its own isolate; what it points to must live as long as the script. */
    struct orr_lua_options lua;

    /* Called each time before the script is compiled: it may add functions of the host. */
    void (*prepare)(void *data, struct lua_State *L);
    void *prepare_data;

    /* When the script's body fails, everything that it created ends, as when it is unloaded; its
     * state stays until then.  Default: its tasks, timers and handlers go on. */
    bool end_on_failure;

    /* Receives why orr_script_load() failed: a text, owned (orr_values_free()), such as
     * "clock.lua:3: '=' expected near 'do'"; nil if it did not, or without memory.  Used in that
     * call only.  Default: the log has the message of a script that does not compile.  With it, the
     * log has neither that nor why a reload failed, if orr_script_reload() returns the error. */
    struct orr_value *why;
};

/*
 * Compiles a script and starts it as a task.
 *   -EINVAL   not a runtime, or NULL; neither a text nor a path, or both; `shared` is not an
 *             isolate, or is closing
 *   -EPROTO   it does not compile; `why` or the log has the message
 *   or an error of orr_lua_new(), orr_lua_load() or orr_lua_start()
 */
ORR_API int orr_script_load(struct orr_runtime *rt, const struct orr_script_options *options,
                            struct orr_script **script);

/*
 * End everything that a script owns.  Its tasks are cancelled and clean up within the runtime's
 * grace period, all together, as in orr_lua_close().  The rest is removed.  An isolate of its own
 * is closed, with all its memory.  Then orr_script_unload() frees the script, and
 * orr_script_reload() loads it again.  If it cannot be loaded again, orr_script_error() says why,
 * and so does the log (but see `why`).  The script then stays without a state: it can be unloaded
 * or reloaded.
 *
 * In plain code, these functions turn the worker until the tasks have cleaned up.  That may take
 * the whole grace period (`grace_ms` of the runtime), if a script's cleanup waits that long.  A
 * host that must not block calls them inside a task, for example one that it spawns for this.  Then
 * they return -EINPROGRESS at once, and the work goes on in the next turns, a little in each.
 *   -EINVAL        NULL
 *   -EALREADY      the script is being unloaded or reloaded already
 *   -EINPROGRESS   Lua of the isolate is running, or this is a task: the script ends in later turns
 *   -EBUSY, -EPERM   not the isolate's thread; nothing was done
 *   -ENOMEM
 *   and for orr_script_reload(), an error of orr_script_load() if it cannot be loaded again
 */
ORR_API int orr_script_unload(struct orr_script *script);
ORR_API int orr_script_reload(struct orr_script *script);

/*
 * Returns the script's Lua state; NULL while it has none.  The state of a script that has an
 * isolate to itself is gone when the script is unloaded or reloaded, and a pointer to it must not
 * be used any more: ask again instead of keeping it.
 */
ORR_API struct lua_State *orr_script_state(const struct orr_script *script);

/*
 * Returns why the last orr_script_reload() could not load the script, as the `why` of
 * orr_script_load(); NULL if it could, or for NULL.  It is borrowed until the next reload or
 * unload.
 */
ORR_API const char *orr_script_error(const struct orr_script *script);

/* ------------------------------------------------------------------------------------------------
 * Values
 *
 * Values are for hosts that do not want to use Lua's stack or include lua.h.  A value is a plain
 * struct; all zeroes are nil:
 *
 *     struct orr_pair size[] = { { orr_value_string("width"), orr_value_integer(1920) },
 *                                { orr_value_string("height"), orr_value_integer(1080) } };
 *     struct orr_value screen = { .type = ORR_TABLE, .table = { .pairs = size, .count = 2 } };
 *     orr_events_emit_value(L, "screen", &screen);
 *
 * Values that a host passes in are borrowed until the call returns; Lua gets copies.  For values
 * that a host receives, each function says which they are: *borrowed* values may be read for a
 * while and must not be freed; *owned* values belong to the host until orr_values_free().
 */
enum orr_value_type {
    ORR_NIL,
    ORR_BOOLEAN,
    ORR_INTEGER, /* a Lua number of the integer kind */
    ORR_NUMBER,  /* a Lua number of the float kind */
    ORR_STRING,
    ORR_TABLE,
    ORR_FUNCTION,
    ORR_OTHER, /* userdata or a coroutine; a host can only see that there is one */
};

/* Any bytes, NULs included.  Strings from the library have one more NUL after the last byte. */
struct orr_string {
    const char *bytes;
    size_t length;
};

/* Items have the keys 1 to `length`; pairs are the rest.  Either may be missing. */
struct orr_table {
    const struct orr_value *items;
    size_t length;
    const struct orr_pair *pairs;
    size_t count;
};

/* A reference to a function of a script: see orr_function_ref(). */
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
    struct orr_value key, value; /* the key is neither nil nor NaN */
};

/* The deepest nesting of tables in a value. */
#define ORR_VALUE_DEPTH 64

/* Make a value.  `text` ends with a NUL, and is borrowed. */
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
 * Pushes a value on Lua's stack.  The isolate's thread.  An error pushes nothing.
 *   -EINVAL   not an isolate, or closing; NULL; or the value holds an unknown type, ORR_OTHER, a
 *             NULL with a length, or a key that is nil or NaN
 *   -EXDEV    it holds a function of another isolate
 *   -ELOOP    it is deeper than ORR_VALUE_DEPTH
 *   -ENOMEM
 *   -EBUSY, -EPERM   not the isolate's thread
 */
ORR_API int orr_lua_push_value(struct lua_State *L, const struct orr_value *value);

/*
 * Reads the value at an index of the stack, without a copy or a conversion; so tables and functions
 * are refused.  A string is borrowed while it is on the stack.  The isolate's thread; this is not
 * checked.
 *   -EINVAL    not an isolate, NULL, or nothing at that index
 *   -ENOTSUP   a table or a function: use orr_lua_copy_value()
 */
ORR_API int orr_lua_read_value(struct lua_State *L, int index, struct orr_value *value);

/*
 * Copies the value at an index of the stack, tables and functions included.  The copy is owned.
 * Tables are copied without calling metamethods; a table that occurs twice is copied twice.  The
 * isolate's thread.  On an error the value is nil.
 *   -EINVAL   not an isolate, or closing; NULL; or nothing at that index
 *   -ELOOP    deeper than ORR_VALUE_DEPTH, as a table inside itself always is
 *   -EFBIG    larger in total than the isolate's longest string
 *   -ENOMEM
 *   -EBUSY, -EPERM   not the isolate's thread
 */
ORR_API int orr_lua_copy_value(struct lua_State *L, int index, struct orr_value *value);

/*
 * Takes the value on top of the stack: copies it as orr_lua_copy_value() does, and pops it.  So a
 * host without lua.h can take what orr_lua_load(), orr_lua_call() or orr_lua_push_report() has
 * pushed.  The copy is owned.  `value` may be NULL, only to pop.
 *   the errors of orr_lua_copy_value(): on -EINVAL, -EBUSY and -EPERM nothing was popped
 */
ORR_API int orr_lua_pop_value(struct lua_State *L, struct orr_value *value);

/*
 * Frees owned values with their contents and makes them nil; nil is allowed.  Call it before the
 * runtime is freed.  Any thread; if a value holds functions, as for orr_function_unref().
 */
ORR_API void orr_values_free(struct orr_value *values, size_t count);

/*
 * Calls the function at a path, such as "on_key" or "game.hooks.draw", and returns when it has
 * returned, as orr_lua_call() does, with its deadline.  The path is looked up in the globals that
 * scripts share, without calling metamethods.  `*result_count` is the room in `results`, and
 * receives the number of results; further results are lost.  The results are owned.  `results` and
 * `result_count` may be NULL.
 *
 *     struct orr_value sum, numbers[] = { orr_value_integer(1), orr_value_integer(2) };
 *     size_t room = 1;
 *     int error = orr_lua_call_values(L, "add", numbers, 2, &sum, &room, 0);
 *     if (error == -EREMOTEIO && room && sum.type == ORR_STRING)
 *         complain(sum.string.bytes);
 *     orr_values_free(&sum, room);
 *
 * The stack stays as it was.  The isolate's thread.  These errors give one result that says why, if
 * there is room:
 *   -EREMOTEIO   the function raised that value
 *   -ETIME       "Script execution timeout"
 *   -ENOMEM      with or without a result
 *
 * These give none:
 *   -ENOENT   there is no function at the path
 *   -EINVAL, -EXDEV, -ELOOP   an argument, as for orr_lua_push_value(); or no path.  It was not
 *                             called
 *   -ELOOP, -EFBIG   a result, as for orr_lua_copy_value().  It was called
 *   -EBUSY    the isolate is held, or another thread drives its worker
 *   -EPERM    not the isolate's thread
 */
ORR_API int orr_lua_call_values(struct lua_State *L, const char *path, const struct orr_value *arguments, size_t count,
                                struct orr_value *results, size_t *result_count, uint64_t deadline_ns);

/*
 * References to functions, as values hold them.  Take another reference to keep a function that is
 * borrowed, or to keep it after orr_values_free().  A reference keeps the function, but not the
 * isolate.  After the isolate is closed, a reference can only be given up, and must be before the
 * runtime is freed.  NULL is allowed.  The isolate's thread; this is not checked.
 */
ORR_API struct orr_function *orr_function_ref(struct orr_function *function);
ORR_API void orr_function_unref(struct orr_function *function);

/*
 * Calls a function of a script, as orr_lua_call_values() does.
 *   -EINVAL   NULL, or its isolate has been closed
 *   and the errors of orr_lua_call_values()
 */
ORR_API int orr_function_call(struct orr_function *function, const struct orr_value *arguments, size_t count,
                              struct orr_value *results, size_t *result_count, uint64_t deadline_ns);

/*
 * Emits an event with a value of the host as its data; NULL for nil.  The errors are those of
 * orr_events_emit() and orr_lua_push_value().
 */
ORR_API int orr_events_emit_value(struct lua_State *L, const char *name, const struct orr_value *data);

#define ORR_CALL_RESULTS 8

/* One call of a host function by a script.  `L` is for this call: do not keep it. */
struct orr_call {
    struct lua_State *L;
    const struct orr_value *arguments; /* borrowed until the function returns */
    size_t count;
    /* The function fills in the first ones; all nil before. */
    struct orr_value results[ORR_CALL_RESULTS];
    size_t result_count;
    /* If set, called after the results were copied, to free what they borrow. */
    void (*drop)(void *data);
    void *drop_data;
    char message[256]; /* of orr_call_fail() */
};

/*
 * A function of the host that scripts call.  It returns 0, or a negative errno that is raised in
 * the script.  It runs on the worker's thread.  It must not take long or raise a Lua error.  It may
 * call the isolate.
 */
typedef int orr_call_fn(void *data, struct orr_call *call);

/*
 * Makes a function of the host callable by scripts, at a path in the globals that scripts share.
 * It replaces the value there; missing tables on the path are created.  `data` must live as long as
 * the isolate.  The isolate's thread.  For functions that take time, use orr_lua_set_async().
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
 *   -EINVAL    not an isolate, or closing; no function, no path, or an empty part in the path
 *   -ENOTDIR   something on the path is not a table
 *   -ENOMEM
 *   -EBUSY, -EPERM   not the isolate's thread
 */
ORR_API int orr_lua_set_function(struct lua_State *L, const char *path, orr_call_fn *fn, void *data);

/*
 * Sets the message that the script receives, after its position and the function's path, and
 * returns `error`, for `return orr_call_fail(call, -EINVAL, "expected a name, got %d", n);`.
 * Without it, the message is that of strerror().  Only inside the function.  Dots at the end of the
 * message stand for what does not fit.
 */
ORR_API int orr_call_fail(struct orr_call *call, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Functions of the host that take time.  A script simply calls such a function: its task waits, and
 * other tasks go on.  The host begins the work, and replies when it is done.
 *
 *     static int download(void *data, struct orr_call *call, struct orr_reply *reply)
 *     {
 *         if (call->count != 1 || call->arguments[0].type != ORR_STRING)
 *             return orr_call_fail(call, -EINVAL, "expected an address");
 *         return network_get(data, call->arguments[0].string.bytes, downloaded, reply);
 *     }
 *
 *     static void downloaded(struct orr_reply *reply, const char *text, size_t length)
 *     {
 *         struct orr_value body = { .type = ORR_STRING, .string = { text, length } };
 *         orr_reply_send(reply, &body, 1);
 *     }
 *     orr_lua_set_async(L, "game.get", &(struct orr_async){ .start = download, .data = network });
 */
struct orr_reply;

/*
 * Begins one call.  The arguments in `call` are borrowed until it returns; its results are not
 * used.  Returns 0 if the host replies: later, from any thread, or right here.  Else returns a
 * negative errno that is raised in the script, as an orr_call_fn does; then `reply` must not be
 * used.  It runs on the worker's thread, and must not take long or raise a Lua error.
 */
typedef int orr_async_fn(void *data, struct orr_call *call, struct orr_reply *reply);

struct orr_async {
    orr_async_fn *start; /* required */
    void *data;          /* passed to all three functions */

    /* Called when nobody waits for the reply any more: the task was cancelled, was ended, or its
     * isolate is closed.  The host may then stop the work, but still replies, here or later.
     * Called once at most, on the worker's thread, perhaps at the moment in which another thread
     * replies.  It must not call the isolate.  May be NULL. */
    void (*cancel)(void *data, struct orr_reply *reply);

    /* Destructor of `data`: called once, when no script can call the function any more and every
     * call was replied to.  It runs on the worker's thread, or on the thread of the last reply.  It
     * must not call the isolate.  May be NULL. */
    void (*drop)(void *data);

    /* Calls that the host has not replied to yet, cancelled ones included; one more raises an error
     * in the script.  Default 10,000. */
    unsigned max_calls;
};

/*
 * Makes a function of the host that takes time callable by scripts, at a path, as
 * orr_lua_set_function() does and with its errors.  `function` is copied.  On an error nothing is
 * kept, and `drop` is not called.  Only tasks can call the function: orr_lua_call() cannot wait.
 * The isolate's thread.
 */
ORR_API int orr_lua_set_async(struct lua_State *L, const char *path, const struct orr_async *function);

/*
 * Give a call its results, or an error: a negative errno, and a message as in orr_call_fail().  One
 * of the two must be called, once, for each call whose `start` has returned 0.  Afterwards the
 * reply is gone, whatever is returned.  The values are copied.  They hold no functions.
 *
 * Any thread, but not a signal handler; also when the isolate or the runtime is gone.  The
 * runtime's allocator is used, and must be thread-safe if other threads reply.
 *   -ECANCELED   nobody waits for the reply any more
 *   -EINVAL      NULL; or the values hold a function, or a value that orr_lua_push_value() refuses.
 *                The script gets an error
 *   -ELOOP, -ENOMEM   the values are too deep, or there is no memory.  The script gets an error
 */
ORR_API int orr_reply_send(struct orr_reply *reply, const struct orr_value *values, size_t count);
ORR_API int orr_reply_fail(struct orr_reply *reply, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Returns whether a task still waits for the reply; false for NULL.  Long work on another thread
 * can ask this now and then, in place of `cancel`.  Any thread, before the reply.
 */
ORR_API bool orr_reply_wanted(const struct orr_reply *reply);

/*
 * Ties something of the host to the call, for example the job that works on it, and returns it
 * again; NULL if there is nothing.  It lives until the call is replied to and `cancel` can no
 * longer be called; then `drop`, which may be NULL, receives it, on one of the threads concerned.
 * Attach it once, inside `start`, before another thread has the reply.
 *   -EINVAL     NULL
 *   -EALREADY   something is attached; `what` still belongs to the caller
 */
ORR_API int orr_reply_attach(struct orr_reply *reply, void *what, void (*drop)(void *what));
ORR_API void *orr_reply_attached(const struct orr_reply *reply);

/* ------------------------------------------------------------------------------------------------
 * Lua statistics
 */
struct orr_lua_stats {
    uint64_t tasks; /* tasks that are not done */

    size_t memory_used;
    size_t memory_peak;  /* 0 for a state of the host's */
    size_t memory_limit; /* 0 for no limit */

    uint64_t preemptions; /* slices that were suspended */
    uint64_t timeouts;    /* tasks, calls and callbacks that were ended at their deadline */

    uint64_t events_emitted;   /* by the host; the next three are some of them */
    uint64_t events_refused;   /* the queue was full */
    uint64_t events_dropped;   /* they replaced the oldest event in the queue */
    uint64_t events_coalesced; /* they replaced an event with the same name */

    uint64_t schedule_waiting; /* callbacks of schedule() that wait */
    uint64_t schedule_errors;  /* callbacks that failed */
    uint64_t schedule_run;     /* callbacks that have begun */

    /* Timers of the Lua module `loop`.  Sleeping tasks are not counted here.
     * orr_runtime_stats() counts the timers of a worker. */
    uint64_t timers_pending; /* to fire, or to fire again */
    uint64_t timers_fired;
    uint64_t timers_cancelled; /* by scripts, before they fired */
    uint64_t timers_rearmed;   /* started again before they fired */
    uint64_t timers_migrated;  /* always 0: they stay on the isolate's worker and end with it */
    /* Pending when their script ended, or when they timed out too often. */
    uint64_t timers_dropped;
};

/*
 * Reads the counters of an isolate.  It works while the isolate is held, too.  The isolate's
 * thread.
 *   -EINVAL   not an isolate, or `stats` is NULL
 *   -EBUSY, -EPERM   not the isolate's thread
 */
ORR_API int orr_lua_stats(struct lua_State *L, struct orr_lua_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
