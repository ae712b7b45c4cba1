/*
 * What the hook does about memory.
 *
 * The allocator grants what is beyond a limit, and requests the hook (isolate/memory.h).  At the
 * next instruction the hook has the collector do what it owes, as far as there is time in the
 * slice; the rest is done in later turns.  When that has not helped, the script gets an error.
 *
 * The soft limit has no such consequence: the host gets a notice.
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
    bool soft_passed; /* the soft limit is passed, and the host was told */
};

/*
 * In a hook, or a C function of ours: has the collector do what it owes, as far as there is time:
 * `until`, or the end of the slice.  True if it has.  Then a script that has more memory than it
 * may, and did not get below that by whole cycles of the collector, gets an error: this raises.
 */
bool memory_limit_act(struct orr_isolate *iso, lua_State *L, uint64_t until);

/* Whether the hook still has something to do about memory. */
static inline bool memory_limit_is_pending(const struct memory_alarm *alarm, const struct oversized *oversized)
{
    return memory_alarm_is_on(alarm) || oversized_is_suspected(oversized);
}

/*
 * The slice has ended.  What is to be done about memory goes on when the slice does.  If it does
 * not, the next allocation beyond the limit requests the hook.  A collection that has begun is done
 * before any Lua goes on: otherwise a `fair` task would never be told that it has overdrawn the
 * account.
 */
void memory_limit_end_slice(struct orr_isolate *iso);

/*
 * Tells the host once that the soft limit is passed; again when memory in use has gone down well
 * below it meanwhile.
 */
void memory_limit_watch_soft(struct orr_isolate *iso);

#endif
