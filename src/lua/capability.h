/* Which modules of the API an isolate's scripts have: all, or those that the host has listed. */
#ifndef ORR_LUA_CAPABILITY_H
#define ORR_LUA_CAPABILITY_H

#include "lua/compat.h"
#include "orrery.h"

struct log;

/* -EINVAL, and a line to the log, for a name that is none.  The list may be NULL. */
int capability_check(const char *const *modules, const struct log *log);

/* Takes the others out of the module at the top, once everything of ours has been made with them.  May raise. */
void capability_withhold(lua_State *L, const char *const *modules);

#endif
