/* Lua's warnings, as `lua` has them: on stderr, if they are turned on by -W or warn("@on"). */
#ifndef ORR_CLI_WARNINGS_H
#define ORR_CLI_WARNINGS_H

struct lua_State;

void warnings_open(struct lua_State *L);

#endif
