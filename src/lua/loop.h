/* Timers with callbacks, as the rest of this layer sees them. */
#ifndef ORR_LUA_LOOP_H
#define ORR_LUA_LOOP_H

#include "lua/isolate.h"

/* Closes all timers that a script has made. */
void loop_close_timers(struct orr_isolate *iso, uint32_t script);

/* Whether any timer is to fire. */
bool loop_any_active(const struct orr_isolate *iso);

#endif
