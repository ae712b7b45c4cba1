#include "exec/share.h"

#include "base/clock.h"

/* --- The ring --------------------------------------------------------------------------------- */

void shares_init(struct shares *shares)
{
    shares->mark = 1;
    share_open(&shares->own, NULL);
}

void share_open(struct share *share, const char *name)
{
    share->name = name;
    share->credit = SHARE_NS;
    share->open = true;
}

/*
 * The credit of a share that had nothing to do: as if each share had had the same part of the time
 * since.
 */
static void earn(struct shares *shares, struct share *share)
{
    uint32_t others = shares->listed ? shares->listed : 1;
    if (others == 1 && shares->timed)
        shares->mark = clock_now(); /* no time was measured while the share was alone */
    int64_t since = share->idle_since ? (int64_t)(shares->mark - share->idle_since) / others : SHARE_NS;
    int64_t missing = SHARE_NS - share->credit;
    if (missing > 0)
        share->credit += since < missing ? since : missing;
}

static void insert(struct shares *shares, struct share *share, struct share *before)
{
    share->next = before ? before->next : shares->first;
    if (before)
        before->next = share;
    else
        shares->first = share;
    if (!share->next)
        shares->last = share;
}

void share_enter(struct shares *shares, struct share *share)
{
    share->spent = false;
    if (shares->first) {
        shares->changed = true;
        earn(shares, share);
    } else if (share->credit < SHARE_NS) {
        share->credit = SHARE_NS; /* no other share waits */
    }
    if (shares->first && share->credit > 0) {
        insert(shares, share, shares->fresh);
        shares->fresh = share;
    } else {
        insert(shares, share, shares->first ? shares->last : NULL);
    }
    share->listed = true;
    shares->listed++;
}

static void leave(struct shares *shares, struct share *share, struct share *before)
{
    if (before)
        before->next = share->next;
    else
        shares->first = share->next;
    if (shares->last == share)
        shares->last = before;
    if (shares->fresh == share)
        shares->fresh = before;
    shares->listed--;
    share->listed = false;
    share->idle_since = shares->listed ? shares->mark : 0;
}

void share_leave_first(struct shares *shares)
{
    leave(shares, shares->first, NULL);
}

static void leave_anywhere(struct shares *shares, struct share *share)
{
    struct share *before = NULL;
    for (struct share *at = shares->first; at != share; at = at->next)
        before = at;
    leave(shares, share, before);
}

static void forget_deferring(struct shares *shares, struct share *share)
{
    for (struct share **at = &shares->deferring; *at; at = &(*at)->next_deferring)
        if (*at == share) {
            *at = share->next_deferring;
            break;
        }
    share->deferring = false;
}

void share_close(struct shares *shares, struct share *share)
{
    if (!share->open)
        return;
    share->open = false;
    shares->changed = true;
    for (struct share_visit *visit = shares->visits; visit; visit = visit->outer)
        if (visit->share == share)
            visit->share = NULL;
    if (share->listed)
        leave_anywhere(shares, share);
    if (share->deferring)
        forget_deferring(shares, share);
    struct orr_task *task;
    while ((task = queue_pop(&share->ready)) || (task = queue_pop(&share->deferred)) ||
           (task = share_pop_late(shares, share))) {
        share_push(shares, &shares->own, task);
    }
    while ((task = share_pop_interrupted(share)))
        share_push_interrupted(shares, &shares->own, task);
}

/* --- Queues ----------------------------------------------------------------------------------- */

void share_push_late(struct shares *shares, struct share *share, struct orr_task *task, bool front)
{
    shares->late += !share->late.first;
    task->late = true;
    if (front)
        queue_push_front(&share->late, task);
    else
        queue_push(&share->late, task);
    share_list(shares, share);
}

void share_put_back(struct shares *shares, struct share *share, struct queue *ready, struct queue *late)
{
    queue_join(ready, &share->ready);
    queue_join(&share->ready, ready);
    if (late->first) {
        shares->late += !share->late.first;
        queue_join(&share->late, late);
    }
    if (share->ready.first || share->late.first)
        share_list(shares, share);
}

struct orr_task *share_pop_late(struct shares *shares, struct share *share)
{
    struct orr_task *task = queue_pop(&share->late);
    shares->late -= task && !share->late.first;
    if (task)
        task->late = false;
    return task;
}

bool share_remove(struct shares *shares, struct share *share, struct orr_task *task)
{
    if (queue_remove(&share->ready, task) || queue_remove(&share->deferred, task))
        return true;
    if (!queue_remove(&share->late, task))
        return false;
    task->late = false;
    shares->late -= !share->late.first;
    return true;
}

/* --- Turns ------------------------------------------------------------------------------------ */

static int64_t stretch(const struct shares *shares)
{
    int64_t part = SHARE_ROUND_NS / (shares->listed + 1);
    part = part < SHARE_SHORTEST_NS ? SHARE_SHORTEST_NS : part;
    return part < SHARE_NS ? part : SHARE_NS;
}

static void first_to_the_end(struct shares *shares)
{
    struct share *share = shares->first;
    if (shares->fresh == share)
        shares->fresh = NULL;
    if (!share->next)
        return;
    shares->first = share->next;
    share->next = NULL;
    shares->last->next = share;
    shares->last = share;
}

/* A share without credit is passed over, and gets a little more each time. */
struct share *shares_next(struct shares *shares)
{
    struct share *share;
    while ((share = shares->first) && (share->spent || share->credit <= 0)) {
        if (share->spent) {
            share->spent = false;
            first_to_the_end(shares);
            continue;
        }
        share->credit += stretch(shares);
        if (share->credit <= 0)
            first_to_the_end(shares);
    }
    return share;
}

void share_charge(struct share *share, int64_t ns)
{
    share->credit -= ns;
    if (share->credit < -SHARE_DEBT_MAX * SHARE_NS)
        share->credit = -SHARE_DEBT_MAX * SHARE_NS;
    share->spent = share->credit <= 0;
}
