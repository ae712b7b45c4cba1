/* Source text that becomes functions of scripts: `load`, and the modules that untrusted scripts require. */
#ifndef ORR_LUA_SANDBOX_CHUNK_H
#define ORR_LUA_SANDBOX_CHUNK_H

#include "lua/isolate.h"

/* `load` for untrusted scripts.  Upvalues: the isolate, a function that reads all the pieces of a source, the globals. */
int chunk_load(lua_State *L);

/* load_module(name, globals): the function and the file it is from; or nil, and where it was looked for. */
int chunk_load_module(lua_State *L);

#endif
