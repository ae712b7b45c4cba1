/* What a call may still use of its time. */
#ifndef ORR_LUA_BUDGET_H
#define ORR_LUA_BUDGET_H

#include "lua/compat.h"

/* Raises if the call is being ended. */
static inline void budget_check(lua_State *L)
{
    (void)L;
}

#endif
