/*
 * Freeing a Lua state in several turns.
 *
 * lua_close() is one long call: 20 ms for 54 MB of small tables.  So this first drops the
 * references to all values of scripts, and collects them in short steps.  It skips that if scripts
 * have finalizers, because a finalizer may use any value that it can reach.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_HOST_DISCARD_H
#define ORR_LUA_HOST_DISCARD_H

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

struct discard {
    bool begun;
    int cycles; /* cycles of the collector so far */
};

/*
 * Frees memory until the time `until`.  True when little is left for lua_close().  After the first
 * call the isolate must not run Lua any more.
 */
bool discard_step(struct orr_isolate *iso, struct discard *self, uint64_t until);

#endif
