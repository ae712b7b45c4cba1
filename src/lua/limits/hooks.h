/*
 * Hooks of scripts: debug.sethook and debug.gethook.
 *
 * A script's hook sees the same events as in plain Lua.  The runtime cannot replace it when a slice
 * is over and restore it later: Lua would forget how many instructions it has counted, and lose
 * events.  So Orrery installs one C hook for as long as the script's hook is set.  The C hook calls
 * the script's function, and also checks whether the slice is over.  In signal mode it always
 * counts, in pieces of at most HOOK_PIECE instructions, and keeps the script's own count itself.
 *
 * An error in a script's hook propagates as in plain Lua.  A coroutine that dies of it keeps its
 * hooks off, so nothing can interrupt the closing of its variables.  Nothing can interrupt a
 * script's hook either.  So only trusted scripts may set hooks.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_HOOKS_H
#define ORR_LUA_LIMITS_HOOKS_H

#include "lua/isolate.h"

enum { HOOK_PIECE = 1000 };

/* Replaces debug.sethook and debug.gethook, if the debug library has them.  May raise. */
void hooks_open(struct orr_isolate *iso, lua_State *L);

#endif
