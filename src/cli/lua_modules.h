/* The Lua modules that are embedded in the program, for `require`, such as "orrery.test.main". */
#ifndef ORR_CLI_LUA_MODULES_H
#define ORR_CLI_LUA_MODULES_H

struct lua_State;

/* Adds the modules to the state's `require`.  Returns 0 or LUA_ERRMEM. */
int lua_modules_preload(struct lua_State *L);

#endif
