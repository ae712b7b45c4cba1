/*
 * A worker is one thread's executor.  Whoever drives it, its own thread or the host's, is its owner for as long
 * as a turn lasts; `worker_current` says so, and everything plain in here belongs to that thread.  Other
 * threads reach a worker in three ways only, each of them followed by the bell: the place's inbox (a wake), the
 * mailbox (a letter, such as a task to be spawned), and `nudged` (look again at what the runtime says).
 */
#ifndef ORR_EXEC_WORKER_H
#define ORR_EXEC_WORKER_H

#include "base/alloc.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "exec/idle.h"
#include "exec/share.h"
#include "exec/task.h"
#include "exec/waker_table.h"
#include "exec/watch.h"
#include "reactor/reactor.h"
#include "time/shard.h"
#include "time/timers.h"

#include <pthread.h>

/* At most so many before a worker looks up. */
enum {
    TURN_POLLS = 256,
    TURN_DEAD = 4096, /* tasks in the ready queue that have ended meanwhile */
    TURN_LETTERS = 1024,
};

struct worker {
    /* What a wake on the own thread touches comes first. */
    struct waker_table *table;
    unsigned table_number;
    bool closing;
    bool grace; /* the end has come, and tasks are cleaning up */
    struct orr_task *polling;
    struct letter *letters; /* taken from the mailbox, not yet opened */
    struct shares shares;   /* with the tasks that are ready */
    unsigned late_polls;    /* of tasks that had used up their time, in this turn */
    unsigned look_every;    /* polls, for timers: fewer if they are long */
    unsigned look_in;       /* polls until the next look */
    uint64_t looked_at;     /* when the clock was last read for one, */
    uint64_t looked_polls;  /* and how many polls there had been */
    uint64_t ticks;         /* of the watch, then */
    uint64_t cpu_mark;      /* the thread's processor time when a long poll was last charged */
    uint64_t shuffle;       /* what chooses among the ready ones; 0: the first: see shuffle.h */
    struct counter wakes_local;
    struct counter polls;
    struct tasks tasks;
    struct orr_nest top; /* tasks without a parent */
    uint64_t now;        /* the time, as last read: some turns ago, if they are short */

    struct timer_shard *shard;
    struct timers *timers;
    struct watch *watch;

    struct orr_runtime *runtime;
    struct worker *outer; /* whom the owner's thread drove before, if it drives us from inside a task */
    unsigned number;      /* in its runtime, from 1 */
    uint32_t failures;    /* handed up so far */
    struct alloc alloc;
    struct log log;
    struct reactor *reactor;
    enum orr_reactor reactor_kind;
    uint32_t scopes; /* entered so far: each has a number */
    uint64_t spin_ns;
    pthread_t thread;
    uint64_t identity; /* unlike any other worker's, in this process, ever */
    uint64_t grace_ns;
    uint64_t grace_end; /* when tasks may clean up no longer, by the machine's clock; 0 before the worker closes */
    uint64_t spawns_by_letter; /* spawns received by letter since the worker was last without tasks */

    struct counter wakes_foreign;
    struct counter wakes_coalesced;
    struct counter sleeps;
    struct counter turns;
    uint64_t eventfd_writes_before; /* of those who had the place before us */
    uint64_t futex_wakes_before;

    struct idle_list idle; /* what can be done when the host has time to spare */

    /* Of a layer above. */
    void *extension;
    void (*on_close)(struct worker *worker);   /* called first when it closes */
    void (*task_freed)(struct orr_task *task); /* called last of a task, when nothing refers to it any more; or NULL */

    char apart[64]; /* what other threads write is on a cache line of its own */
    _Atomic bool nudged;
    _Atomic bool ending;       /* this worker alone is to stop */
    _Atomic uint64_t foreign;  /* futures of its tasks that something outside is to complete */
    _Atomic uint32_t expected; /* spawns in the mailbox, counted against the limit */
};

/* A letter to a worker, which the receiver owns from then on. */
struct mail {
    struct letter letter;
    void (*arrive)(struct worker *worker, struct mail *mail); /* on the worker's thread; looks at `closing` */
};

