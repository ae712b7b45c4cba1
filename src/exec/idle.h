/*
 * Work that can wait until the host has time to spare (orr_runtime_idle()): what a layer above
 * registers with a worker.  All of it on the thread that drives the worker.
 */
#ifndef ORR_EXEC_IDLE_H
#define ORR_EXEC_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Embedded in whatever has such work.  `work` does some of it, until a time, and answers whether
 * there is more.
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
