/* Lua's warnings, as in `lua`: on stderr, if -W or warn("@on") turns them on. */
#ifndef ORR_CLI_WARNINGS_H
#define ORR_CLI_WARNINGS_H

struct lua_State;

void warnings_open(struct lua_State *L);

#endif
