/*
 * Collects the names that a script could have used: globals, and fields of Lua's libraries and of
 * the API.
 */
#ifndef ORR_CLI_NAMES_H
#define ORR_CLI_NAMES_H

struct lua_State;

/*
 * Pushes a table on `to`: lists of names, by the name of the table that they are in; "" for the
 * globals, ":" for methods.  Names that cannot be read are left out.  `from` is an isolate that
 * nobody runs now; it and `to` are different states.
 */
void names_push(struct lua_State *from, struct lua_State *to);

#endif
