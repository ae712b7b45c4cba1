/*
 * Replies of the host to calls of its functions that take time (struct orr_async).
 *
 * Two sides hold a reply: the script's call, until it is over, and the host, until it replies.  The
 * last one to let go frees it, with what the host has attached.  So `cancel` always finds the reply
 * and what is attached to it, even if another thread replies at that moment.
 *
 * The host's thread writes the outcome before it completes the future.  The isolate's thread reads
 * it after it has seen the future completed: orr_future_complete() releases, the wait acquires.
 * `abandoned` is only a hint for the host, so its order does not matter.
 *
 * The function that the call belongs to is held by Lua and by each of its replies, in the same way.
 *
 * Memory comes from the runtime's allocator, on any thread.  It is not charged to the isolate: the
 * thread of the host could not give the charge back.  Its amount is bounded by `max_calls`, and by
 * what the host itself sends.
 */
#ifndef ORR_LUA_HOST_REPLY_H
#define ORR_LUA_HOST_REPLY_H

#include "base/alloc.h"
#include "orrery.h"

#include <stdatomic.h>

/* A function of the host. */
struct async_function {
    struct alloc alloc;
    struct orr_async what;
    _Atomic unsigned references;
    _Atomic unsigned open; /* calls that the host has not replied to */
    char path[];
};

/* Copies both arguments.  One reference; NULL if memory runs out. */
struct async_function *async_function_new(const struct alloc *alloc, const char *path, const struct orr_async *what);

/* Gives up a reference.  The last one drops the host's data, if `drop`.  Any thread. */
void async_function_unref(struct async_function *function, bool drop);

struct orr_reply {
    struct alloc alloc;
    struct async_function *function; /* a reference */
    struct orr_future *future;       /* a reference; completed by the reply */
    _Atomic unsigned references;     /* of the script's call, and of the host */
    _Atomic bool abandoned;          /* nobody waits for it any more */
    void *attached;                  /* the host's, with its destructor */
    void (*drop)(void *what);
    int error;                /* the outcome: 0, or a negative errno with its message */
    struct orr_value *values; /* owned */
    size_t count;
    char message[256];
};

/*
 * Makes the reply to a call, with two references: the call's and the host's.  Returns 0, or
 *   -EAGAIN   the host has max_calls calls to reply to
 *   -ENOMEM, -ESHUTDOWN
 */
int reply_new(struct orr_runtime *rt, struct async_function *function, struct orr_reply **out);

/* Whether the host has replied.  Then the outcome can be read.  The isolate's worker's thread. */
bool reply_has_come(const struct orr_reply *reply);

/* The host has refused the call: gives up its reference, unless it has replied all the same. */
void reply_refuse(struct orr_reply *reply);

/*
 * The call is over: gives up its reference.  If the host has not replied, tells it that nobody
 * waits any more.  The isolate's worker's thread.
 */
void reply_leave(struct orr_reply *reply);

#endif
