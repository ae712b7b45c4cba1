/*
 * Threads for one server: net.serve() with the option threads.
 *
 * A server's isolates live as long as the server.  On the pool threads of the runtime they would
 * take time from the jobs of workers, and there may be fewer of those threads than the server is to
 * have.  So a server has a runtime of its own, beside that of its script, with a pool of as many
 * threads; a long job on each of them serves connections.
 *
 * A script's handle of the threads is a userdata that begins like that of a pool, so jobs are
 * submitted to it.  All handles of its jobs must be closed before it is closed, which is the
 * business of lua/net_threads.lua.  The collector finalizes the jobs first: they are younger.
 */
#ifndef ORR_LUA_WORKER_SERVER_THREADS_H
#define ORR_LUA_WORKER_SERVER_THREADS_H

#include "lua/isolate.h"

/* Adds `threads` and `close_threads` to the table at the top.  May raise. */
void server_threads_open(struct orr_isolate *iso, lua_State *L);

#endif
