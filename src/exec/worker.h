/*
 * A worker is one thread's executor: a thread of the runtime, never a script on another thread
 * (which is a job).
 *
 * The thread that drives a worker, its own or the host's, is its *owner* for as long as a turn
 * lasts, and `worker_current` says so.  Everything here that is not atomic belongs to the owner.
 * Other threads reach a worker in three ways only, and ring its bell after each: the inbox of its
 * waker table (a wake), its mailbox (a letter, such as a task to spawn), and `nudged` (look at the
 * runtime again).
 *
 * struct worker is composed of the structs of the modules that own them; the comment behind a
 * member names the owner.  Only the owner changes the member; others of exec may read it.  Layers
 * above use extend.h.
 */
#ifndef ORR_EXEC_WORKER_H
#define ORR_EXEC_WORKER_H

#include "base/alloc.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "exec/idle.h"
#include "exec/opened_list.h"
#include "exec/share.h"
#include "exec/spin.h"
#include "exec/task.h"
#include "exec/tasks.h"
#include "exec/waker_table.h"
#include "exec/watch.h"
#include "reactor/reactor.h"
#include "time/shard.h"
#include "time/timers.h"

#include <pthread.h>

enum worker_phase {
    WORKER_OPEN,
    WORKER_GRACE,   /* it closes, and its cancelled tasks clean up; they may still spawn others */
    WORKER_CLOSING, /* it takes no more letters, and ends what is left */
};

/* When a pass looks at the clock. */
struct look {
    unsigned every;    /* polls between two looks: fewer if polls are long */
    unsigned in;       /* polls until the next look */
    uint64_t at;       /* when the clock was last read for a look */
    uint64_t polls;    /* polls before that look */
    uint64_t ticks;    /* ticks of the watch before that look */
    uint64_t at_turn;  /* the first turn that begins with a look, timers or not */
    uint64_t cpu_mark; /* the thread's processor time when a long poll was last charged */
};

/* Written by the owner, read by any thread: see stats.c. */
struct worker_counters {
    uint64_t eventfd_writes_before; /* of the workers that had the waker table before */
    uint64_t futex_wakes_before;
    struct counter sleeps;
    struct counter turns;
    struct counter wakes_foreign;
    struct counter wakes_coalesced;
    struct counter polls; /* hot, as the next: beside the table of tasks */
    struct counter wakes_local;
};

/* The end of a worker. */
struct grace {
    uint64_t ns;  /* how long cancelled tasks may clean up */
    uint64_t end; /* until when, by the machine's clock; 0 before the worker closes */
};

/* What the layer above hangs into a worker. */
struct extension {
    void *data;
    void (*on_close)(struct worker *worker); /* called first when the worker closes; or NULL */
};

/* What other threads write. */
struct worker_remote {
    _Atomic bool nudged;
    _Atomic bool stopped; /* by orr_worker_stop(): this worker alone */
    /* Futures of its tasks that only something outside can complete. */
    _Atomic uint64_t foreign_futures;
    _Atomic uint32_t expected_spawns; /* spawns in the mailbox, counted against the limit */
};

struct stretch;

struct worker {
    /* What a wake on the own thread touches comes first. */
    struct waker_table *table;
    unsigned table_number;
    enum worker_phase phase;         /* worker_life.c, grace.c */
    struct orr_task *polling;        /* poll.c: the innermost */
    struct letter *letters;          /* turn.c: taken from the mailbox, not yet opened */
    struct shares shares;            /* share.c: the run queue */
    unsigned late_polls;             /* turn.c: polls of late tasks in this turn */
    struct look look;                /* turn.c */
    struct stretch *stretch;         /* turn.c: polls under way that nothing interrupts; or NULL */
    uint64_t shuffle;                /* shuffle.c: state of the random order; 0 for none */
    struct worker_counters counters; /* each by the file that counts */
    struct tasks tasks;              /* tasks.c */
    struct orr_nest top;             /* scope.c: tasks without a parent */
    uint64_t now;                    /* turn.c: the time as last read, perhaps some turns ago */

    struct timer_shard *shard;
    struct timers *timers;
    struct watch *watch;
    struct reactor *reactor;
    enum orr_reactor reactor_kind; /* for other threads; the reactor itself is the owner's */

    struct orr_runtime *runtime;
    unsigned number;   /* in its runtime, from 1 */
    uint64_t identity; /* unlike that of any other worker in this process, ever */
    /* The worker that the thread drove before, if it drives this one from inside a task. */
    struct worker *outer;
    struct alloc alloc;
    struct log log;
    pthread_t thread; /* open.c: not of worker 1 */

    uint32_t failures;                            /* scope.c: handed up so far */
    uint32_t scopes;                              /* block.c: entered so far; each has a number */
    void (*report_unseen)(struct orr_task *task); /* scope.c: called for an unseen failure */

