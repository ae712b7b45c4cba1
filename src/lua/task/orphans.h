/*
 * Orphans: tasks that nobody can reach or wake.
 *
 * A task that waits for an event which nobody else holds will wait for ever.  Lua's collector could find that
 * out, if the isolate did not anchor every task.
 *
 * So after a cycle of the collector the isolate scans its tasks.  A task that has been waiting since the scan
 * before, for an object that lives in Lua, is not anchored any more.  Two tables hold it instead: `waiters`, by
 * the object that it waits for, in a table whose entries live as long as their keys; and `weak`, to find it
 * again.  The object is at index 1 in the frame of the C function that the task waits in.
 *
 * A task that is woken is anchored again, and only then pays for that.  A task that cannot be woken any more is
 * collected: its finalizer brings it back, cancels it, and logs that.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_TASK_ORPHANS_H
#define ORR_LUA_TASK_ORPHANS_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct ltask;
struct orr_isolate;

/* Part of the isolate. */
struct orphan_scan {
    bool due;      /* the collector has finished a cycle, and not every task was looked at since */
    uint32_t next; /* the slot that is looked at next */
};

/* May raise. */
void orphans_open(struct orr_isolate *iso, lua_State *L);

/* Whether a cycle of the collector is over, and tasks are to be scanned. */
static inline bool orphans_scan_is_due(const struct orphan_scan *self)
{
    return self->due;
}

/* Scans some tasks.  Never raises. */
void orphans_scan(struct orr_isolate *iso);

/* Anchors a task that is held weakly.  Never allocates. */
void orphans_anchor(struct ltask *self);

#endif
