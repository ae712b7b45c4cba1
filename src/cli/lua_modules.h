/* What of the program is written in Lua, and embedded in it: modules for `require`, such as "orrery.test.main". */
#ifndef ORR_CLI_LUA_MODULES_H
#define ORR_CLI_LUA_MODULES_H

struct lua_State;

/* Makes them known to the state's `require`.  0, or LUA_ERRMEM. */
int lua_modules_preload(struct lua_State *L);

#endif
