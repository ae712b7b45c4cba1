/*
 * How a worker's time is shared.  Tasks belong to *shares*: each isolate is one, and the tasks of
 * the host are one more.  The worker gives its time to the shares in turn, and inside a share to
 * its tasks, first come, first served.  However many tasks a share has, it gets no more time than
 * the others.
 *
 * The ring holds the shares that have something to do.  The first share is polled until its credit
 * is used up: a stretch of SHARE_NS, or less if there are many shares.  Then it goes to the end,
 * and gets a new stretch when it is first again.  A share that ran for longer gets less the next
 * time.  A share whose tasks all wait for the next pass ends this pass, and goes on in the next
 * with the credit that is left.
 *
 * A share that has something to do again is *fresh*: it goes to the front, behind other fresh
 * shares.  So its timer waits for the poll under way, and not for a stretch of shares that are
 * always busy.  It keeps the credit with which it left, and gets what each other share may have had
 * meanwhile, at most a stretch.  Without credit it goes to the end.  So no share gets more by
 * sleeping often.
 *
 * Inside a share, interrupted tasks come first: a child has failed, an awaited task has failed, or
 * the task is cancelled after a failure.  So a parent hears of a failure before ready siblings run
 * on, and the tasks that are cancelled for it end before them.  An interrupted task may also be in
 * the middle of another queue, and stays there: it is polled once more from there, which does no
 * harm, and nothing is ever searched.  One failure interrupts at most all tasks; after about twice
 * as many such polls in a row, one ready task is polled.  So tasks that keep interrupting each
 * other cannot starve the others.  Between shares, an interruption changes nothing.
 *
 * While only one share has something to do, no time is measured, and the shares behave like a
 * single queue.  On a virtual or manual clock, or when ready tasks are taken at random, polls are
 * counted in place of time, so that the order is the same each time.
 *
 * A task belongs to the share of its parent, unless its creator says otherwise.
 *
 * All of it belongs to the worker's owner.  A share is embedded in the object that it stands for,
 * and must be closed before that is freed: see worker_close_share().
 */
#ifndef ORR_EXEC_SHARE_H
#define ORR_EXEC_SHARE_H

#include "exec/task.h"

#define SHARE_NS INT64_C(2000000)
#define SHARE_SHORTEST_NS INT64_C(250000)
/* All stretches together, until each is SHARE_SHORTEST_NS. */
#define SHARE_ROUND_NS INT64_C(16000000)

enum {
    SHARE_POLLS = 16, /* polls that stand for SHARE_NS, where polls are counted */
    /* Times SHARE_NS: the most that a share can owe after a poll that nothing interrupted. */
    SHARE_DEBT_MAX = 8
};

struct share {
    struct queue ready;
    struct queue deferred; /* woken during their own poll; ready in the next pass */
    struct {
        struct orr_task *first, *last; /* by `next_interrupted` */
        uint64_t polls_left;           /* until a ready task is polled; 0: one has just been */
    } interrupted;
    /*
     * Have used up their time slice.  One goes on in each pass, when nothing else of the share is
     * ready.
     */
    struct queue late;
    struct share *next; /* in the ring */
    struct share *next_deferring;
    int64_t credit;      /* nanoseconds that the share may run before the others */
    uint64_t idle_since; /* when it left the ring; 0 if it was alone there */
    uint64_t late_pass;  /* the pass in which a late task last ran */
    unsigned waited;     /* polls of the share since then */
    const char *name;    /* of the isolate, for the log; NULL for the host's own share */
    bool open;
    bool listed;    /* in the ring; true while any task is ready, interrupted or late */
    bool spent;     /* its stretch is over: it goes to the end of the ring */
    bool deferring; /* in the list of shares with deferred tasks */
    bool late_owed; /* the last pass had no time for a late task */
};

/*
 * Tasks of one share that were polled too early and held back by the layer above, until it queues
 * them again.  They count as `queued`.  Zeroed is empty.  See held_push() in extend.h.
 */
struct held_tasks {
    struct queue ready;
    struct queue late; /* had used up their time slice */
};

/* A poll under way of a task of a share. */
struct share_visit {
    struct share *share; /* NULL if it was closed meanwhile */
    struct share_visit *outer;
};

