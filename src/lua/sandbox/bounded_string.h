/*
 * Bounded functions (bounded.h): the libraries `string` and `utf8`, without the functions that take
 * patterns.
 */
#ifndef ORR_LUA_SANDBOX_BOUNDED_STRING_H
#define ORR_LUA_SANDBOX_BOUNDED_STRING_H

#include "lua/sandbox/bounded.h"

extern const struct bounded bounded_string[];
extern const luaL_Reg bounded_string_tools[]; /* for lua/bounded.lua */

#endif
