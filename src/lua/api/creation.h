/*
 * Where a script has made something: "file:line", for reports and leak checks.  It is remembered
 * only while the isolate debugs (async.debug(), or an isolate made for testing).
 */
#ifndef ORR_LUA_API_CREATION_H
#define ORR_LUA_API_CREATION_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* How many user values an object needs for it: 1 or 0. */
int creation_slots(const struct orr_isolate *iso);

/* Keeps it in a user value of the object at the top of L, if there is a slot for it.  May raise. */
void creation_keep(const struct orr_isolate *iso, lua_State *L, int slot);

/*
 * Appends a description to a list, after giving it the field `created` from a user value of an
 * anchored object: [list] [description] -> [list].  May raise.
 */
void creation_append(struct orr_isolate *iso, lua_State *L, int anchor, int slot);

/*
 * A function for Lua files of ours: returns where the script is that has called them, or nothing.
 */
int creation_where(lua_State *L);

#endif
