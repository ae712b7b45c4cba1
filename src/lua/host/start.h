/*
 * Scripts that the host starts, and functions of the host that scripts await.  The isolate's
 * worker's thread.
 */
#ifndef ORR_LUA_HOST_START_H
#define ORR_LUA_HOST_START_H

#include "lua/isolate.h"

/*
 * Starts a script that consists of several steps, like orr_lua_start().  Pops the function on top
 * of the stack, and calls it before each step.  It returns the function of the step and its
 * arguments, or nothing after the last step.
 */
int script_start_steps(lua_State *L, const char *name, struct orr_task **out);

#endif
