/* Functions on names of files, for lua/fs.lua.  The isolate's worker's thread. */
#ifndef ORR_LUA_FS_FILE_FUNCTIONS_H
#define ORR_LUA_FS_FILE_FUNCTIONS_H

#include "lua/isolate/compat.h"

struct orr_file_answer;
struct orr_isolate;

/* Adds them to the table at the top of L.  May raise. */
void file_functions_open(struct orr_isolate *iso, lua_State *L);

/* Pushes what is known about a file, as a table. */
int file_push_stat(lua_State *L, const struct orr_file_answer *answer);

#endif
