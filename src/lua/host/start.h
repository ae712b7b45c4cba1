/*
 * Starting scripts from the host, and functions of the host that scripts await.  The isolate's
 * worker's thread.
 */
#ifndef ORR_LUA_HOST_START_H
#define ORR_LUA_HOST_START_H

#include "lua/isolate.h"

/*
 * Starts a script that has several steps, as orr_lua_start() starts a function.  The function at
 * the top of the stack, which is taken off, is called for each step: it answers a function and its
 * arguments, which are called then, or nothing when there are no more steps.
 */
int script_start_steps(lua_State *L, const char *name, struct orr_task **out);

#endif
