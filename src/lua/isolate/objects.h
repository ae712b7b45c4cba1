/*
 * How many objects with a finalizer an isolate has: events, mutexes, futures, channels, timers and so on.
 *
 * When marking ends, Lua's collector walks over all of them, and marks again those that are garbage, in one piece.  So an untrusted
 * script may have only so many (`max_objects`).  After every few thousand new ones a cycle of the collector is forced, so that not
 * many of them become garbage at once, and those that are garbage do not count for long.
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
    unsigned fresh;  /* made since a cycle was forced for their sake, or another has ended */
    uint64_t cycles; /* of the collector that were over when the last was made */
};

/* Before one is made: raises an error if there are too many. */
void objects_check(struct orr_isolate *iso, lua_State *L);

/* The object has its metatable, so its finalizer will run; and now it has run. */
void objects_made(struct orr_isolate *iso);
void objects_gone(struct orr_isolate *iso);

#endif
