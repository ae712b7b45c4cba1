/*
 * Late files: files of lua/ that run when a script first needs them.
 *
 * A script uses some of the library.  The rest would take time at every start, and every cycle of
 * the collector would visit it.  So the files of the larger modules are late: the module's table
 * and its functions are there from the start, and a function's first call runs the file.
 *
 * A script may have changed Lua's libraries and the API by then.  A late file must not see that:
 * it would use the script's functions in the place of Lua's own.  So it runs with an *origin* as
 * its globals: copies of the functions that late files use, which are made when the isolate is
 * opened, before any script runs.  No script can reach an origin.
 *
 * A late file may fail: memory runs out, or a deadline passes.  Then it has changed nothing that
 * others see, and runs again at the next call.
 *
 * Only the isolate's worker thread may call these functions.  They may raise.
 */
#ifndef ORR_LUA_ISOLATE_LATE_H
#define ORR_LUA_ISOLATE_LATE_H

#include "lua/isolate/compat.h"

struct embedded;

/* Names in a library of Lua, with spaces between them.  A list ends with a library that is NULL. */
struct late_names {
    const char *library; /* "_G" for the globals */
    const char *names;
};

/* Pushes an origin with copies of these functions of Lua's libraries, as they are now. */
void late_push_origin(lua_State *L, const struct late_names *libraries);

/* Puts copies of some fields of the table at the top into the origin below it, as `name`: pops the table. */
void late_add(lua_State *L, const char *name, const char *fields);

/* Pushes the file as a function whose globals are the origin at an index. */
void late_push(lua_State *L, const struct embedded *file, int origin);

#endif
