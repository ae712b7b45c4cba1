/*
 * Source text on its way to Lua's compiler, in pieces of at most 64 bytes: before each it is asked whether the call is being
 * ended, so that compiling a long text can be.
 *
 * Both push the function and answer 0.  Else:
 *   -EPROTO   it does not compile, or was ended: the message is pushed
 *   -EFBIG    longer than `limit` (0: no limit); nothing is pushed, nor by the others
 *   -ENOMEM, or what reading the file came to
 */
#ifndef ORR_LUA_SANDBOX_SOURCE_H
#define ORR_LUA_SANDBOX_SOURCE_H

#include "lua/isolate.h"

struct source_options {
    struct orr_isolate *iso;
    const char *name; /* of the chunk, as lua_load() has it */
    const char *mode; /* "t" for text only */
    size_t limit;
};

int source_load_text(lua_State *L, const char *text, size_t size, const struct source_options *options);

/* The descriptor of a regular file, which stays the caller's.  A first line that begins with # is passed over. */
int source_load_file(lua_State *L, int fd, const struct source_options *options);

#endif
