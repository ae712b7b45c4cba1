/* Channels between isolates: see channel.c. */
#ifndef ORR_LUA_WORKER_CHANNEL_H
#define ORR_LUA_WORKER_CHANNEL_H

#include "lua/isolate.h"

/* worker.channel([capacity]) */
int channel_new(lua_State *L);

/* Makes the class, in every isolate: any may be sent one.  May raise. */
void channel_open(struct orr_isolate *iso, lua_State *L);

#endif
