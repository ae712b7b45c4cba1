/*
 * Intrusive, circular, doubly linked lists.  A head is a link whose neighbours are the last and the
 * first element; an empty head, and an element in no list, point at themselves.  Nothing here
 * allocates.
 */
#ifndef ORR_BASE_LIST_H
#define ORR_BASE_LIST_H

#include "orrery.h"

#include <stddef.h>

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct orr_link *link)
{
    link->prev = link->next = link;
}

static inline bool list_empty(const struct orr_link *head)
{
    return head->next == head;
}

static inline void list_append(struct orr_link *head, struct orr_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* Safe on a link in no list, if it was initialised. */
static inline void list_remove(struct orr_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Puts all of `from` at the end of `to`. */
static inline void list_move(struct orr_link *to, struct orr_link *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    list_init(from);
}

#endif
