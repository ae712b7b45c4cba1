/*
 * Reads of fields that an object of the API does not have.
 *
 * Such a read gives nil, as always in Lua.  Here the last few are remembered: when a call of that
 * nil fails, the error can say what to write instead (task/hint.h).  A watched table has a
 * metatable whose `__index` notes the key.  So a field that exists costs nothing, and a field that
 * does not costs one call of a C function.
 *
 * All watched tables share one metatable.  The registry has a table of their names, by table, which
 * does not keep them alive.
 * A read holds no reference: the addresses in it are compared, never followed.
 *
 * Only the isolate's worker thread may call these functions.
 */
#ifndef ORR_LUA_ISOLATE_MISSING_H
#define ORR_LUA_ISOLATE_MISSING_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

struct orr_isolate;

enum {
    MISSING_KEPT = 8,  /* the reads that are remembered */
    MISSING_NAME = 40, /* bytes of a key with its final zero; reads of longer keys are not noted */
};

/* A place in a script: where a field is read, or where an error is raised. */
struct missing_place {
    const void *function;
    int line; /* -1 if it is not known */
};

struct missing_read {
    const void *object; /* the watched table */
    struct missing_place place;
    char key[MISSING_NAME];
};

struct missing {
    struct missing_read last[MISSING_KEPT];
    unsigned count; /* reads so far */
};

/* Makes the tables in the registry.  May raise. */
void missing_open(struct orr_isolate *iso, lua_State *L);

/*
 * Watches the table at the top of L, under a name: that of a module, or of what the methods in it
 * belong to.  Keeps its metatable, if it has one, and adds `__index` to it.  An `__index` that is
 * there already must call missing_note() itself.  May raise.
 */
void missing_watch(lua_State *L, const char *name);

/* watch(table, name): missing_watch() for Lua.  Returns the table. */
int missing_watch_from_lua(lua_State *L);

/* Notes that the running function has read the key at `key` from the watched table at `object`. */
void missing_note(struct orr_isolate *iso, lua_State *L, int object, int key);

/* The place of the innermost function of a script, from a level of the stack on. */
struct missing_place missing_find_place(lua_State *L, int level);

/*
 * Finds a read of `key` in the statement at a place, or anywhere if that is NULL.  Pushes the
 * watched table and its name, and returns true; or pushes nothing.  Needs four slots.
 */
bool missing_find(struct orr_isolate *iso, lua_State *L, const char *key, const struct missing_place *place);

/* Pushes the table of the names of all watched tables, by table. */
void missing_push_watched(lua_State *L);

#endif
