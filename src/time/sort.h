/*
 * A sort of a list that stops after any step and goes on later.
 *
 * It is a merge sort from the bottom up.  Run i is empty, or holds what is left of 2^i entries that
 * are in order.  The next entry of the input becomes a run of its own, the `carry`; while there is
 * a run of its size, the two are merged.  When the input is empty, the runs that are left are
 * merged, from the smallest to the largest.
 *
 * Every entry is in one of the lists here at all times, so any may be unlinked between two steps.
 * The order of two entries must not change meanwhile.  A step moves at most one entry, so n entries
 * take about n * log2(n) steps.
 *
 * The owner of the lists.  Nothing here allocates.
 */
#ifndef ORR_TIME_SORT_H
#define ORR_TIME_SORT_H

#include "base/list.h"

enum { SORT_RUNS = 32 };

struct sort {
    struct orr_link input; /* to be sorted */
    struct orr_link carry; /* the run in hand; when the sort is done, the result */
    struct orr_link out;   /* what the merge of run `level` and `carry` has made so far */
    struct orr_link runs[SORT_RUNS];
    unsigned level;
    bool merging;
};

/* Whether `a` comes before `b`. */
typedef bool sort_before_fn(const struct orr_link *a, const struct orr_link *b);

void sort_init(struct sort *sort);

/* Takes all of `list` as the input.  The last sort is done, and its result was taken. */
void sort_begin(struct sort *sort, struct orr_link *list);

/* Makes one step.  False if there is none to make: all entries are in `carry`, in order. */
bool sort_step(struct sort *sort, sort_before_fn *before);

/* Every list that may hold entries: `index` counts from 0.  NULL after the last. */
struct orr_link *sort_list(struct sort *sort, unsigned index);

#endif
