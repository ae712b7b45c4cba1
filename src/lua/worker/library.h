/* What differs, for a script in a worker, from Lua's libraries elsewhere. */
#ifndef ORR_LUA_WORKER_LIBRARY_H
#define ORR_LUA_WORKER_LIBRARY_H

#include "lua/isolate.h"

/* Makes the tables in the module at the top, of the API, such that nobody can change them: so nobody need put them back.  May raise. */
void library_freeze(lua_State *L);

/* Changes the libraries.  From then on `*spoiled` is set by what leaves state behind that is not in tables.  May raise. */
void library_adapt(struct orr_isolate *iso, lua_State *L, bool *reusable);

/* Makes what is at the top, and is taken off, a module, and a global of that name.  May raise. */
void library_register(lua_State *L, const char *name);

/* Raises if the script has loaded a library written in C: nobody knows what state that has. */
void library_check(lua_State *L);

/* Puts back what is not in tables: the collector's ways, and the numbers to come of math.random.  May raise. */
void library_restore(lua_State *L);

#endif
