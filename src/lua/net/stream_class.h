/* The class `stream` of scripts: its methods.  The isolate's worker's thread. */
#ifndef ORR_LUA_NET_STREAM_CLASS_H
#define ORR_LUA_NET_STREAM_CLASS_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Makes the class.  May raise. */
void stream_class_open(struct orr_isolate *iso, lua_State *L);

#endif
