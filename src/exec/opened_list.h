/*
 * The list of what is open on a worker, and the spree: see opened.h.  Only the structs, for struct
 * worker.
 */
#ifndef ORR_EXEC_OPENED_LIST_H
#define ORR_EXEC_OPENED_LIST_H

#include "orrery.h"

struct simulation;

struct opened_list {
    struct orr_link all;
    struct simulation *simulation; /* io/simulation.c: NULL until it is needed */
};

/* What ended at once in one poll. */
struct spree {
    uint64_t poll;
    size_t cost;
};

#endif
