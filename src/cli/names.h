/* The names that a script could have used: of globals, of what is in Lua's libraries and in the API. */
#ifndef ORR_CLI_NAMES_H
#define ORR_CLI_NAMES_H

struct lua_State;

/*
 * Pushes them on `to`: a table of lists of names, by the name of the table that they are in; "" is that of the globals, ":" of methods.
 * What cannot be had is left out.  `from` is an isolate, which nobody runs now; it and `to` are different states.
 */
void names_push(struct lua_State *from, struct lua_State *to);

#endif
