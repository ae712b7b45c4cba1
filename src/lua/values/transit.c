#include "lua/values/transit.h"

struct transit *transit_new(const struct alloc *alloc, size_t limit)
{
    struct transit *transit = alloc_zeroed(alloc, sizeof *transit);
    if (!transit)
        return NULL;
    transit->references = 1;
    transit->limit = limit;
    transit->alloc = *alloc;
    return transit;
}

struct transit *transit_ref(struct transit *transit)
{
    if (transit)
        atomic_fetch_add_explicit(&transit->references, 1, memory_order_relaxed);
    return transit;
}

void transit_unref(struct transit *transit)
{
    /* Release and acquire: all that was done with it comes before its end. */
    if (!transit || atomic_fetch_sub_explicit(&transit->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = transit->alloc;
    alloc_free(&alloc, transit, sizeof *transit);
}

/* Only a number: nobody learns from it what anybody else has done, so it orders nothing. */
bool transit_charge(struct transit *transit, size_t bytes)
{
    size_t before = atomic_fetch_add_explicit(&transit->used, bytes, memory_order_relaxed);
    if (bytes <= transit->limit && before <= transit->limit - bytes)
        return true;
    transit_discharge(transit, bytes);
    return false;
}

void transit_discharge(struct transit *transit, size_t bytes)
{
    atomic_fetch_sub_explicit(&transit->used, bytes, memory_order_relaxed);
}
