/*
 * Bounded library functions: Lua's library functions, such that one call never takes long.
 *
 * Each bounded function stands in the place of a function of Lua's own.  It calls Lua's own when
 * the work is small and no metamethod can interfere: so results and messages are Lua's.  Otherwise
 * it calls the function of the same name in lua/bounded.lua, which does the work in Lua, where it
 * can be interrupted.  Metamethods are called such that they can yield.
 *
 * This header is what the libraries (bounded_base.h, bounded_string.h, bounded_table.h) share. 
 * Upvalues of each function in a `struct bounded`: the isolate; Lua's own function; that struct.
 * lua/bounded.lua is a late file (isolate/late.h).  All functions that are declared here may raise.
 */
#ifndef ORR_LUA_SANDBOX_BOUNDED_H
#define ORR_LUA_SANDBOX_BOUNDED_H

#include "lua/isolate.h"

/*
 * How much one call in C may do: about a millisecond.  The libraries have more limits of their own.
 */
enum {
    ELEMENTS_MAX = 32768, /* moved in a table, or strings repeated */
    RESULTS_MAX = 65536,  /* returned: half of a full stack, since varargs are copied */
};

struct bounded {
    const char *library; /* a global table; "_G" for the globals */
    const char *name;    /* in that table; NULL ends a list */
    lua_CFunction function;
};

/* Calls Lua's own function with all that is on the stack.  Answers how many results there are. */
int bounded_call_own(lua_State *L);

/*
 * The function at the top, which is popped, runs lua/bounded.lua when one of its functions is first
 * needed, and returns what the file returns.
 */
void bounded_set_loader(lua_State *L);

/* Pushes a function of lua/bounded.lua. */
void bounded_push_in_lua(lua_State *L, const char *library, const char *name);

/* Calls the function in Lua with all that is on the stack.  Answers how many results there are. */
int bounded_call_in_lua(lua_State *L);

/* How long a string may be. */
size_t bounded_longest(lua_State *L);

/* Raises the error that Lua's own functions raise for a string that would be too long. */
int bounded_too_large(lua_State *L);

/* Whether a table has a field, raw.  The index must not be relative to the top. */
bool bounded_has_field(lua_State *L, int table, const char *name);

/* Pushes a metamethod of a table or userdata.  False, with nothing pushed, if it has none. */
bool bounded_push_metamethod(lua_State *L, int index, const char *name);

/* Raises if the result of a `__tostring`, at the top, is not a string. */
void bounded_check_described(lua_State *L);

#endif
