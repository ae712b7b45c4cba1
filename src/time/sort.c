#include "time/sort.h"

void sort_init(struct sort *sort)
{
    sort->level = 0;
    sort->merging = false;
    struct orr_link *list;
    for (unsigned i = 0; (list = sort_list(sort, i)); i++)
        list_init(list);
}

struct orr_link *sort_list(struct sort *sort, unsigned index)
{
    switch (index) {
    case SORT_RUNS:
        return &sort->input;
    case SORT_RUNS + 1:
        return &sort->carry;
    case SORT_RUNS + 2:
        return &sort->out;
    default:
        return index < SORT_RUNS ? &sort->runs[index] : NULL;
    }
}

void sort_begin(struct sort *sort, struct orr_link *list)
{
    list_move(&sort->input, list);
}

/* Moves the lesser of the two first entries.  When one list is empty, takes the rest at once. */
static void merge_one(struct sort *sort, sort_before_fn *before)
{
    struct orr_link *left = &sort->runs[sort->level], *right = &sort->carry;
    if (!list_empty(left) && !list_empty(right)) {
        struct orr_link *least = before(right->next, left->next) ? right->next : left->next;
        list_remove(least);
        list_append(&sort->out, least);
        return;
    }
    list_move(&sort->out, left);
    list_move(&sort->out, right);
    list_move(right, &sort->out);
    sort->level += sort->level < SORT_RUNS - 1; /* the last run takes whatever comes */
    sort->merging = false;
}

/* The first run that holds something, or SORT_RUNS. */
static unsigned first_run(const struct sort *sort)
{
    unsigned i = 0;
    while (i < SORT_RUNS && list_empty(&sort->runs[i]))
        i++;
    return i;
}

bool sort_step(struct sort *sort, sort_before_fn *before)
{
    if (sort->merging) {
        merge_one(sort, before);
    } else if (list_empty(&sort->input)) {
        sort->level = first_run(sort);
        sort->merging = sort->level < SORT_RUNS;
        return sort->merging;
    } else if (list_empty(&sort->carry)) {
        struct orr_link *next = sort->input.next;
        list_remove(next);
        list_append(&sort->carry, next);
        sort->level = 0;
    } else if (list_empty(&sort->runs[sort->level])) {
        list_move(&sort->runs[sort->level], &sort->carry);
    } else {
        sort->merging = true;
    }
    return true;
}
