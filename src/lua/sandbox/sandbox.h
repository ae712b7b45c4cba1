/*
 * What an untrusted script can reach: Lua's libraries cut down to an allow-list, with bounded
 * functions (bounded.h) in the place of those that could take long; and the API without what
 * reaches beyond the isolate.  Only states that the library made are cut down.
 *
 * All functions are called by the thread that owns the isolate, and may raise.
 */
#ifndef ORR_LUA_SANDBOX_SANDBOX_H
#define ORR_LUA_SANDBOX_SANDBOX_H

#include "lua/isolate.h"

/* Opens the libraries that the allow-list names. */
void sandbox_libraries(lua_State *L);

/*
 * Cuts the libraries down.  The API must be made after this: it keeps the functions that it uses.
 */
void sandbox_open(struct orr_isolate *iso, lua_State *L);

/*
 * Cuts the API down, and makes `load` and `require`: [module] [function that makes a require] ->
 * [module].
 */
void sandbox_finish(struct orr_isolate *iso, lua_State *L);

/* Pushes a table of globals for one script. */
void sandbox_push_globals(lua_State *L);

/* Pushes the table of the modules that untrusted scripts can require, by name. */
void sandbox_push_registered(lua_State *L);

/*
 * Registers the value at the top, which is popped, as the module `name`.  For a trusted script a
 * function is the module's loader, and any other value is the module.
 */
void sandbox_register(struct orr_isolate *iso, lua_State *L, const char *name);

#endif
