/*
 * Names C functions that block the loop.
 *
 * Lua is suspended when its slice is over; a C function is not, and nothing else of its thread runs
 * until it returns.  So a script that calls os.execute() holds up everything, and nobody sees why.
 * The hook that comes after such a function has returned knows that no hook has run since the slice
 * was over, and which function returns: if that took longer than `slow_call_ns`, the host gets a
 * notice, once for each place in a script.
 *
 * The time counts from the timer's signal on, so a call takes up to a slice longer than it says.  A
 * thread that neither slept nor used the processor meanwhile did not block: the machine ran
 * something else.
 *
 * Costs nothing before a slice is over.  Needs the timer's signal while the function runs.  So
 * there are no notices in the modes ORR_LUA_COUNT and ORR_LUA_OFF, or if the system refuses the
 * timer; and where signals are kept from threads that sleep (`may_sleep`), only of functions that
 * compute.  Jobs may block: they have threads of their own.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_LIMITS_SLOW_CALL_H
#define ORR_LUA_LIMITS_SLOW_CALL_H

#include "lua/isolate/compat.h"

#include <stdint.h>

struct moment;
struct orr_isolate;

enum { SLOW_CALL_PLACES = 32 }; /* places that are told of; later ones are not */

/* Part of the isolate. */
struct slow_calls {
    unsigned count;
    uint64_t places[SLOW_CALL_PLACES]; /* hashes of those that the host knows */
};

/*
 * In a return hook, the first since the timer came at `since`: adds a notice if it is a C function
 * that returns, and that took too long.  Never raises.
 */
void slow_call_note(struct orr_isolate *iso, lua_State *L, lua_Debug *returning, const struct moment *since);

#endif
