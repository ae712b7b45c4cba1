/*
 * A channel carries values between tasks, of any isolates of a runtime, on any threads.
 *
 * Isolates share a channel by references: one for each handle in an isolate, one for each waiter,
 * and one for each message that the channel is part of.  Its lock guards all of it.  The lock is
 * held for a few instructions, and never while Lua runs, memory is allocated or a task is woken.
 *
 * A sender or receiver is a *waiter*, a block of its own isolate.  If it has to wait, it is listed,
 * with a future that is completed when it is served.  Waiters are served in order: an item goes
 * straight to the first receiver that waits, and the first sender that waits is let in when there
 * is room.  So items and receivers never wait at the same time.
 *
 * A waiter that was served has its item, even if its task was cancelled meanwhile: the task is told
 * at its next wait.  A receiver that cannot go on when it is served, because its isolate ends,
 * gives its item back, and the item is the first again.  So nothing is lost.
 *
 * Any thread may call these functions, unless a function says otherwise.  One thread at a time uses
 * a waiter.
 */
#ifndef ORR_LUA_WORKER_CHANNEL_H
#define ORR_LUA_WORKER_CHANNEL_H

#include "base/alloc.h"
#include "base/list.h"
#include "lua/values/message.h"

#include <pthread.h>
#include <stdatomic.h>

struct channel_item {
    struct channel_item *next;
    struct message message;
};

struct channel {
    struct attachment attachment;
    _Atomic unsigned references;
    struct alloc alloc;
    pthread_mutex_t lock;
    size_t capacity, count; /* of items */
    struct channel_item *first, *last;
    struct orr_link senders, receivers; /* the waiters that are listed */
    bool closed;
};

enum channel_waiter_state {
    WAITER_NEW,
    WAITER_LISTED,
    WAITER_SERVED,
    WAITER_TOLD_CLOSED,
};

struct channel_waiter {
    struct channel *channel;   /* a reference */
    struct orr_future *future; /* a reference; NULL if it never had to wait */
    struct orr_link link;      /* while it is listed */
    enum channel_waiter_state state;
    bool sends;
    bool collected;            /* garbage was collected once, to make room for the item */
    struct channel_item *item; /* a sender's, until it is served; a receiver's, from then on */
};

/* `push` is the attachment's: it pushes a handle of the channel.  NULL for lack of memory. */
struct channel *channel_new(const struct alloc *alloc, size_t capacity,
                            int (*push)(lua_State *L, struct attachment *self));
void channel_ref(struct channel *channel);
void channel_unref(struct channel *channel);

/* An item with an empty message.  NULL for lack of memory. */
struct channel_item *channel_item_new(const struct channel *channel);

/* NULL is allowed. */
void channel_item_free(struct channel_item *item, const struct alloc *alloc);

void channel_waiter_init(struct channel_waiter *waiter, struct channel *channel, bool sends);

/* Takes the waiter off its list, frees or gives back its item, and drops its references. */
void channel_waiter_close(struct channel_waiter *waiter);

/* Its wait is over: takes it off its list if it was not served.  Answers what it was until now. */
enum channel_waiter_state channel_waiter_leave(struct channel_waiter *waiter);

enum channel_attempt {
    ATTEMPT_DONE,
    ATTEMPT_CLOSED,
    ATTEMPT_WAIT, /* there is no room, or no item */
};

/*
 * Sends the waiter's item, or receives one.  With `listing`, a waiter that has to wait is listed.
 */
enum channel_attempt channel_send(struct channel_waiter *waiter, bool listing);
enum channel_attempt channel_receive(struct channel_waiter *waiter, bool listing);

/* Items in it can still be received.  All waiters are told. */
void channel_close(struct channel *channel);

bool channel_is_closed(struct channel *channel);
size_t channel_count(struct channel *channel);

#endif
