/*
 * Paths such as `game.screen.size`: names of fields, from the table of globals that scripts share.
 * Lookup uses no metamethods, so it runs no code of scripts.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_HOST_GLOBAL_PATH_H
#define ORR_LUA_HOST_GLOBAL_PATH_H

#include "lua/isolate/compat.h"

#include <stdbool.h>

/* Whether the path, which may be NULL, has a name in each of its parts. */
bool global_path_is_valid(const char *path);

/* Pushes the value at a path, or nil.  May raise. */
void global_path_push(lua_State *L, const char *path);

/*
 * Sets the value at a path to the one value that `push` pushes, which may raise.  Missing tables on
 * the path are created.  Never raises.  Returns 0, -ENOMEM, or -ENOTDIR if something on the path is
 * not a table.
 */
int global_path_set(lua_State *L, const char *path, void (*push)(lua_State *L, void *data), void *data);

#endif
