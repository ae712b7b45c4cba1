/*
 * How many objects with a finalizer an isolate has: events, mutexes, futures, channels, timers and
 * so on.
 *
 * When marking ends, Lua's collector walks over all of them, and marks those that are garbage
 * again, in one piece.  So an untrusted script may have `max_objects` of them.  After every few
 * thousand new objects a cycle of the collector is forced: so not many become garbage at once, and
 * garbage does not count for long.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_ISOLATE_OBJECTS_H
#define ORR_LUA_ISOLATE_OBJECTS_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct orr_isolate;

struct objects {
    unsigned count;  /* made, and not finalized yet */
    unsigned fresh;  /* made since the last cycle of the collector was forced or has ended */
    uint64_t cycles; /* cycles of the collector that were over when the last object was made */
};

/* To be called before an object is made: raises an error if there are too many. */
void objects_check(struct orr_isolate *iso, lua_State *L);

/* An object has its metatable, so its finalizer will run. */
void objects_made(struct orr_isolate *iso);

/* The finalizer of an object has run. */
void objects_gone(struct orr_isolate *iso);

#endif
