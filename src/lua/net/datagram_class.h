/*
 * The class `datagram` of scripts: a userdata that owns one datagram socket of the core.
 * lua/net.lua gets the function udp(), which makes them.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_DATAGRAM_CLASS_H
#define ORR_LUA_NET_DATAGRAM_CLASS_H

#include "lua/isolate/compat.h"

struct orr_isolate;

#define DATAGRAM_CLASS "orrery.datagram"

/* Makes the class, and adds udp() to the table at the top of L.  May raise. */
void datagram_class_open(struct orr_isolate *iso, lua_State *L);

#endif
