/* async.event, semaphore, mutex and condition. */
#ifndef ORR_LUA_API_SYNC_H
#define ORR_LUA_API_SYNC_H

#include "lua/isolate/compat.h"

#define SEMAPHORE_CLASS "orrery.semaphore"
#define MUTEX_CLASS "orrery.mutex"

struct orr_isolate;

/* Adds the functions to the table of the module `async`, at the top of L.  May raise. */
void sync_open(struct orr_isolate *iso, lua_State *L);

#endif
