/*
 * The number of objects with a finalizer in an isolate: events, mutexes, futures, channels, timers
 * and so on.
 *
 * When marking ends, Lua's collector walks over all these objects in one piece of work, and marks
 * those that are garbage again.  So an untrusted script may have only `max_objects` of them.  A
 * cycle of the collector is forced after every few thousand new objects.  So few objects become
 * garbage at once, and garbage does not count for long.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_OBJECTS_H
#define ORR_LUA_ISOLATE_OBJECTS_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct orr_isolate;

struct objects {
    unsigned count;  /* objects made and not finalized yet */
    unsigned fresh;  /* objects made since a cycle of the collector was last forced or ended */
    uint64_t cycles; /* completed cycles of the collector when the last object was made */
};

/* Must be called before an object is made.  Raises an error if there are too many. */
void objects_check(struct orr_isolate *iso, lua_State *L);

/* Counts an object that has just got its metatable, so that its finalizer will run. */
void objects_made(struct orr_isolate *iso);

/* Must be called by the finalizer of each counted object. */
void objects_gone(struct orr_isolate *iso);

#endif
