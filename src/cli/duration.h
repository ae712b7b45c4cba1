/* Writes amounts of time as in all messages, for the Lua code of the program. */
#ifndef ORR_CLI_DURATION_H
#define ORR_CLI_DURATION_H

struct lua_State;

/* A Lua function: duration(ms) -> "1.5 ms" */
int duration_text(struct lua_State *L);

#endif
