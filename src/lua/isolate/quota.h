/*
 * A quota is one memory limit for several holders: the isolate of a script, the isolates of the
 * jobs that its workers run, and memory on no isolate's account because it may outlive any isolate
 * (messages, programs, jobs).
 *
 * `used` is what all holders have taken together.  No request takes it beyond the limit; only
 * quota_force() can.  An eighth of the limit is reserved for the script's own isolate, so that the
 * script does not run out of memory because its jobs do.  `overdrawn` is what isolates have taken
 * beyond the limit for a moment, until their scripts have been told that there is no more.  It is
 * counted apart, so that no other holder suffers.  Unless forced, it is at most as much as the
 * limit again.
 *
 * Isolates draw from a quota in chunks (charge.h).  Other holders take what they need, byte by
 * byte.  A quota is shared by references.  Any thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_QUOTA_H
#define ORR_LUA_ISOLATE_QUOTA_H

#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    QUOTA_OWN_SHARE = 8, /* one part in this of the limit is for the script's own isolate */
    /* Spare isolates together may hold one part in this of the limit */
    QUOTA_SPARE_SHARE = 8,
    QUOTA_MESSAGE = 256, /* bytes that a message costs besides its contents */
};

struct quota {
    _Atomic unsigned references;
    _Atomic size_t used;
    _Atomic size_t overdrawn; /* bytes beyond the limit, not part of `used` */
    _Atomic size_t spare;     /* the part of `used` that isolates kept for the next jobs hold */
    size_t limit;
    struct alloc alloc;
};

/* A quota with one reference; NULL for lack of memory. */
struct quota *quota_new(const struct alloc *alloc, size_t limit);
/*
 * A NULL quota is allowed in all functions below: then there is no limit, and nothing is counted.
 */
struct quota *quota_ref(struct quota *quota);
void quota_unref(struct quota *quota);

/*
 * Takes bytes; false, and nothing taken, if too few are left.  quota_take_own() is for the script's
 * own isolate, and may also take its reserved share.
 */
bool quota_take(struct quota *quota, size_t bytes);
bool quota_take_own(struct quota *quota, size_t bytes);

/* Takes bytes that are already allocated, and cannot be refused. */
void quota_force(struct quota *quota, size_t bytes);
void quota_give(struct quota *quota, size_t bytes);

/*
 * Takes bytes beyond the limit: up to as many as the limit, or with `force` without end.  False,
 * and nothing taken, if that is too much.
 */
bool quota_overdraw(struct quota *quota, size_t bytes, bool force);
void quota_repay(struct quota *quota, size_t bytes);

/*
 * quota_take_spare() keeps an isolate with `bytes` bytes for the next job; false if spare isolates
 * hold too much already.  quota_give_spare() ends that, when a job uses the isolate or it is freed.
 */
bool quota_take_spare(struct quota *quota, size_t bytes);
void quota_give_spare(struct quota *quota, size_t bytes);

#endif
