/*
 * Reading from streams.
 *
 * A read that cannot be answered leaves all bytes in the stream: a function makes the Lua string
 * first, which may raise, and removes the bytes from the stream's buffer then.
 *
 * The isolate's worker's thread.
 */
#ifndef ORR_LUA_NET_STREAM_READ_H
#define ORR_LUA_NET_STREAM_READ_H

#include "lua/isolate/compat.h"

/* read([max or "l", "L", "a"]), read_exactly(n), read_line([max]), read_until(text, [max]),
 * read_all([max]) */
int stream_read(lua_State *L);
int stream_read_exactly(lua_State *L);
int stream_read_line(lua_State *L);
int stream_read_until(lua_State *L);
int stream_read_all(lua_State *L);

/* lines([max]): an iterator over the lines, which raises what has failed. */
int stream_lines(lua_State *L);

/* __call, for a loop over the stream: the next bytes.  Raises what has failed. */
int stream_next(lua_State *L);

#endif
