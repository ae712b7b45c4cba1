/* Bounded functions (bounded.h): Lua's basic functions, and `os.date`. */
#ifndef ORR_LUA_SANDBOX_BOUNDED_BASE_H
#define ORR_LUA_SANDBOX_BOUNDED_BASE_H

#include "lua/sandbox/bounded.h"

extern const struct bounded bounded_base[];

#endif
