/* How Lua's libraries differ for scripts that run as jobs.  All functions may raise. */
#ifndef ORR_LUA_WORKER_LIBRARY_H
#define ORR_LUA_WORKER_LIBRARY_H

#include "lua/isolate.h"

/*
 * Makes the tables in the API module at the top read-only: jobs cannot change them, so they need
 * not be restored.
 */
void library_freeze(lua_State *L);

/*
 * Changes the libraries.  From then on a call that leaves state outside of tables (an open file, a
 * finalizer) sets `*reusable` to false.
 */
void library_adapt(struct orr_isolate *iso, lua_State *L, bool *reusable);

/* Makes the value at the top, which is popped, a module and a global of that name. */
void library_register(lua_State *L, const char *name);

/* Raises if the script has loaded a library written in C, which may have any state. */
void library_check(lua_State *L);

/* Restores what is not in tables: the mode of the collector, and the seed of math.random. */
void library_restore(lua_State *L);

#endif
