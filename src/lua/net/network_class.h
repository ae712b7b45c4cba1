/*
 * testing.network(): simulated networks for tests.  A test's network is that of the whole worker
 * from then on, until the test ends.  It is no leak: it ends with its test.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_NETWORK_CLASS_H
#define ORR_LUA_NET_NETWORK_CLASS_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds the function to the field `testing` of the module `orrery` at the top of L.  May raise. */
void network_class_open(struct orr_isolate *iso, lua_State *L);

#endif
