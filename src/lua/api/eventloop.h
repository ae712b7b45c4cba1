/*
 * The Lua module `eventloop`: private loops.  lua/eventloop.lua is nearly all of it.  The C part
 * knows which script makes a private loop, and where; and what is left of a script's private loops,
 * for test runners.  Only isolates made for testing remember private loops.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_EVENTLOOP_H
#define ORR_LUA_API_EVENTLOOP_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct orr_isolate;

/* Runs the late file: [origin] -> [origin with `eventloop`].  May raise. */
void eventloop_run(struct orr_isolate *iso, lua_State *L);

/* Appends what is left in the private loops of a script to the list at the top of L.  May raise. */
void eventloop_list(lua_State *L, uint32_t script);

/* Drops what is left in the private loops of a script that do not run.  May raise. */
void eventloop_dispose(lua_State *L, uint32_t script);

/* Stops remembering the private loops of a script.  May raise. */
void eventloop_forget(lua_State *L, uint32_t script);

#endif
