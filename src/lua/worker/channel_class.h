/* The Lua class of channels (channel.h). */
#ifndef ORR_LUA_WORKER_CHANNEL_CLASS_H
#define ORR_LUA_WORKER_CHANNEL_CLASS_H

#include "lua/isolate.h"

/* worker.channel([capacity]) */
int channel_class_new(lua_State *L);

/* Makes the class.  Every isolate has it, because any may be sent a channel.  May raise. */
void channel_class_open(struct orr_isolate *iso, lua_State *L);

#endif
