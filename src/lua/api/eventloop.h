/*
 * The Lua module `eventloop`, the C part: which script makes a private loop, and where.  For test runners
 * it also knows what is left of a script's private loops; only isolates made for testing remember them.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_EVENTLOOP_H
#define ORR_LUA_API_EVENTLOOP_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct orr_isolate;

/* Pushes the table of functions that lua/eventloop.lua calls.  May raise. */
void eventloop_push_private(struct orr_isolate *iso, lua_State *L);

/* Keeps the field `host` of that table, at the top of L: the functions that C calls.  May raise. */
void eventloop_keep_host(lua_State *L);

/* Appends a description of what is left in each private loop of a script to the list at the top of L.  May raise. */
void eventloop_list(lua_State *L, uint32_t script);

/* Drops what is left in the private loops of a script that do not run.  May raise. */
void eventloop_dispose(lua_State *L, uint32_t script);

/* Stops remembering the private loops of a script.  May raise. */
void eventloop_forget(lua_State *L, uint32_t script);

#endif
