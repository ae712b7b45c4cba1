/*
 * How a worker's time is shared.  Tasks belong to *shares*: each isolate is one, and the tasks of the host are one more.  The worker gives
 * its time to the shares first, in turn, and then, inside one, to its tasks, first come, first served.  However many tasks a share
 * has, it gets no more time than the others.
 *
 * The ring holds the shares that have something to do.  The first of them is polled until its credit is used up: a stretch of SHARE_NS, or less
 * if there are many.  Then it goes to the end, and has a new stretch when it is first again.  A share that ran for longer has less the next time;
 * one whose tasks all wait for the next pass ends this one, and goes on in that with what is left.
 *
 * A share that has something to do again comes first, behind others of the same kind (they are *fresh*), so that a timer of it waits for the
 * poll under way and for no stretch of those that are always busy.  It brings the credit that it went away with, and as much as each of the
 * others may have had meanwhile, at most a stretch; without credit it goes to the end.  So nobody gets more by sleeping often.
 *
 * Inside a share, tasks that were interrupted come first: because a child has failed, because a task that they await
 * has, or because they are cancelled after a failure.  So a parent hears of a failure before siblings that are ready run
 * on, and what is cancelled because of it ends before them.  Such a task may be in another queue as well, in the middle,
 * and stays there: it is polled once more from there, which does no harm, and so nothing is ever searched.  What one
 * failure can interrupt is bounded by the number of tasks; after about twice as many such polls in a row, one ready task
 * has its turn: tasks that go on interrupting each other do not keep the others waiting for ever.  Between shares, an
 * interruption changes nothing: a share that has nothing else to do comes first by being fresh, and another waits for
 * its turn.
 *
 * While only one share has something to do, no time is measured, and nothing differs from a single queue.  On a clock of the tests' own, or if
 * ready tasks are taken at random, polls are counted in place of time: the order is to be the same each time.
 *
 * A task belongs to the share of its parent, unless it is told otherwise.
 *
 * All of it belongs to the worker's owner.  A share is part of what it stands for, and must be closed before that is freed: see
 * worker_close_share().
 */
#ifndef ORR_EXEC_SHARE_H
#define ORR_EXEC_SHARE_H

#include "exec/task.h"

#define SHARE_NS INT64_C(2000000)
#define SHARE_SHORTEST_NS INT64_C(250000)
#define SHARE_ROUND_NS INT64_C(16000000) /* all stretches together, until they are as short as that */

enum {
    SHARE_POLLS = 16,  /* as much as SHARE_NS, where polls are counted */
    SHARE_DEBT_MAX = 8 /* times SHARE_NS, that one which could not be interrupted has to wait */
};

struct share {
    struct queue ready;
    struct queue deferred; /* woken during their own poll: ready in the next pass */
    struct {
        struct orr_task *first, *last; /* linked by `next_interrupted` */
        uint64_t polls_left;           /* before a ready task has its turn; 0 when one has just had it */
    } interrupted;
    struct queue late;  /* have used up their time: go on when nothing else of the share is ready, one in each pass */
    struct share *next; /* in the ring */
    struct share *next_deferring;
    int64_t credit;      /* nanoseconds that it may run before the others */
    uint64_t idle_since; /* when it left the ring; 0 if it was the only one there */
    uint64_t late_pass;  /* in which one of the late ran last */
    unsigned waited;     /* polls since then */
    bool open;
    bool listed;    /* in the ring; so it is whenever tasks are ready, interrupted or late */
    bool spent;     /* its stretch is over, and it is to go to the end of the ring */
    bool deferring; /* among those with deferred tasks */
    bool late_owed; /* the last pass had no time for one */
};

/*
 * Tasks of one share that were polled too early and held back by the layer above, until it queues them again.  They count as
 * `queued`.  Zeroed is empty.  See held_push() in extend.h.
 */
struct held_tasks {
    struct queue ready;
    struct queue late; /* had used up their time slice */
};

/* A poll under way, of a task of a share. */
struct share_visit {
    struct share *share; /* NULL if it was closed meanwhile */
    struct share_visit *outer;
};

struct shares {
    struct share *first, *last;
    struct share *fresh; /* the last of the fresh ones, which are the first of the ring; NULL for none */
    uint32_t listed;     /* in the ring */
    uint32_t late;       /* shares with tasks that are late */
    bool timed;          /* time is measured; else polls are counted */
    bool
        changed; /* since somebody cleared this: a second share has something to do, one was closed, or a task interrupted */
    uint64_t mark; /* up to when time was charged, while there are two in the ring; never 0 */
    struct share *deferring;
    struct share_visit *visits; /* innermost first */
    uint64_t passes;
    struct share own; /* of the host's tasks */
};

void shares_init(struct shares *shares);

/* Of a zeroed one. */
void share_open(struct share *share);

/* No task names it any more.  Those that are still queued are left to the host's share. */
void share_close(struct shares *shares, struct share *share);

/* Puts one that has something to do into the ring, if it is not there. */
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

/* Before all others of the share. */
static inline void share_push_front(struct shares *shares, struct share *share, struct orr_task *task)
{
    queue_push_front(&share->ready, task);
    share_list(shares, share);
}

/* Before those that are ready, behind others that were interrupted.  It may be in another queue. */
static inline void share_push_interrupted(struct shares *shares, struct share *share, struct orr_task *task)
{
    task->next_interrupted = NULL;
    if (share->interrupted.first)
        share->interrupted.last->next_interrupted = task;
    else
        share->interrupted.first = task;
    share->interrupted.last = task;
    shares->changed = true; /* a pass that polls ready tasks is to notice */
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

/* Whether any task is queued.  The ring alone does not tell while one is polled: its share stays listed.  As long as the ring is. */
static inline bool shares_any_queued(const struct shares *shares)
{
    for (const struct share *share = shares->first; share; share = share->next)
        if (share->ready.first || share->interrupted.first || share->late.first)
            return true;
    return shares->deferring;
}

void share_push_late(struct shares *shares, struct share *share, struct orr_task *task, bool front);

/* All tasks of a queue, before those that are ready; and behind those that are late. */
void share_put_back(struct shares *shares, struct share *share, struct queue *ready, struct queue *late);

/* Takes a task out of wherever it is queued; false if it is nowhere.  Takes as long as the queues are. */
bool share_remove(struct shares *shares, struct share *share, struct orr_task *task);

/* The next of the late ones; NULL if there is none. */
struct orr_task *share_pop_late(struct shares *shares, struct share *share);

/* Whether another than this one has something to do. */
static inline bool share_has_rivals(const struct shares *shares, const struct share *share)
{
    return shares->listed > share->listed;
}

/* Whose turn it is; NULL if none has anything to do. */
struct share *shares_next(struct shares *shares);

/* Takes the first out of the ring. */
void share_leave_first(struct shares *shares);

/* Takes one that has nothing to do any more out of the ring, if it is the first; else that is done when it is. */
static inline void share_unlist_empty(struct shares *shares, struct share *share)
{
    if (share->ready.first || share->interrupted.first || share->deferred.first || share->late.first ||
        shares->first != share)
        return;
    share_leave_first(shares);
}

/* The share, which has rivals, has run for so long. */
void share_charge(struct share *share, int64_t ns);

/* A pass ends: those that were deferred are ready. */
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
