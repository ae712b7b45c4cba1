/*
 * Freeing a state in several turns.
 *
 * lua_close() is one long call: 20 ms for 54 MB of small tables.  So everything that scripts have
 * made is released first, and collected in short steps.  Not where scripts have finalizers: a
 * finalizer may use all that it knows.
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
 * Goes on until a time.  True when little is left for lua_close().  The isolate runs no more Lua.
 */
bool discard_step(struct orr_isolate *iso, struct discard *self, uint64_t until);

#endif
