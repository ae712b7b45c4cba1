/* Amounts of time, written as in all messages, for what of the program is written in Lua. */
#ifndef ORR_CLI_DURATION_H
#define ORR_CLI_DURATION_H

struct lua_State;

/* A function of Lua's: duration(ms) -> "1.5 ms" */
int duration_text(struct lua_State *L);

#endif
