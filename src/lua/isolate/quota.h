/*
 * A quota is one limit of memory for several holders: the isolate of a script, the isolates of the
 * jobs that its workers run, and what is on no isolate's account because it may outlive any
 * (messages, programs, jobs).
 *
 * `used` is what all of them have taken together, and never more than the limit.  An eighth of the
 * limit is for the script's own isolate alone, so that the script does not run out of memory
 * because its jobs do.  What an isolate takes beyond the limit, for a moment, until its script has
 * been told that there is no more, is `overdrawn`: counted apart, so that no other holder suffers,
 * and together at most as much again.
 *
 * Isolates draw from it in chunks (charge.h); other holders take what they need, byte by byte.
 * Shared by references.  Any thread.
 */
#ifndef ORR_LUA_ISOLATE_QUOTA_H
#define ORR_LUA_ISOLATE_QUOTA_H

#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    QUOTA_OWN_SHARE = 8, /* one part in so many is for the script's own isolate */
    /* A spare isolate is kept while all spare ones hold less than one part in so many */
    QUOTA_SPARE_SHARE = 8,
    QUOTA_MESSAGE = 256, /* what a message costs whatever is in it */
};

struct quota {
    _Atomic unsigned references;
    _Atomic size_t used;
    _Atomic size_t overdrawn; /* besides */
    _Atomic size_t spare;     /* of what is used, by isolates kept for the next jobs */
    size_t limit;
    struct alloc alloc;
};

/* NULL for lack of memory. */
struct quota *quota_new(const struct alloc *alloc, size_t limit);
struct quota *quota_ref(struct quota *quota); /* NULL is allowed, in all of these: nobody counts */
void quota_unref(struct quota *quota);

/*
 * False, and nothing taken, if that would be more than there is; for the script's own isolate, with
 * its share.
 */
bool quota_take(struct quota *quota, size_t bytes);
bool quota_take_own(struct quota *quota, size_t bytes);

/* Takes what is there already, and cannot be refused. */
void quota_force(struct quota *quota, size_t bytes);
void quota_give(struct quota *quota, size_t bytes);

/* Beyond the limit.  Within it there is as much again, or with `force` no end. */
bool quota_overdraw(struct quota *quota, size_t bytes, bool force);
void quota_repay(struct quota *quota, size_t bytes);

/*
 * An isolate is to be kept for the next job, with so much; false if too much is kept already.  And
 * it is used, or freed.
 */
bool quota_take_spare(struct quota *quota, size_t bytes);
void quota_give_spare(struct quota *quota, size_t bytes);

#endif
