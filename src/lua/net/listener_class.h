/*
 * The class `listener` of scripts: a userdata that owns one listener of the core.  lua/net.lua gets
 * the function listen(), which makes them.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_LISTENER_CLASS_H
#define ORR_LUA_NET_LISTENER_CLASS_H

#include "lua/isolate/compat.h"

struct orr_isolate;

#define LISTENER_CLASS "orrery.listener"

/* Makes the class, and adds listen() to the table at the top of L.  May raise. */
void listener_class_open(struct orr_isolate *iso, lua_State *L);

#endif
