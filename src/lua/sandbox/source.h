/*
 * Source text on its way to Lua's compiler, in pieces of at most 64 bytes.  Before each piece the
 * deadline of the running call is checked, so that compiling a long text can be ended.
 *
 * Both functions push the function and answer 0.  Otherwise:
 *   -EPROTO   the text does not compile, or the call was ended: the message is pushed
 *   -EFBIG    the text is longer than `limit`: nothing is pushed
 *   -ENOMEM, or an error of read(): nothing is pushed
 */
#ifndef ORR_LUA_SANDBOX_SOURCE_H
#define ORR_LUA_SANDBOX_SOURCE_H

#include "lua/isolate.h"

struct source_options {
    struct orr_isolate *iso;
    const char *name; /* of the chunk, as lua_load() takes it */
    const char *mode; /* "t" for text only */
    size_t limit;     /* in bytes; 0 for none */
};

int source_load_text(lua_State *L, const char *text, size_t size, const struct source_options *options);

/*
 * Reads a regular file; the caller closes the descriptor.  A first line that begins with # is
 * skipped.
 */
int source_load_file(lua_State *L, int fd, const struct source_options *options);

/* [function] [globals] -> [function], with these globals. */
void source_set_globals(lua_State *L);

#endif
