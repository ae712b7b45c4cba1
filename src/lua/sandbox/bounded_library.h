/*
 * What the files of the bounded libraries (bounded.h) share: nobody else's business.
 *
 * Upvalues of each function in `struct bounded`: the isolate, Lua's own function, ours in Lua (nil where there is none).  All
 * of what is declared here may raise.
 */
#ifndef ORR_LUA_SANDBOX_BOUNDED_LIBRARY_H
#define ORR_LUA_SANDBOX_BOUNDED_LIBRARY_H

#include "lua/isolate.h"

/* What one call in C may do.  Each takes about a millisecond at most, here and in the files of the libraries. */
enum {
    ELEMENTS_MAX = 32768, /* moved in a table, or strings repeated */
    RESULTS_MAX = 65536,  /* returned at once: half of what a stack may hold, since a call with varargs copies them */
};

struct bounded {
    const char *library, *name; /* a global table, "_G" for the globals themselves; and what it is there */
    lua_CFunction function;
};

/* Each ends with an entry without a name. */
extern const struct bounded bounded_base[], bounded_string[], bounded_table[];

/* For lua/bounded.lua. */
extern const luaL_Reg bounded_string_tools[], bounded_table_tools[];

/* Two ways to do it, with all that is on the stack as arguments: both answer how many results there are. */
int bounded_call_own(lua_State *L);
int bounded_call_in_lua(lua_State *L);

/* How long a string may be. */
size_t bounded_longest(lua_State *L);

/* Raises an error, as Lua's own functions do. */
int bounded_too_large(lua_State *L);

/* Whether the table at an index, which is not relative to the top, has a field by itself. */
bool bounded_has_field(lua_State *L, int table, const char *name);

/* Whether a value of a script's own has a metamethod, which is pushed then. */
bool bounded_push_metamethod(lua_State *L, int index, const char *name);

/* What a `__tostring` has answered is at the top: raises if it is not a string. */
void bounded_check_described(lua_State *L);

#endif
