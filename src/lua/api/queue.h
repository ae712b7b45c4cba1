/* async.queue: values of a script, from task to task. */
#ifndef ORR_LUA_API_QUEUE_H
#define ORR_LUA_API_QUEUE_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds `queue` to the table of the module `async`, at the top of L.  May raise. */
void queue_open(struct orr_isolate *iso, lua_State *L);

#endif
