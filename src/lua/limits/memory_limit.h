/*
 * What the hook does when a script is over its memory limit.
 *
 * The allocator grants memory beyond a limit, and requests the hook (isolate/memory.h).  At the
 * next instruction the hook runs the garbage collector for as long as the slice has time.  Later
 * slices do the rest.  If memory use is still over the limit after that, the script gets an error.
 *
 * Beyond the soft limit the host gets a notice, and the script goes on.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_MEMORY_LIMIT_H
#define ORR_LUA_LIMITS_MEMORY_LIMIT_H

#include "lua/isolate/compat.h"
#include "lua/isolate/memory_alarm.h"
#include "lua/isolate/oversized.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

struct memory_limit {
    bool soft_passed; /* memory use is over the soft limit, and the host has been notified */
};

/*
 * Runs the owed work of the garbage collector, until the time `until` or the end of the slice.
 * Returns true if all of it is done.  Raises an error if the script is still over a limit after
 * whole collection cycles.  Called in a hook, or in a C function of Orrery.
 */
bool memory_limit_act(struct orr_isolate *iso, lua_State *L, uint64_t until);

/* Whether the hook still has to collect garbage, or to check the size of a script. */
static inline bool memory_limit_is_pending(const struct memory_alarm *alarm, const struct oversized *oversized)
{
    return memory_alarm_is_on(alarm) || oversized_is_suspected(oversized);
}

/*
 * Must be called when a slice ends.  If suspended tasks are to continue first, the alarm stays on
 * for them.  Else the alarm is turned off, and the next allocation beyond the limit requests the
 * hook again.  A forced collection that has begun is not stopped, and is finished before any Lua
 * continues: otherwise a `fair` task would never get its error.
 */
void memory_limit_end_slice(struct orr_isolate *iso);

/*
 * Notifies the host once when memory use passes the soft limit.  Notifies it again only after
 * memory use has dropped by an eighth below the limit in between.
 */
void memory_limit_watch_soft(struct orr_isolate *iso);

#endif
