/*
 * Lookups of names: lookup(host, port) for lua/net.lua, which gives the addresses as texts.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_LOOKUP_H
#define ORR_LUA_NET_LOOKUP_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the function to the table at the top of L.  May raise. */
void lookup_open(struct orr_isolate *iso, lua_State *L);

#endif
