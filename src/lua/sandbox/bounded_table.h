/* Bounded functions (bounded.h): the library `table`. */
#ifndef ORR_LUA_SANDBOX_BOUNDED_TABLE_H
#define ORR_LUA_SANDBOX_BOUNDED_TABLE_H

#include "lua/sandbox/bounded.h"

extern const struct bounded bounded_table[];
extern const luaL_Reg bounded_table_tools[]; /* for lua/bounded.lua */

#endif
