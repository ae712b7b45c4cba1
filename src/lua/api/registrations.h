/*
 * What calls back for a script without a task of its own: timers, scheduled callbacks, event
 * handlers.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_REGISTRATIONS_H
#define ORR_LUA_API_REGISTRATIONS_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct orr_isolate;

/* Closes the timers, cancels the callbacks and removes the handlers of a script.  Never raises. */
void registrations_remove(struct orr_isolate *iso, uint32_t script);

/* Appends a description of each of them to the list at the top of L.  May raise. */
void registrations_list(struct orr_isolate *iso, lua_State *L, uint32_t script);

#endif
