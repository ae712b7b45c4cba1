/* Timers with callbacks, as the rest of this layer sees them. */
#ifndef ORR_LUA_API_LOOP_H
#define ORR_LUA_API_LOOP_H

#include "lua/isolate.h"

/* Closes all timers that a script has made. */
void loop_close_timers(struct orr_isolate *iso, uint32_t script);

/* Whether any timer is to fire. */
bool loop_any_active(const struct orr_isolate *iso);

/* Appends to the list at the top of L what tells of each timer of a script that is to fire.  May raise. */
void loop_list_timers(struct orr_isolate *iso, lua_State *L, uint32_t script);

#endif
