/*
 * Calm: whether the next call from the host can take the short way (host/call.c), and the call that
 * runs can end in it.
 *
 * Much can be pending in an isolate that a call has to look after: a suspended task that goes on
 * first, a request for the hook, a ban, a notice to the host, Lua's own collector.  All of that is
 * rare, so a call looks at one flag.  Code that makes any of it pending calls calm_end().  Calls
 * that took the long way find out whether all of it is over, and call calm_begin()
 * (limits/slice_rare.h).
 *
 * Invariant: while the flag is set, nothing is pending.  While it is clear, that is not known.
 *
 * The isolate's worker's thread, and the signal handler that interrupts it: one store of one byte.
 */
#ifndef ORR_LUA_ISOLATE_CALM_H
#define ORR_LUA_ISOLATE_CALM_H

#include <stdbool.h>

struct calm {
    volatile bool holds;
};

static inline bool calm_holds(const struct calm *self)
{
    return self->holds;
}

static inline void calm_begin(struct calm *self)
{
    self->holds = true;
}

/* Async-signal-safe. */
static inline void calm_end(struct calm *self)
{
    self->holds = false;
}

#endif
