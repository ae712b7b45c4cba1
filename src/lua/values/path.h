/*
 * The path to a value inside of others, for error messages: args[2].items[3]["odd key"].  The keys
 * are read from the stack of a walk (walk.h), raw.
 */
#ifndef ORR_LUA_VALUES_PATH_H
#define ORR_LUA_VALUES_PATH_H

#include "lua/isolate/compat.h"

enum { VALUES_ERROR_SLOTS = 6 }; /* of L's stack that callers of an encoder leave free */

struct path {
    const char *root;
    int number;    /* of the value among several, from 1; 0 if there is only one */
    int first_key; /* its index on the stack; the next key is two above */
    int depth;     /* how many keys */
};

/*
 * Pushes "PATH: REASON", or Lua's message if there is no memory for that.  NULL as the reason
 * stands for a lack of memory.  Needs four slots of the stack.  Never raises.
 */
void path_push_error(lua_State *L, const struct path *path, const char *reason);

#endif
