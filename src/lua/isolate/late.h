/*
 * What of the library is made late: when a script first needs it.
 *
 * A script uses some of the library.  The rest would take time at every start, and every cycle of
 * the collector would visit it.  So it is made late, in two ways:
 *
 * - *Late files* of lua/ hold the larger modules.  The tables and functions of such a module exist
 *   from the start, and the first call of a function runs the file (api/late_modules.h).
 * - *The late API.*  Where only `require` can find the API, `require` makes it (host/modules.c).
 *
 * A script may have changed Lua's libraries and the API by then.  Late code must not see that: it
 * would use functions of the script in the place of Lua's own.  So every file of the API runs with
 * an *origin* as its globals: copies of what such files use, made before any script runs.  No
 * script can reach an origin.
 *
 * Making something late may fail: memory runs out, or a deadline passes.  Then it has changed
 * nothing that others see, and the next call tries again.  A finalizer may do inside what is being
 * done already; then the inner result is used.
 *
 * Only the isolate's worker thread may call these functions.  All but late_try_api() may raise.
 */
#ifndef ORR_LUA_ISOLATE_LATE_H
#define ORR_LUA_ISOLATE_LATE_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct embedded;

/* --- Origins ---------------------------------------------------------------------------------- */

/* Names in a library of Lua, with spaces between them.  A list ends with a library that is NULL. */
struct late_names {
    const char *library; /* "_G" for the globals */
    const char *names;
};

/*
 * Pushes an origin: copies of these names of Lua's libraries, as they are now.  Leaves out
 * libraries that the state does not have.  Asked for any other name, an origin raises.
 */
void late_push_copies(lua_State *L, const struct late_names *libraries);

/* Pushes the file as a function: [origin] -> [origin] [function].  Its globals are the origin. */
void late_push_with(lua_State *L, const struct embedded *file);

/* --- The API ---------------------------------------------------------------------------------- */

/* Makes the origin of the API. */
void late_open(lua_State *L);

/* Pushes the origin of the API. */
void late_push_origin(lua_State *L);

/* Adds copies of some fields of the table at the top to the origin, as `name`.  Pops the table. */
void late_add(lua_State *L, const char *name, const char *fields);

/* Pushes a file of the API as a function, whose globals are the origin of the API. */
void late_push(lua_State *L, const struct embedded *file);

/* The function at the top, which is popped, returns the API, and makes it if need be. */
void late_set_api(lua_State *L);

/* Makes the API, unless it is there. */
void late_need_api(lua_State *L);

/* Gives up the API, because the state is about to be closed. */
void late_forget_api(lua_State *L);

/* As late_need_api(), in protected mode.  False if it fails.  Needs two slots. */
bool late_try_api(lua_State *L);

#endif
