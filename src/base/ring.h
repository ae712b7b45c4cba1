/*
 * A ring is a list as in list.h, but its head is a single pointer to the first element, NULL when
 * it is empty: for structures that are many.  Nothing here allocates.
 */
#ifndef ORR_BASE_RING_H
#define ORR_BASE_RING_H

#include "base/list.h"

static inline void ring_append(struct orr_link **ring, struct orr_link *link)
{
    if (*ring) {
        list_append(*ring, link); /* before the first means after the last */
    } else {
        list_init(link);
        *ring = link;
    }
}

static inline void ring_prepend(struct orr_link **ring, struct orr_link *link)
{
    ring_append(ring, link);
    *ring = link;
}

/* The link must be in this ring. */
static inline void ring_remove(struct orr_link **ring, struct orr_link *link)
{
    if (*ring == link)
        *ring = link->next == link ? NULL : link->next;
    list_remove(link);
}

/* NULL if the ring is empty. */
static inline struct orr_link *ring_pop(struct orr_link **ring)
{
    struct orr_link *first = *ring;
    if (first)
        ring_remove(ring, first);
    return first;
}

/* The link after `link`; NULL if `link` is the last. */
static inline struct orr_link *ring_next(struct orr_link *ring, const struct orr_link *link)
{
    return link->next == ring ? NULL : link->next;
}

/* Moves all of `from` behind all of `to`. */
static inline void ring_join(struct orr_link **to, struct orr_link **from)
{
    struct orr_link *first = *from;
    *from = NULL;
    if (!first || !*to) {
        *to = *to ? *to : first;
        return;
    }
    struct orr_link *last = first->prev;
    first->prev = (*to)->prev;
    (*to)->prev->next = first;
    last->next = *to;
    (*to)->prev = last;
}

#endif
