/*
 * Hooks of scripts: debug.sethook and debug.gethook.
 *
 * A script's hook sees what it would see in a plain Lua.  It cannot be set aside when a slice is
 * over and put back later: Lua would forget how many instructions it has counted, and lose events.
 * So its C function is ours, is there for as long as the script's hook is, and does both: it tells
 * the script, and it looks whether the slice is to end.  For that it always counts, in pieces of at
 * most HOOK_PIECE instructions, and keeps count of what the script has asked for by itself.
 *
 * An error that a script's hook raises goes where Lua takes it.  A coroutine that dies of it has
 * its hooks off for good, and what is closed there cannot be interrupted, as nothing can inside a
 * hook of a script: only trusted scripts have hooks.
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
