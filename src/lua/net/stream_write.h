/* Writing to streams.  The isolate's worker's thread. */
#ifndef ORR_LUA_NET_STREAM_WRITE_H
#define ORR_LUA_NET_STREAM_WRITE_H

#include "lua/isolate/compat.h"

/* write(...): strings, numbers, or one list of them. */
int stream_write(lua_State *L);

#endif
