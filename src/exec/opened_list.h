/*
 * The list of what is open on a worker, and the spree: see opened.h.  Only the structs, for struct
 * worker.
 */
#ifndef ORR_EXEC_OPENED_LIST_H
#define ORR_EXEC_OPENED_LIST_H

#include "orrery.h"

struct opened_list {
    struct orr_link all;
};

/* What ended at once in one poll. */
struct spree {
    uint64_t poll;
    size_t cost;
};

#endif
