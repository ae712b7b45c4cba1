/*
 * Idle work: what a layer above has orr_runtime_idle() do when the host has time to spare.  All of
 * it belongs to the worker's owner.
 */
#ifndef ORR_EXEC_IDLE_H
#define ORR_EXEC_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Embedded in the object that has the work.  `work` does some of it, until a time of the machine's
 * clock, and answers whether there is more.
 */
struct idle_work {
    struct idle_work *next, *previous;
    bool (*work)(struct idle_work *self, uint64_t until);
};

struct idle_list {
    struct idle_work *first;
};

static inline void idle_add(struct idle_list *list, struct idle_work *work)
{
    work->previous = NULL;
    work->next = list->first;
    if (list->first)
        list->first->previous = work;
    list->first = work;
}

static inline void idle_remove(struct idle_list *list, struct idle_work *work)
{
    if (work->previous)
        work->previous->next = work->next;
    else if (list->first == work)
        list->first = work->next;
    if (work->next)
        work->next->previous = work->previous;
    work->next = work->previous = NULL;
}

#endif
