/* The module `fs` of scripts.  The isolate's worker's thread. */
#ifndef ORR_LUA_FS_MODULE_H
#define ORR_LUA_FS_MODULE_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Makes the classes, runs lua/fs.lua and fs_tree.lua: see struct late_module.  May raise. */
void fs_module_run(struct orr_isolate *iso, lua_State *L);

#endif
