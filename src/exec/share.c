#include "exec/share.h"

#include <errno.h>
#include <string.h>

/* --- The table ------------------------------------------------------------------------------------------------- */

void shares_init(struct shares *shares)
{
    shares->only[0] = &shares->own;
    shares->table = shares->only;
    shares->count = shares->capacity = shares->vacant = 1;
    shares->own.open = true;
    shares->own.credit = SHARE_NS;
}

void shares_close(struct shares *shares, const struct alloc *alloc)
{
    if (shares->table != shares->only)
        alloc_free(alloc, shares->table, shares->capacity * sizeof *shares->table);
    shares->table = shares->only;
    shares->count = shares->capacity = 1;
}

static int grow(struct shares *shares, const struct alloc *alloc)
{
    uint32_t capacity = 4 * shares->capacity;
    struct share **table = alloc_new(alloc, capacity * sizeof *table);
    if (!table)
        return -ENOMEM;
    memcpy(table, shares->table, shares->count * sizeof *table);
    if (shares->table != shares->only)
        alloc_free(alloc, shares->table, shares->capacity * sizeof *table);
    shares->table = table;
    shares->capacity = capacity;
    return 0;
}

int share_open(struct shares *shares, struct share *share, const struct alloc *alloc)
{
    uint32_t number = shares->vacant;
    while (number < shares->count && shares->table[number])
        number++;
    if (number == shares->capacity) {
        int error = grow(shares, alloc);
        if (error)
            return error;
    }
    if (number == shares->count)
        shares->count++;
    shares->table[number] = share;
    shares->vacant = number + 1;
    share->number = number;
    share->credit = SHARE_NS;
    share->open = true;
    return 0;
}

static void unlist(struct shares *shares, struct share *share)
{
    struct share *before = NULL;
    for (struct share *at = shares->first; at != share; at = at->next)
        before = at;
    if (before)
        before->next = share->next;
    else
        shares->first = share->next;
    if (shares->last == share)
        shares->last = before;
    shares->listed--;
    share->listed = false;
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
    for (struct share_visit *visit = shares->visits; visit; visit = visit->outer)
        if (visit->share == share)
            visit->share = NULL;
    if (share->listed)
        unlist(shares, share);
    if (share->deferring)
        forget_deferring(shares, share);
    struct orr_task *task;
    while ((task = queue_pop(&share->ready)) || (task = queue_pop(&share->deferred)) ||
           (task = share_pop_late(shares, share))) {
        share_push(shares, &shares->own, task);
    }
    shares->table[share->number] = NULL;
    if (share->number < shares->vacant)
        shares->vacant = share->number;
}

/* --- Queues ---------------------------------------------------------------------------------------------------- */

void share_push_late(struct shares *shares, struct share *share, struct orr_task *task, bool front)
{
    shares->late += !share->late.first;
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
    return task;
}

bool share_remove(struct shares *shares, struct share *share, struct orr_task *task)
{
    if (queue_remove(&share->ready, task) || queue_remove(&share->deferred, task))
        return true;
    if (!queue_remove(&share->late, task))
        return false;
    shares->late -= !share->late.first;
    return true;
}

/* --- Turns ------------------------------------------------------------------------------------------------------- */

/* The end of a stretch. */
static void to_the_end(struct shares *shares, struct share *share)
{
    int64_t stretch = SHARE_ROUND_NS / (shares->listed + 1);
    stretch = stretch < SHARE_SHORTEST_NS ? SHARE_SHORTEST_NS : stretch;
    share->credit += stretch < SHARE_NS ? stretch : SHARE_NS;
    if (!share->next)
        return;
    shares->first = share->next;
    share->next = NULL;
    shares->last->next = share;
    shares->last = share;
}

/* One that has run for too long is passed over, and has a little more each time. */
struct share *shares_next(struct shares *shares)
{
    struct share *share;
    while ((share = shares->first) && share->credit <= 0) {
        to_the_end(shares, share);
    }
    return share;
}

void share_charge(struct shares *shares, struct share *share, int64_t ns)
{
    share->credit -= ns;
    if (share->credit < -SHARE_DEBT_MAX * SHARE_NS)
        share->credit = -SHARE_DEBT_MAX * SHARE_NS;
    if (share->credit > 0 || shares->first != share)
        return;
    to_the_end(shares, share);
}
