/*
 * Finalizers of scripts.  Untrusted scripts have none.  Trusted scripts have them, and Lua calls
 * them with hooks turned off: nothing interrupts a finalizer.  lua_close() calls all that are left,
 * however long that takes.
 *
 * So `setmetatable` notes every metatable that has a `__gc`.  When the isolate is being closed,
 * each noted metatable gets a finalizer of ours in place of its own.  Ours calls the script's on a
 * coroutine of its own, where hooks are on, for half of the grace period at most, and not at all
 * when the grace period is over.  Finalizers that C code has given a metatable are left alone.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_FINALIZERS_H
#define ORR_LUA_LIMITS_FINALIZERS_H

#include "lua/isolate.h"

/* Puts our setmetatable in the place of Lua's own.  May raise. */
void finalizers_open(lua_State *L);

/*
 * The isolate is being closed: from now on finalizers are bounded.  Without memory for that, they
 * are not called.
 */
void finalizers_bound(struct orr_isolate *iso);

/* Whether scripts have any. */
bool finalizers_any(struct orr_isolate *iso);

#endif
