/*
 * What is on its way: the bytes of messages that the scripts of one isolate, and the workers that they make, have written and nobody has
 * received yet.  They are on no isolate's account, for they may outlive any; so they have one of their own, with the same limit.
 * Shared by references, of isolates' terms and of messages.  Any thread.
 */
#ifndef ORR_LUA_VALUES_TRANSIT_H
#define ORR_LUA_VALUES_TRANSIT_H

#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { TRANSIT_EACH = 256 }; /* what a message costs whatever is in it */

struct transit {
    _Atomic unsigned references;
    _Atomic size_t used;
    size_t limit;
    struct alloc alloc;
};

/* NULL for lack of memory. */
struct transit *transit_new(const struct alloc *alloc, size_t limit);
struct transit *transit_ref(struct transit *transit);
void transit_unref(struct transit *transit); /* NULL is allowed */

/* False if that would be too much. */
bool transit_charge(struct transit *transit, size_t bytes);
void transit_discharge(struct transit *transit, size_t bytes);

#endif
