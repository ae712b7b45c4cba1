/*
 * async.future: a result that a script delivers later.  A result is an error, or nil, followed by
 * values.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_FUTURE_H
#define ORR_LUA_API_FUTURE_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

#define FUTURE_CLASS "orrery.future"

struct orr_isolate;

/* Adds `future` to the table of the module `async`, at the top of L.  May raise. */
void future_open(struct orr_isolate *iso, lua_State *L);

/* Whether the value at an index is a future. */
bool future_test(lua_State *L, int index);

/*
 * Awaits the future at index 1: returns its values or raises its error.  A C function of a task
 * returns what this returns; it is its own continuation.
 */
int future_await(lua_State *L, int status, lua_KContext context);

#endif
