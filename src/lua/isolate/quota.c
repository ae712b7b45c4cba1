#include "lua/isolate/quota.h"

struct quota *quota_new(const struct alloc *alloc, size_t limit)
{
    struct quota *quota = alloc_zeroed(alloc, sizeof *quota);
    if (!quota)
        return NULL;
    quota->references = 1;
    quota->limit = limit;
    quota->alloc = *alloc;
    return quota;
}

struct quota *quota_ref(struct quota *quota)
{
    if (quota)
        atomic_fetch_add_explicit(&quota->references, 1, memory_order_relaxed);
    return quota;
}

void quota_unref(struct quota *quota)
{
    /* Release and acquire: every use of the quota happens before it is freed. */
    if (!quota || atomic_fetch_sub_explicit(&quota->references, 1, memory_order_acq_rel) != 1)
        return;
    struct alloc alloc = quota->alloc;
    alloc_free(&alloc, quota, sizeof *quota);
}

/*
 * Relaxed: the totals are only numbers, and no thread concludes from them what another thread has
 * done.  Bytes that are added and taken back again may make another thread see too little room for
 * a moment, but never too much.
 */
static bool take_up_to(_Atomic size_t *total, size_t bytes, size_t most)
{
    size_t before = atomic_fetch_add_explicit(total, bytes, memory_order_relaxed);
    if (bytes <= most && before <= most - bytes)
        return true;
    atomic_fetch_sub_explicit(total, bytes, memory_order_relaxed);
    return false;
}

bool quota_take(struct quota *quota, size_t bytes)
{
    return !quota || take_up_to(&quota->used, bytes, quota->limit - quota->limit / QUOTA_OWN_SHARE);
}

bool quota_take_own(struct quota *quota, size_t bytes)
{
    return !quota || take_up_to(&quota->used, bytes, quota->limit);
}

void quota_force(struct quota *quota, size_t bytes)
{
    if (quota)
        atomic_fetch_add_explicit(&quota->used, bytes, memory_order_relaxed);
}

void quota_give(struct quota *quota, size_t bytes)
{
    if (quota)
        atomic_fetch_sub_explicit(&quota->used, bytes, memory_order_relaxed);
}

bool quota_overdraw(struct quota *quota, size_t bytes, bool force)
{
    return !quota || take_up_to(&quota->overdrawn, bytes, force ? SIZE_MAX : quota->limit);
}

void quota_repay(struct quota *quota, size_t bytes)
{
    if (quota)
        atomic_fetch_sub_explicit(&quota->overdrawn, bytes, memory_order_relaxed);
}

bool quota_take_spare(struct quota *quota, size_t bytes)
{
    return !quota || take_up_to(&quota->spare, bytes, quota->limit / QUOTA_SPARE_SHARE);
}

void quota_give_spare(struct quota *quota, size_t bytes)
{
    if (quota)
        atomic_fetch_sub_explicit(&quota->spare, bytes, memory_order_relaxed);
}