struct shares {
    struct share *first, *last;
    /* The last fresh share; the fresh ones are first in the ring; NULL for none. */
    struct share *fresh;
    uint32_t listed; /* shares in the ring */
    uint32_t late;   /* shares with tasks that are late */
    bool timed;      /* time is measured; else polls are counted */
    /*
     * Set when a second share has something to do, a share was closed, or a task was interrupted.
     * A pass clears it and watches it.
     */
    bool changed;
    uint64_t mark; /* up to when time was charged, while two are in the ring; never 0 */
    struct share *deferring;
    struct share_visit *visits; /* innermost first */
    uint64_t passes;
    struct share own; /* the share of the host's tasks */
};

void shares_init(struct shares *shares);

/* Opens a zeroed share.  `name` must live as long as the share; NULL for none. */
void share_open(struct share *share, const char *name);

/* Closes a share that no task names any more.  Tasks still queued in it go to the host's share. */
void share_close(struct shares *shares, struct share *share);

/* Puts a share that has something to do into the ring.  It must not be there. */
void share_enter(struct shares *shares, struct share *share);

static inline void share_list(struct shares *shares, struct share *share)
{
    if (__builtin_expect(!share->listed, 0))
        share_enter(shares, share);
}

static inline void share_push(struct shares *shares, struct share *share, struct orr_task *task)
{
    queue_push(&share->ready, task);
    share_list(shares, share);
}

/* Queues a task before all others of the share. */
static inline void share_push_front(struct shares *shares, struct share *share, struct orr_task *task)
{
    queue_push_front(&share->ready, task);
    share_list(shares, share);
}

/*
 * Queues an interrupted task: before ready ones, behind other interrupted ones.  It may be in
 * another queue, too.
 */
static inline void share_push_interrupted(struct shares *shares, struct share *share, struct orr_task *task)
{
    task->next_interrupted = NULL;
    if (share->interrupted.first)
        share->interrupted.last->next_interrupted = task;
    else
        share->interrupted.first = task;
    share->interrupted.last = task;
    shares->changed = true; /* a pass that polls ready tasks must notice */
    share_list(shares, share);
}

static inline struct orr_task *share_pop_interrupted(struct share *share)
{
    struct orr_task *task = share->interrupted.first;
    if (task)
        share->interrupted.first = task->next_interrupted;
    return task;
}

static inline void share_push_deferred(struct shares *shares, struct share *share, struct orr_task *task)
{
    queue_push(&share->deferred, task);
    if (share->deferring)
        return;
    share->deferring = true;
    share->next_deferring = shares->deferring;
    shares->deferring = share;
}

/*
 * Whether any task is queued.  The ring alone does not tell: the share of a task that is being
 * polled stays in it.  Takes as long as the ring is.
 */
static inline bool shares_any_queued(const struct shares *shares)
{
    for (const struct share *share = shares->first; share; share = share->next)
        if (share->ready.first || share->interrupted.first || share->late.first)
            return true;
    return shares->deferring;
}

void share_push_late(struct shares *shares, struct share *share, struct orr_task *task, bool front);

/*
 * Queues all tasks of `ready` before those that are ready, and all of `late` behind those that are
 * late.
 */
void share_put_back(struct shares *shares, struct share *share, struct queue *ready, struct queue *late);

/*
 * Takes a task out of the queue that it is in; false if it is in none.  Takes as long as the queues
 * are.
 */
bool share_remove(struct shares *shares, struct share *share, struct orr_task *task);

/* Takes the next late task; NULL if there is none. */
struct orr_task *share_pop_late(struct shares *shares, struct share *share);

/* Whether another share has something to do. */
static inline bool share_has_rivals(const struct shares *shares, const struct share *share)
{
    return shares->listed > share->listed;
}

/* The share to poll next; NULL if none has anything to do. */
struct share *shares_next(struct shares *shares);

/* Takes the first share out of the ring. */
void share_leave_first(struct shares *shares);

/*
 * Takes a share that has nothing to do out of the ring, if it is the first.  Otherwise that happens
 * when it becomes the first.
 */
static inline void share_unlist_empty(struct shares *shares, struct share *share)
{
    if (share->ready.first || share->interrupted.first || share->deferred.first || share->late.first ||
        shares->first != share)
        return;
    share_leave_first(shares);
}

/* Charges a share that has rivals for `ns` of running. */
void share_charge(struct share *share, int64_t ns);

/* A pass ends: deferred tasks become ready. */
static inline void shares_end(struct shares *shares)
{
    struct share *share;
    while ((share = shares->deferring)) {
        shares->deferring = share->next_deferring;
        share->deferring = false;
        queue_join(&share->ready, &share->deferred);
        if (share->ready.first)
            share_list(shares, share);
    }
}

#endif
