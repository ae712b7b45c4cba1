/*
 * Stack traces of coroutines, as luaL_traceback() writes them, except for two things that a script
 * could make it take any time for: names are cut, and the name that a loaded module has for a
 * function is searched in a bounded number of fields.
 *
 * The isolate's worker's thread.  All functions that push may raise, for lack of memory.
 */
#ifndef ORR_LUA_LIMITS_STACK_TRACE_H
#define ORR_LUA_LIMITS_STACK_TRACE_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct chain;

/*
 * Bytes that are kept of the stacks that an error was raised on: beyond, they are cut, and say so.
 */
enum { STACK_TRACE_MAX = 8192 };

/* Pushes the stack of a coroutine from a level on. */
void stack_trace_push(lua_State *L, lua_State *co, int level);

/*
 * Pushes the stack of L, and of those coroutines inside which it was resumed, as far as there is
 * room.
 */
void stack_trace_push_chain(lua_State *L, const struct chain *chain, int level);

/* Cuts the text at the top to a length, and says so: "... (7340032 bytes)". */
void stack_trace_cut(lua_State *L, size_t most);

/*
 * The function at the top is replaced by its name in a loaded module; or popped, and the answer is
 * false.  Looks at `*fields` fields at most, and counts them down.
 */
bool stack_trace_push_name(lua_State *L, int *fields);

/* Whether a level, asked for "S", is in a script, and not in Lua of ours. */
bool stack_trace_is_of_script(const lua_Debug *at);

/*
 * Finds the innermost function of a script's, from a level of a coroutine on, and asks for "Sl";
 * false if there is none.
 */
bool stack_trace_find_script(lua_State *co, int level, lua_Debug *at);

/* Pushes "file:line" of that function; or an empty text. */
void stack_trace_push_location(lua_State *L, lua_State *co, int level);

#endif
