/*
 * Stack traces of coroutines, in the format of luaL_traceback().  Two differences bound the time
 * that a script can make them take: names are cut, and the search for a function's name in loaded
 * modules looks at a limited number of fields.
 *
 * The isolate's worker's thread.  All functions that push may raise if memory runs out.
 */
#ifndef ORR_LUA_LIMITS_STACK_TRACE_H
#define ORR_LUA_LIMITS_STACK_TRACE_H

#include "lua/isolate/compat.h"

#include <stdbool.h>
#include <stddef.h>

struct chain;

/* The most bytes of an error's stack traces.  Longer traces are cut, with a note of their size. */
enum { STACK_TRACE_MAX = 8192 };

/* Pushes the stack trace of a coroutine, starting at a level. */
void stack_trace_push(lua_State *L, lua_State *co, int level);

/*
 * Pushes the stack trace of L and of the coroutines that resumed it (`chain`), cut to
 * STACK_TRACE_MAX bytes.
 */
void stack_trace_push_chain(lua_State *L, const struct chain *chain, int level);

/* Cuts the text on top to `most` bytes, and appends its old length: "... (7340032 bytes)". */
void stack_trace_cut(lua_State *L, size_t most);

/*
 * Replaces the function on top with its name in a loaded module.  Pops it and returns false if it
 * has none.  Looks at no more than `*fields` fields, and subtracts those that it looked at.
 */
bool stack_trace_push_name(lua_State *L, int *fields);

/* Whether a level is in a script, not in Orrery's own Lua code.  Needs lua_getinfo() with "S". */
bool stack_trace_is_of_script(const lua_Debug *at);

/*
 * Finds the innermost function of a script on the stack of a coroutine, starting at a level, and
 * fills in `at` with "Sl".  False if there is none.
 */
bool stack_trace_find_script(lua_State *co, int level, lua_Debug *at);

/* Pushes "file:line" of the function that stack_trace_find_script() finds, or an empty text. */
void stack_trace_push_location(lua_State *L, lua_State *co, int level);

#endif
