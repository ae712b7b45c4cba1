/*
 * Tables of options that scripts give to functions.  A name that the function does not know is an
 * error, and so is a value of another type: else a misspelt option would be ignored in silence.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_OPTION_TABLE_H
#define ORR_LUA_API_OPTION_TABLE_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

/*
 * Checks that the value at an index is a table with no other keys than `known`, a list that ends
 * with NULL.  Raises else, in the name of the function `what`.
 */
void option_table_check(lua_State *L, int index, const char *what, const char *const *known);

/* The value of an option: false if it is absent.  Raises if it is not a boolean. */
bool option_table_flag(lua_State *L, int index, const char *what, const char *name);

/*
 * Pushes the value of an option, and returns it; pushes nil and returns NULL if it is absent.
 * Raises if it is not a string.
 */
const char *option_table_string(lua_State *L, int index, const char *what, const char *name);

/*
 * advise(option, known...): for Lua.  Returns what to add to a message about an unknown option:
 * what may have been meant, or which options exist.
 */
int option_table_advise(lua_State *L);

#endif
