/* Which modules of the API an isolate's scripts have: all, or those that the host has listed. */
#ifndef ORR_LUA_ISOLATE_API_MODULES_H
#define ORR_LUA_ISOLATE_API_MODULES_H

#include "lua/isolate/compat.h"
#include "orrery.h"

struct log;

/* -EINVAL, and a line to the log, for a name that is none.  The list may be NULL. */
int api_modules_check(const char *const *modules, const struct log *log);

/* Modules as a set. */
#define API_MODULES_ALL (~0U)
#define API_MODULES_OF_JOBS 0U /* those that a worker's script has unless the host says otherwise */

/* What is listed, or `usual` if nothing is. */
unsigned api_modules_mask(const char *const *modules, unsigned usual);

/*
 * Whether there are some among them that jobs do not usually have: those keep state of their own.
 */
bool api_modules_beyond_jobs(unsigned modules);

/*
 * Takes the others out of the module at the top, once everything of ours has been made with them.
 * May raise.
 */
void api_modules_withhold(lua_State *L, unsigned modules);

#endif
