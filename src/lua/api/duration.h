/* Lengths of time: scripts give and get milliseconds, C counts nanoseconds. */
#ifndef ORR_LUA_API_DURATION_H
#define ORR_LUA_API_DURATION_H

#include "lua/isolate/compat.h"

#include <stdint.h>

/* The nanoseconds of an argument in milliseconds.  Raises if it is not a length of time. */
uint64_t duration_check(lua_State *L, int index);

/* Pushes nanoseconds as milliseconds. */
static inline void duration_push(lua_State *L, uint64_t ns)
{
    lua_pushnumber(L, (lua_Number)ns / 1e6);
}

#endif
