/* The timers of an isolate's scripts. */
#ifndef ORR_LUA_API_SCRIPT_TIMERS_H
#define ORR_LUA_API_SCRIPT_TIMERS_H

#include <stdint.h>

struct timer_object;

struct timer_figures {
    uint64_t pending; /* started, and still to fire */
    uint64_t fired, cancelled, rearmed;
    uint64_t dropped; /* still to fire when their script or isolate ended, or when they were disabled */
};

struct script_timers {
    struct timer_object *first; /* timers that are not closed */
    struct timer_figures figures;
};

#endif
