/*
 * Where in the values something is, for messages: args[2].items[3]["odd key"].  The walk over the values keeps one key and one value
 * on the stack for each table that it is in; the keys are read from there, raw, so nothing is allocated and nothing raised.
 */
#ifndef ORR_LUA_VALUES_PATH_H
#define ORR_LUA_VALUES_PATH_H

#include "lua/isolate/compat.h"

struct path {
    const char *root;
    int number;    /* of the value, from 1 on; 0 if there is but one */
    int first_key; /* on the stack, the next is two above */
    int depth;     /* keys */
};

/*
 * Pushes "PATH: REASON", or if there is no memory for that, Lua's message about it; never raises.  Needs four slots of the stack.  A
 * reason that is NULL stands for a lack of memory.
 */
void path_push_error(lua_State *L, const struct path *path, const char *reason);

#endif
