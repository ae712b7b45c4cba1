/*
 * Hints in the errors of scripts that use a name which the API does not have:
 *
 *   t.lua:3: attempt to call a nil value (field 'slep'); did you mean 'sleep'?
 *   t.lua:4: attempt to call a nil value (field 'go'); async has no 'go': write async.run(fn)
 *
 * A hint is added when the error reaches the bottom of a task or the host: never on another path.
 * It comes from one list of names that people bring along from other libraries, from the other
 * modules of the API, or from the nearest name of the same object, in this order.
 *
 * The work and the text are bounded, whatever a script has put into the tables of the API.
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_TASK_HINT_H
#define ORR_LUA_TASK_HINT_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct orr_isolate;

/*
 * Adds a hint to the error at an index, which is replaced, if the error is about a field that an
 * object of the API does not have, or about a global that people expect.  `raising`: called by a
 * message handler, while the function that has raised the error is on the stack.  May raise.
 */
void hint_add(struct orr_isolate *iso, lua_State *L, int index, bool raising);

#endif
