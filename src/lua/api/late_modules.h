/*
 * Modules whose files run late (isolate/late.h).  lua/late.lua makes their tables and functions.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_LATE_MODULES_H
#define ORR_LUA_API_LATE_MODULES_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* A list ends with a name that is NULL. */
struct late_module {
    const char *name;
    /* Runs the file: [origin] -> [origin].  The file sets the origin's field `name`.  May raise. */
    void (*run)(struct orr_isolate *iso, lua_State *L);
};

/*
 * Adds the modules to the table of the module `orrery` at the top of L, in which `async` and `loop`
 * are complete.  The list must live as long as the isolate.  May raise.
 */
void late_modules_open(struct orr_isolate *iso, lua_State *L, const struct late_module *modules);

#endif
