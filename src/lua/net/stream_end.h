/*
 * The ends of streams: of the output, of the connection, of the peer.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_STREAM_END_H
#define ORR_LUA_NET_STREAM_END_H

#include "lua/isolate/compat.h"

/* shutdown(): ends the output. */
int stream_shutdown(lua_State *L);

/*
 * finish(stream): ends the output, and drops the input until its end, so that what was written
 * arrives.  finish_now(stream): the same, as far as it needs no wait; returns false if there is
 * something to wait for.  For lua/net_serve.lua.
 */
int stream_finish(lua_State *L);
int stream_finish_now(lua_State *L);

#endif
