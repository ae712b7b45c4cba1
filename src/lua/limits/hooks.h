/*
 * Hooks of scripts: debug.sethook and debug.gethook.
 *
 * A script's hook sees what it would see in a plain Lua.  It cannot be set aside when a slice is
 * over and put back later: Lua would forget how many instructions it has counted, and lose events.
 * So its C function is ours, stays as long as the script's hook does, and does both: it calls the
 * script, and it looks whether the slice is over.  For that it always counts, in pieces of at most
 * HOOK_PIECE instructions, and keeps the script's own count by itself.
 *
 * An error that a script's hook raises goes where Lua takes it.  A coroutine that dies of it has
 * its hooks off for good, and nothing can interrupt what is closed there, as nothing can inside a
 * hook of a script.  So only trusted scripts have hooks.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_HOOKS_H
#define ORR_LUA_LIMITS_HOOKS_H

#include "lua/isolate.h"

enum { HOOK_PIECE = 1000 };

/*
 * Puts ours in the place of Lua's own debug.sethook and debug.gethook, if there are any.  May
 * raise.
 */
void hooks_open(struct orr_isolate *iso, lua_State *L);

#endif
