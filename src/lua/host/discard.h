/*
 * Freeing a state by turns.  lua_close() is one long call: 20 ms for 54 MB of small tables.  So what scripts have made is let go of
 * first, and collected in short steps.  Not where scripts have finalizers: those are to find all that they know.
 */
#ifndef ORR_LUA_HOST_DISCARD_H
#define ORR_LUA_HOST_DISCARD_H

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;

struct discard {
    bool begun;
    int cycles; /* of the collector, so far */
};

/* Goes on until a time.  True when little is left for lua_close().  No Lua of the isolate may run any more. */
bool discard_step(struct orr_isolate *iso, struct discard *self, uint64_t until);

#endif
