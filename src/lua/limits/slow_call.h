/*
 * Names C functions that block the loop.
 *
 * Lua is suspended when its slice is over; a C function is not, and nothing else of its thread runs
 * until it returns.  So a script that calls os.execute() holds up everything, and nobody sees why.
 * The hook that comes after such a function has returned knows that no hook has run since the slice
 * was over, and which function returns: if that took longer than `slow_call_ns`, the host gets a
 * notice, once for each place in a script.
 *
 * Costs nothing before a slice is over.  Needs the timer, so there are no notices in the modes
 * ORR_LUA_COUNT and ORR_LUA_OFF, or if the system refuses the timer.  Jobs may block: they have
 * threads of their own.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_SLOW_CALL_H
#define ORR_LUA_LIMITS_SLOW_CALL_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct orr_isolate;

enum { SLOW_CALL_PLACES = 32 }; /* places that are told of; later ones are not */

/* Part of the isolate. */
struct slow_calls {
    unsigned count;
    uint64_t places[SLOW_CALL_PLACES]; /* hashes of those that the host knows */
};

/*
 * In a return hook: a function returns that was called at `since`, by the clock, or before, and that
 * has used `cpu_ns` of the processor's time.  Adds a notice if it is a C function that took too
 * long.  Never raises.
 */
void slow_call_note(struct orr_isolate *iso, lua_State *L, lua_Debug *returning, uint64_t since, uint64_t cpu_ns);

#endif
