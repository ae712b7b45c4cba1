/*
 * How an isolate was when it was born, so that it can be made so again: between two jobs nothing that the first has changed is left for
 * the second to see.
 *
 * Remembered is every table that can be reached, through tables, metatables and upvalues, from the globals, the registry's named tables
 * and the metatable of strings; and put back is what each of them held, and its metatable.  What a script has made beyond that nobody
 * can reach any more.  So what could tell two jobs apart is state that is not in tables: see `spoiled` in cell.c for what is done there.
 */
#ifndef ORR_LUA_WORKER_BIRTH_H
#define ORR_LUA_WORKER_BIRTH_H

#include "lua/compat.h"

/* Pushes what is to be remembered of the state.  May raise. */
void birth_remember(lua_State *L);

/* Puts it back, from what is at an index.  May raise. */
void birth_restore(lua_State *L, int memory);

#endif
