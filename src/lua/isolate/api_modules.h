/* Which modules of the API an isolate's scripts have: all, or those that the host has listed. */
#ifndef ORR_LUA_ISOLATE_API_MODULES_H
#define ORR_LUA_ISOLATE_API_MODULES_H

#include "lua/isolate/compat.h"
#include "orrery.h"

struct log;

/*
 * Returns -EINVAL, and logs it, if a name is no module of the API, or none of the set `allowed`.
 * The list may be NULL.
 */
int api_modules_check(const char *const *modules, unsigned allowed, const struct log *log);

/* Whether the module `orrery` has a field of that name, if the host gives it to scripts. */
bool api_modules_has_field(const char *name);

/* Sets of modules: the default for api_modules_mask(). */
#define API_MODULES_ALL (~0U)
#define API_MODULES_OF_JOBS 0U /* the modules that jobs have by default */

/* The set of the listed modules, or `usual` if `modules` is NULL. */
unsigned api_modules_mask(const char *const *modules, unsigned usual);

/* The modules that untrusted scripts may have, if they have grants for the `network`, or not. */
unsigned api_modules_for_untrusted(bool network);

/* Whether the set has the module with this field. */
bool api_modules_has(unsigned modules, const char *field);

/* Whether the set has modules that jobs do not have by default.  Those modules keep state. */
bool api_modules_beyond_jobs(unsigned modules);

/*
 * Removes the modules outside the set from the table at the top of L, once the library has set
 * itself up with them.  May raise.
 */
void api_modules_withhold(lua_State *L, unsigned modules);

#endif
