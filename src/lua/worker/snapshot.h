/*
 * How an isolate was when it was born, so that it can be made so again: between two jobs nothing that the first has changed is left for
 * the second to see.
 *
 * Remembered is every table that a script can reach, through tables and metatables, from the globals, what is loaded, and the
 * metatable of strings (those of userdata it cannot reach: library.h); and, of functions that are not the library's own, the script
 * itself among them, the upvalues.  Put back is what each of them held.  What a script has made beyond that nobody can reach any more.
 * So what could tell two jobs apart is state of another kind: for that, see
 * library.h, and `spoiled` in job_isolate.c.
 */
#ifndef ORR_LUA_WORKER_SNAPSHOT_H
#define ORR_LUA_WORKER_SNAPSHOT_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

/* Pushes the set of the functions there are: the library's own, which keep no state for scripts to find.  May raise. */
void snapshot_note_library(lua_State *L);

/*
 * Pushes what is to be remembered of the state, given that set, and of the script that will run in it, each at an index.  False if
 * there is something that cannot be put back: a coroutine, or an object that is not the library's.  May raise.
 */
bool snapshot_take(lua_State *L, int library, int script);

/* Puts it back, from what is at an index.  May raise. */
void snapshot_restore(lua_State *L, int memory);

#endif
