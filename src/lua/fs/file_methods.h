/*
 * Methods of streams of files, for lua/fs.lua: what a file has and a stream has not.  On another
 * stream they answer nil and an error with the code "ESPIPE".
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_FS_FILE_METHODS_H
#define ORR_LUA_FS_FILE_METHODS_H

#include "lua/isolate/compat.h"

struct orr_isolate;

/* Adds them to the table at the top of L.  May raise. */
void file_methods_open(struct orr_isolate *iso, lua_State *L);

#endif
