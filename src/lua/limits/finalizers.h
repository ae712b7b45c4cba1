/*
 * Finalizers of scripts.  Only trusted scripts can have finalizers.  Lua calls finalizers with
 * hooks turned off, so nothing can interrupt a finalizer.  lua_close() calls all remaining
 * finalizers, however long they take.
 *
 * So `setmetatable` records every metatable that has a `__gc`.  When the isolate closes, each
 * recorded metatable gets a wrapper in place of its finalizer.  The wrapper calls the script's
 * finalizer on a new coroutine, where hooks are on, for at most half of the grace period.  After
 * the grace period it does not call the finalizer at all.  Finalizers that C libraries have set
 * stay as they are.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_FINALIZERS_H
#define ORR_LUA_LIMITS_FINALIZERS_H

#include "lua/isolate.h"

/* Replaces setmetatable and debug.setmetatable with versions that record.  May raise. */
void finalizers_open(lua_State *L);

/*
 * Limits the time of finalizers, because the isolate closes.  If there is not enough memory for the
 * wrappers, the finalizers are removed instead.
 */
void finalizers_bound(struct orr_isolate *iso);

/* Whether scripts have set finalizers.  True if that cannot be found out. */
bool finalizers_any(struct orr_isolate *iso);

#endif
