/*
 * The part of a module that is written in Lua: lua/events.lua, lua/eventloop.lua.
 *
 * The Lua file gets a table `private` with functions in C.  It leaves a table of its own in the
 * field `host` of `private`: functions that C calls.  That table is kept in the registry, under a
 * key that is the address of a variable of the module.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_API_LUA_PART_H
#define ORR_LUA_API_LUA_PART_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct embedded;

/*
 * Runs the file with the table of the module `orrery` and the arguments above it on the stack, the
 * last of which is `private`: [orrery] [arguments...] -> [orrery].  Keeps private.host.  A
 * late file gets its origin in the place of `orrery`.  May raise.
 */
void lua_part_open(lua_State *L, const struct embedded *file, int arguments, const void *key);

/* Whether the file has run, so that C has functions to call.  Never raises. */
bool lua_part_is_open(lua_State *L, const void *key);

/* Pushes one of the functions that C calls.  Makes the API if it is late.  May raise. */
void lua_part_push(lua_State *L, const void *key, const char *name);

/* Releases these functions.  May raise. */
void lua_part_forget(lua_State *L, const void *key);

#endif
