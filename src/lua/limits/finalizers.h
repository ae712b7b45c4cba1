/*
 * Finalizers of scripts.  Untrusted scripts have none.  Trusted ones have, and Lua calls them with
 * hooks turned off: nothing interrupts one; and lua_close() calls all that are left, however long
 * that takes.
 *
 * So `setmetatable` notes every metatable that has a `__gc`.  When the isolate is being closed,
 * each gets a finalizer of ours in the place of its own: that calls the script's on a coroutine of
 * its own, where hooks are on, for half of the grace period at most; and not at all when that is
 * over.  What C code has given a metatable is left alone.
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
