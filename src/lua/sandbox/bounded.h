/*
 * Lua's library functions, such that one call of them never takes long.
 *
 * Each has Lua's own function behind it, and calls it, in its own place, when the work is small and no metamethod can come in
 * between: so results and messages are Lua's.  Else it calls the function of the same name in lua/bounded.lua, which does
 * the same in Lua, where it can be interrupted.  Metamethods are called such that they can yield.
 */
#ifndef ORR_LUA_SANDBOX_BOUNDED_H
#define ORR_LUA_SANDBOX_BOUNDED_H

#include "lua/isolate.h"

/*
 * Puts them in the place of Lua's own, which are there, and pushes a function that reads all the pieces of a source.  May raise.
 */
void bounded_open(struct orr_isolate *iso, lua_State *L);

#endif