/* Initial-exec, so that reading it never allocates and is safe in a signal handler. */
extern _Thread_local struct worker *worker_current __attribute__((tls_model("initial-exec")));

struct worker_config {
    struct orr_runtime *runtime;
    unsigned number;
    unsigned max_tasks;
    enum orr_reactor reactor;
    uint64_t spin_ns;
    uint64_t grace_ns;
    uint64_t shuffle_seed;
    int preempt_signal;
    struct timers *timers;
    struct alloc alloc;
    struct log log;
};

/* Negative errno, and nothing made, when a descriptor or memory is missing. */
int worker_open(struct worker *worker, const struct worker_config *config);

/* Ends every task and frees all but the place.  On the worker's thread, or on any when it has none. */
void worker_close(struct worker *worker);

/* Gives up the place of a closed worker, when no other thread nudges it or reads its counters any more. */
void worker_release(struct worker *worker);

/* One pass, never blocking; `budget_ns` may be ORR_NEVER.  The owner. */
void worker_turn(struct worker *worker, uint64_t budget_ns);

/* Does what can wait, until a time.  True if there is more of it.  The owner, outside turns. */
bool worker_idle(struct worker *worker, uint64_t until);

/* Blocks until there is something to do, or may be, a due timer included, but not longer than that.  The owner. */
void worker_sleep(struct worker *worker, uint64_t longest_ns);

/* The calling thread becomes the owner; answers what it was the owner of before, for worker_leave(). */
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

/* When the worker has to turn, whatever else happens: 0 for now, ORR_NEVER for not at all.  The owner. */
uint64_t worker_deadline(struct worker *worker);

/*
 * What a host's turn ends with: hands the kernel what was started and, if the host watches the descriptor,
 * makes it readable exactly if there is something to do.  The owner.
 */
void worker_park(struct worker *worker, bool watched);

/* Whether a turn now would find something to do without looking at the kernel.  The owner. */
static inline bool worker_busy(struct worker *worker)
{
    return worker->shares.first || worker->shares.deferring || worker->letters || worker->shard->letters ||
           reactor_has_done(worker->reactor) || shard_next(worker->shard) <= worker->now;
}

/* Whether others have left something.  Sequentially consistent, for use after bell_listen(). */
static inline bool worker_has_news(struct worker *worker)
{
    return !waker_table_inbox_empty(worker->table) || !mailbox_empty(&worker->table->mailbox) ||
           atomic_load(&worker->nudged) || shard_has_news(worker->shard);
}

/*
 * Before the owner looks at what a nudge may be about.  In this order, a nudge that comes after the look is still
 * there when the worker is about to sleep.
 */
static inline void worker_take_nudge(struct worker *worker)
{
    if (atomic_load_explicit(&worker->nudged, memory_order_relaxed))
        atomic_exchange(&worker->nudged, false);
}

/* Have the worker look at the runtime again.  Any thread, signal handlers too. */
static inline void worker_nudge(struct worker *worker)
{
    atomic_store(&worker->nudged, true);
    bell_ring(&worker->table->bell);
}

/* False if the worker takes no more letters; then the letter is still the sender's.  Any thread. */
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
 * Queues a live task that is interrupted, before those that are merely ready, once.  A task that runs hears of it when it next waits,
 * and so does one that has used up its time: these keep their places.  The owner.
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

/* Ends a share.  Tasks that are still of it, and have left what it stands for, are the host's from now on.  The owner. */
void worker_close_share(struct worker *worker, struct share *share);

/* Takes a queued task out of its queue; takes as long as that is.  The owner. */
static inline void worker_unqueue(struct worker *worker, struct orr_task *task)
{
    if (share_remove(&worker->shares, task->share, task))
        task->queued = false;
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
 * Queues a live task that has used up its time.  It goes to the end of its share; but to the front, if the turn's end has cut its time short
 * after another had all of its own, or it would always be the same ones that are cut.  The owner.
 */
void worker_ready_late(struct worker *worker, struct orr_task *task);

#endif
