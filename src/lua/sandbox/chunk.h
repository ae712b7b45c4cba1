/*
 * Source text that becomes functions of untrusted scripts: `load`, and the modules that they
 * require.
 */
#ifndef ORR_LUA_SANDBOX_CHUNK_H
#define ORR_LUA_SANDBOX_CHUNK_H

#include "lua/isolate.h"

/* `load`.  Upvalues: the isolate; the globals. */
int chunk_load(lua_State *L);

/*
 * load_module(name, globals): the function, and the path of its file; or nil, and the paths that
 * were tried.
 */
int chunk_load_module(lua_State *L);

#endif
