/*
 * How scripts get streams: connect(), pair(), pipe(), standard().  Functions for lua/net.lua.
 *
 * The userdata of a new stream is made before the stream: making it may raise, and a stream that
 * nobody owns must not be left behind.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_CONNECT_H
#define ORR_LUA_NET_CONNECT_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the functions to the table at the top of L.  May raise. */
void connect_open(struct orr_isolate *iso, lua_State *L);

#endif
