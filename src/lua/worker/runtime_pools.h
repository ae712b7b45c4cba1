/* The pools of a runtime: made at the first call, together with the pool threads. */
#ifndef ORR_LUA_WORKER_RUNTIME_POOLS_H
#define ORR_LUA_WORKER_RUNTIME_POOLS_H

#include "lua/worker/pool.h"

/* The runtime owns them.  Negative errno.  Any thread. */
int runtime_pools_get(struct orr_runtime *rt, struct job_pools **out);

#endif
