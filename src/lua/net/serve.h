/*
 * What net.serve() needs in C: the tasks of connections.
 *
 * Such a task is *solitary*: its failure is reported, and neither its server nor the other
 * connections hear of it.  It is cancelled when its peer resets the connection, without a task that
 * watches.  It gets the name of its peer when somebody can see that name: in debug mode at once,
 * else when it fails.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_SERVE_H
#define ORR_LUA_NET_SERVE_H

#include "lua/isolate/compat.h"

struct orr_isolate;
struct stream_object;

/* Adds the functions for lua/net_serve.lua to the table at the top.  May raise. */
void serve_open(struct orr_isolate *iso, lua_State *L);

/* An error closes a stream: if the running task is that of a connection, it gets the full name. */
void serve_name_failure(const struct stream_object *stream, lua_State *L);

#endif
