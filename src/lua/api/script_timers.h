/*
 * Timers with callbacks, which scripts make with loop.new_timer().
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_SCRIPT_TIMERS_H
#define ORR_LUA_API_SCRIPT_TIMERS_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stdint.h>

struct orr_isolate;
struct timer_object;

struct timer_figures {
    uint64_t pending; /* started timers */
    uint64_t fired, cancelled, rearmed;
    uint64_t dropped; /* started when their script or isolate ended, or when disabled */
};

/* Part of the isolate. */
struct script_timers {
    struct timer_object *first; /* timers that are not closed */
    struct timer_figures figures;
};

static inline const struct timer_figures *script_timers_figures(const struct script_timers *self)
{
    return &self->figures;
}

/* Adds `new_timer` to the table of the module `loop`, at the top of L.  May raise. */
void script_timers_open(struct orr_isolate *iso, lua_State *L);

/* Closes all timers of a script, or of EVERY_SCRIPT. */
void script_timers_close(struct orr_isolate *iso, uint32_t script);

/* Whether any timer is still to fire. */
bool script_timers_any_active(const struct orr_isolate *iso);

/*
 * Appends a description of each started timer of a script to the list at the top of L.  May raise.
 */
void script_timers_list(struct orr_isolate *iso, lua_State *L, uint32_t script);

/* A callback for close() that stands for none: a timer does not call it. */
int script_timers_no_callback(lua_State *L);

#endif
