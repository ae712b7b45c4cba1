/*
 * copy(from, to): everything that one stream gives goes to another.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_STREAM_COPY_H
#define ORR_LUA_NET_STREAM_COPY_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the function to the table at the top of L.  May raise. */
void stream_copy_open(struct orr_isolate *iso, lua_State *L);

#endif
