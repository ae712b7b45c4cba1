/*
 * A snapshot of an isolate's Lua state, from which the state is restored: no job sees anything that
 * an earlier job has changed.
 *
 * A snapshot has every table that a script can reach, through tables and metatables, from the
 * globals, the loaded modules and the metatable of strings; and the upvalues of functions that are
 * not the library's.  (Scripts cannot reach the metatables of userdata: see library.h.) Restoring
 * gives each of them the contents that it had.  Nothing can reach what a job has made besides.
 * State that is not in tables or upvalues is the business of library.h, and of `reusable` in
 * job_isolate.h.
 *
 * A state is restored after every job, so that must be quick where nothing has changed.  So the
 * tables are tracked (dirty.h): restoring looks at the entries of those alone that have changed, or
 * that cannot be tracked.
 */
#ifndef ORR_LUA_WORKER_SNAPSHOT_H
#define ORR_LUA_WORKER_SNAPSHOT_H

#include "lua/worker/dirty.h"

/*
 * Pushes the set of all reachable objects: the library's own, which keep no state for scripts.  May
 * raise.
 */
void snapshot_note_library(lua_State *L);

/*
 * Pushes a snapshot of the state.  The set from snapshot_note_library() is at an index.  Opens
 * `dirty`, which must outlive the state.  False if there is something that cannot be restored: a
 * coroutine, a userdata that is not the library's, or too many objects.  May raise.
 */
bool snapshot_take(lua_State *L, int library, struct dirty *dirty);

/* Restores the state from the snapshot at an index.  May raise. */
void snapshot_restore(lua_State *L, int snapshot);

#endif