    uint64_t spawns_by_letter; /* spawn.c, drive.c: since the worker last had no tasks */
    struct spin spin;          /* turn.c: looking for news before sleeping */
    struct grace grace;        /* grace.c */
    struct idle_list idle;     /* idle.h: what can be done when the host has time to spare */
    struct extension extension;
    struct opened_list opened; /* opened.c: what is to be closed with the worker */
    struct spree spree;        /* io/stream.c */

    char apart[64];              /* what other threads write is on a cache line of its own */
    struct worker_remote remote; /* any thread */
};

/* What a worker is opened with. */
struct worker_config {
    struct orr_runtime *runtime;
    unsigned number;
    unsigned max_tasks;
    enum orr_reactor reactor;
    struct spin spin;
    uint64_t grace_ns;
    uint64_t shuffle_seed;
    int preempt_signal;
    struct timers *timers;
    struct alloc alloc;
    struct log log;
};

/* A letter to a worker.  The receiver owns it from then on. */
struct mail {
    struct letter letter;
    /* On the worker's thread; looks at `phase`. */
    void (*arrive)(struct worker *worker, struct mail *mail);
};

/* Initial-exec, so that reading it never allocates and is safe in a signal handler. */
extern _Thread_local struct worker *worker_current __attribute__((tls_model("initial-exec")));

/*
 * The calling thread becomes the owner.  Answers which worker it was the owner of before, for
 * worker_leave().
 */
static inline struct worker *worker_enter(struct worker *worker)
{
    struct worker *outer = worker_current;
    worker->outer = outer;
    worker_current = worker;
    timer_shard_current = worker->shard;
    return outer;
}

static inline void worker_leave(struct worker *outer)
{
    worker_current = outer;
    timer_shard_current = outer ? outer->shard : NULL;
}

/* Whether a turn now would find something to do without asking the kernel.  The owner. */
static inline bool worker_busy(struct worker *worker)
{
    return worker->shares.first || worker->shares.deferring || worker->letters || worker->shard->letters ||
           reactor_has_done(worker->reactor) || shard_next(worker->shard) <= worker->now;
}

/*
 * Whether other threads have left something.  Sequentially consistent, for use after bell_listen().
 */
static inline bool worker_has_news(struct worker *worker)
{
    return !waker_table_inbox_empty(worker->table) || !mailbox_empty(&worker->table->mailbox) ||
           atomic_load(&worker->remote.nudged) || shard_has_news(worker->shard);
}

/*
 * Takes the nudge, before the owner looks at what it may be about.  In this order, a nudge that
 * comes after the look is still there when the worker is about to sleep.
 */
static inline void worker_take_nudge(struct worker *worker)
{
    if (atomic_load_explicit(&worker->remote.nudged, memory_order_relaxed))
        atomic_exchange(&worker->remote.nudged, false);
}

/* Has the worker look at the runtime again.  Any thread, signal handlers too. */
static inline void worker_nudge(struct worker *worker)
{
    atomic_store(&worker->remote.nudged, true);
    bell_ring(&worker->table->bell);
}

/* False if the worker takes no more letters; then the sender still owns the letter.  Any thread. */
static inline bool worker_post(struct worker *worker, struct mail *mail)
{
    return waker_table_post(worker->table, &mail->letter);
}

/* Queues a live task, once.  A task that is being polled waits for the next turn.  The owner. */
static inline void worker_ready(struct worker *worker, struct orr_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    struct share *share = task->share;
    if (task == worker->polling)
        share_push_deferred(&worker->shares, share, task);
    else
        share_push(&worker->shares, share, task);
}

/*
 * Queues a live task that is interrupted, once, before those that are merely ready.  A running task
 * hears of the interruption when it next waits, and so does one that has used up its time slice:
 * these keep their positions.  The owner.
 */
static inline void worker_ready_interrupted(struct worker *worker, struct orr_task *task)
{
    if (task->running || task->late) {
        worker_ready(worker, task);
    } else if (!task->interrupted) {
        task->interrupted = true;
        share_push_interrupted(&worker->shares, task->share, task);
    }
}

/* Queues a live task before all others of its share.  The owner. */
static inline void worker_ready_next(struct worker *worker, struct orr_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    share_push_front(&worker->shares, task->share, task);
}

/*
 * Queues a live task that has used up its time slice, at the end of its share.  It goes to the
 * front if the end of the turn cut its slice short after another task had a whole one: otherwise
 * the same tasks would be cut each time.  The owner.
 */
void worker_ready_late(struct worker *worker, struct orr_task *task);

/* Takes a queued task out of its queue; takes as long as the queue is.  The owner. */
static inline void worker_unqueue(struct worker *worker, struct orr_task *task)
{
    if (share_remove(&worker->shares, task->share, task))
        task->queued = false;
}

/*
 * Ends a share.  Its tasks belong to the host's share from now on.  Takes as long as there are
 * tasks.  The owner.
 */
void worker_close_share(struct worker *worker, struct share *share);

#endif
